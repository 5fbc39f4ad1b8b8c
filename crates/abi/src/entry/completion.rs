//! Completion channels and completion queues.

use crate::completion_flags;
use crate::guard::{self, Errno};
use crate::layout::*;
use crate::objects::{
    Acknowledgement, CompletionChannelObject, CompletionQueueObject, CompletionQueueRequest,
    check_unused,
};
use crate::polling;
use core::ffi::{c_int, c_uint, c_void};

pub(crate) unsafe extern "C" fn create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    // SAFETY: the context is open.
    guard::pointer(|| unsafe { CompletionChannelObject::allocate(context) })
}

pub(crate) unsafe extern "C" fn destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    guard::status(|| {
        // SAFETY: the channel is alive, and used no more if it is freed.
        unsafe {
            check_unused(CompletionChannelObject::from_pointer(channel).channel())?;
            CompletionChannelObject::free(channel);
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn create_cq(
    context: *mut ibv_context,
    capacity: c_int,
    program_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    guard::pointer(|| {
        let request = CompletionQueueRequest {
            capacity: usize::try_from(capacity).map_err(|_| Errno::INVALID)?,
            program_context,
            channel,
            vector: u32::try_from(vector).map_err(|_| Errno::INVALID)?,
        };
        // SAFETY: the context is open and the channel is null or alive.
        Ok(unsafe { CompletionQueueObject::allocate(context, &request) }?.cast())
    })
}

pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attributes: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    guard::pointer(|| {
        // SAFETY: the program passes the structure.
        let attributes = unsafe { &*attributes };
        completion_flags::check(attributes)?;
        let request = CompletionQueueRequest {
            capacity: attributes.cqe as usize,
            program_context: attributes.cq_context,
            channel: attributes.channel,
            vector: attributes.comp_vector,
        };
        // SAFETY: the context is open and the channel is null or alive.
        unsafe { CompletionQueueObject::allocate(context, &request) }
    })
}

pub(crate) unsafe extern "C" fn resize_cq(queue: *mut ibv_cq, capacity: c_int) -> c_int {
    guard::status(|| {
        let capacity = usize::try_from(capacity).map_err(|_| Errno::INVALID)?;
        // SAFETY: the queue is alive.
        unsafe {
            let object = CompletionQueueObject::from_smaller(queue);
            object.queue().resize(capacity)?;
            (*queue).cqe = object.queue().capacity() as c_int;
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn destroy_cq(queue: *mut ibv_cq) -> c_int {
    guard::status(|| {
        // SAFETY: the queue is alive, and used no more if it is freed.
        unsafe {
            let object = CompletionQueueObject::from_smaller(queue);
            check_unused(object.queue())?;
            object.queue().withdraw_events();
            CompletionQueueObject::wait_for_acknowledgements(queue);
            CompletionQueueObject::free(queue.cast());
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn get_cq_event(
    channel: *mut ibv_comp_channel,
    queue: *mut *mut ibv_cq,
    program_context: *mut *mut c_void,
) -> c_int {
    guard::number(|| {
        // SAFETY: the channel is alive.
        let object = unsafe { CompletionChannelObject::from_pointer(channel) };
        let found = object.channel().next_event(|number| {
            let found = CompletionQueueObject::pointer_of_number(number);
            // SAFETY: a queue's events are withdrawn before it is freed.
            unsafe { CompletionQueueObject::from_smaller(found) }.completion_events.deliver();
            found
        })?;
        // SAFETY: the queue is alive until the event is acknowledged; the program passes places
        // for the results.
        unsafe {
            queue.write(found);
            program_context.write((*found).cq_context);
        }
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn ack_cq_events(queue: *mut ibv_cq, count: c_uint) {
    // SAFETY: the queue is alive until its events are acknowledged.
    guard::value((), || unsafe {
        Acknowledgement::acknowledge(
            &raw mut (*queue).mutex,
            &raw mut (*queue).cond,
            &raw mut (*queue).comp_events_completed,
            count,
        );
    });
}

/// The operation in the context behind `ibv_poll_cq`; negative on an error.
pub(crate) unsafe extern "C" fn poll_cq(
    queue: *mut ibv_cq,
    count: c_int,
    places: *mut ibv_wc,
) -> c_int {
    guard::number(|| {
        // SAFETY: the queue is alive, and the program passes room for `count` completions.
        unsafe { polling::poll(CompletionQueueObject::from_smaller(queue).queue(), count, places) }
    })
}

/// The operation in the context behind `ibv_req_notify_cq`.
pub(crate) unsafe extern "C" fn req_notify_cq(queue: *mut ibv_cq, solicited_only: c_int) -> c_int {
    guard::status(|| {
        // SAFETY: the queue is alive.
        let object = unsafe { CompletionQueueObject::from_smaller(queue) };
        Ok(object.queue().arm(solicited_only != 0)?)
    })
}
