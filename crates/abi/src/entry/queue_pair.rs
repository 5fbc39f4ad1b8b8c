//! Queue pairs: creating, changing, asking, posting.

use crate::attributes;
use crate::extended_attributes;
use crate::guard::{self, Errno};
use crate::layout::*;
use crate::objects::{ProtectionDomainObject, QueuePairObject};
use crate::posting;
use core::ffi::c_int;

pub(crate) unsafe extern "C" fn create_qp(
    domain: *mut ibv_pd,
    initial: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    guard::pointer(|| {
        // SAFETY: the domain is alive, and the program passes the structure.
        unsafe {
            let created = QueuePairObject::allocate(domain, &*initial, None)?;
            (*initial).cap = QueuePairObject::from_pointer(created).initial_attributes().cap;
            Ok(created.cast())
        }
    })
}

pub(crate) unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    initial: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    guard::pointer(|| {
        // SAFETY: the program passes the structure.
        let request = extended_attributes::check(unsafe { &*initial })?;
        // SAFETY: the domain is alive.
        if unsafe { ProtectionDomainObject::from_pointer(request.domain) }.context_pointer()
            != context
        {
            return Err(Errno::INVALID);
        }
        // SAFETY: the domain is alive, and the program passes the structure.
        unsafe {
            let created = QueuePairObject::allocate(
                request.domain,
                &request.attributes,
                request.send_operations,
            )?;
            (*initial).cap = QueuePairObject::from_pointer(created).initial_attributes().cap;
            Ok(created.cast())
        }
    })
}

pub(crate) unsafe extern "C" fn qp_to_qp_ex(queue_pair: *mut ibv_qp) -> *mut ibv_qp_ex {
    guard::value(core::ptr::null_mut(), || {
        // SAFETY: the queue pair is alive.
        let has_builder = unsafe { QueuePairObject::from_smaller(queue_pair) }.has_builder();
        if has_builder { queue_pair.cast() } else { core::ptr::null_mut() }
    })
}

pub(crate) unsafe extern "C" fn modify_qp(
    queue_pair: *mut ibv_qp,
    requested: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    guard::status(|| {
        // SAFETY: the queue pair is alive, and the program passes the structure.
        let (object, requested) =
            unsafe { (QueuePairObject::from_smaller(queue_pair), &*requested) };
        let inner = object.queue_pair();
        let (requested, mask) = attributes::requested(inner.domain().context(), requested, mask)?;
        inner.modify(&requested, mask)?;
        // SAFETY: the queue pair is alive.
        unsafe { (*queue_pair).state = inner.state() as c_int };
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn query_qp(
    queue_pair: *mut ibv_qp,
    current: *mut ibv_qp_attr,
    _mask: c_int,
    initial: *mut ibv_qp_init_attr,
) -> c_int {
    guard::status(|| {
        // SAFETY: the queue pair is alive.
        let object = unsafe { QueuePairObject::from_smaller(queue_pair) };
        let inner = object.queue_pair();
        let found = attributes::current(
            inner.domain().context(),
            &inner.query()?,
            &inner.options().capacities,
        );
        // SAFETY: the queue pair is alive, and the program passes room for both structures.
        unsafe {
            (*queue_pair).state = found.qp_state;
            current.write(found);
            initial.write(object.initial_attributes());
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn destroy_qp(queue_pair: *mut ibv_qp) -> c_int {
    guard::status(|| {
        // SAFETY: the queue pair is alive, and used no more.
        unsafe {
            let object = QueuePairObject::from_smaller(queue_pair);
            object.queue_pair().close();
            object.async_events.wait(
                &raw mut (*queue_pair).mutex,
                &raw mut (*queue_pair).cond,
                &raw mut (*queue_pair).events_completed,
            );
            QueuePairObject::free(queue_pair.cast());
        }
        Ok(())
    })
}

/// Data of one packet may be placed in any order, and packets may be kept until a missing one
/// comes; only the end of a message is placed last.
pub(crate) extern "C" fn query_qp_data_in_order(
    _queue_pair: *mut ibv_qp,
    _operation: c_int,
    _flags: u32,
) -> c_int {
    0
}

/// The operation in the context behind `ibv_post_send`.
pub(crate) unsafe extern "C" fn post_send(
    queue_pair: *mut ibv_qp,
    first: *mut ibv_send_wr,
    refused: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the queue pair is alive, the list well formed, and `refused` a place for a pointer.
    unsafe {
        posting::report(first, refused, || {
            posting::post_sends(QueuePairObject::from_smaller(queue_pair).queue_pair(), first)
        })
    }
}

/// The operation in the context behind `ibv_post_recv`.
pub(crate) unsafe extern "C" fn post_recv(
    queue_pair: *mut ibv_qp,
    first: *mut ibv_recv_wr,
    refused: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the queue pair is alive, the list well formed, and `refused` a place for a pointer.
    unsafe {
        posting::report(first, refused, || {
            let inner = QueuePairObject::from_smaller(queue_pair).queue_pair();
            posting::post_receives(|requests| inner.post_receive(requests), first)
        })
    }
}

/// Enhanced connection establishment: there are no options of ours to agree on.
pub(crate) extern "C" fn set_ece(_queue_pair: *mut ibv_qp, _options: *mut ibv_ece) -> c_int {
    guard::status(|| Err(Errno::NOT_SUPPORTED))
}

/// As [`set_ece`].
pub(crate) extern "C" fn query_ece(_queue_pair: *mut ibv_qp, _options: *mut ibv_ece) -> c_int {
    guard::status(|| Err(Errno::NOT_SUPPORTED))
}
