//! Shared receive queues.

use crate::guard::{self, Errno};
use crate::layout::*;
use crate::objects::{SharedReceiveQueueObject, check_unused};
use crate::posting;
use core::ffi::c_int;

/// `enum ibv_srq_attr_mask`.
const CAPACITY: c_int = 1;
const LIMIT: c_int = 1 << 1;

pub(crate) unsafe extern "C" fn create_srq(
    domain: *mut ibv_pd,
    initial: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    guard::pointer(|| {
        // SAFETY: the domain is alive, and the program passes the structure.
        unsafe { SharedReceiveQueueObject::allocate(domain, &*initial) }
    })
}

pub(crate) unsafe extern "C" fn modify_srq(
    queue: *mut ibv_srq,
    requested: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    guard::status(|| {
        if mask & !(CAPACITY | LIMIT) != 0 {
            return Err(Errno::INVALID);
        }
        // SAFETY: the queue is alive, and the program passes the structure.
        let (inner, requested) =
            unsafe { (SharedReceiveQueueObject::from_pointer(queue).queue(), &*requested) };
        if mask & CAPACITY != 0 {
            inner.resize(requested.max_wr)?;
        }
        if mask & LIMIT != 0 {
            inner.set_limit(requested.srq_limit)?;
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn query_srq(
    queue: *mut ibv_srq,
    current: *mut ibv_srq_attr,
) -> c_int {
    guard::status(|| {
        // SAFETY: the queue is alive, and the program passes room for the structure.
        unsafe {
            let inner = SharedReceiveQueueObject::from_pointer(queue).queue();
            current.write(ibv_srq_attr {
                max_wr: inner.capacity(),
                max_sge: inner.entries_max(),
                srq_limit: inner.limit(),
            });
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn destroy_srq(queue: *mut ibv_srq) -> c_int {
    guard::status(|| {
        // SAFETY: the queue is alive, and used no more if it is freed.
        unsafe {
            let object = SharedReceiveQueueObject::from_pointer(queue);
            check_unused(object.queue())?;
            object.queue().close();
            object.async_events.wait(
                &raw mut (*queue).mutex,
                &raw mut (*queue).cond,
                &raw mut (*queue).events_completed,
            );
            SharedReceiveQueueObject::free(queue);
        }
        Ok(())
    })
}

/// The operation in the context behind `ibv_post_srq_recv`.
pub(crate) unsafe extern "C" fn post_srq_recv(
    queue: *mut ibv_srq,
    first: *mut ibv_recv_wr,
    refused: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the queue is alive, the list well formed, and `refused` a place for a pointer.
    unsafe {
        posting::report(first, refused, || {
            let inner = SharedReceiveQueueObject::from_pointer(queue).queue();
            posting::post_receives(|requests| inner.post(requests), first)
        })
    }
}
