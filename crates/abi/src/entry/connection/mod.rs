//! Connections by address: the functions of librdmacm. They return -1 and set `errno`.

pub(crate) mod endpoints;
pub(crate) mod enhanced;
pub(crate) mod establishing;
pub(crate) mod events;
pub(crate) mod identifiers;
pub(crate) mod names;
pub(crate) mod queues;
pub(crate) mod unsupported;

use crate::guard::Errno;
use crate::layout::{rdma_cm_event, rdma_cm_id};
use crate::objects::IdentifierObject;
use core::ffi::c_int;

/// Waits for what comes of a call, if the identifier is synchronous (its channel is its own).
///
/// # Safety
/// The identifier is alive, and what is returned is 0.
unsafe fn complete(id: *mut rdma_cm_id) -> Result<c_int, Errno> {
    // SAFETY: the caller's promise.
    unsafe {
        if !IdentifierObject::from_pointer(id).own().is_synchronous {
            return Ok(0);
        }
        acknowledge_last(id);
        let event = events::next((*id).channel)?;
        (*id).event = event;
        outcome(event)
    }
}

/// Acknowledges the event that the last call left in a synchronous identifier.
///
/// # Safety
/// The identifier is alive.
unsafe fn acknowledge_last(id: *mut rdma_cm_id) {
    // SAFETY: the caller's promise; the event is ours until it is acknowledged.
    unsafe {
        let last = core::mem::replace(&mut (*id).event, core::ptr::null_mut());
        if !last.is_null() {
            events::acknowledge(last);
        }
    }
}

/// What an event says of the call that it belongs to.
///
/// # Safety
/// The event is alive.
unsafe fn outcome(event: *mut rdma_cm_event) -> Result<c_int, Errno> {
    // SAFETY: the caller's promise.
    let (kind, status) = unsafe { ((*event).event, (*event).status) };
    match status {
        0 => Ok(0),
        _ if kind == converb::cm::EventKind::Rejected as c_int => Err(Errno(libc::ECONNREFUSED)),
        // Above 0 it is what a peer says, and no error number.
        status if status > 0 => Err(Errno(libc::ECONNREFUSED)),
        status => Err(Errno(-status)),
    }
}
