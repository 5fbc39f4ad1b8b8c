//! Asynchronous events.

use crate::async_event;
use crate::guard;
use crate::layout::{ibv_async_event, ibv_context};
use crate::objects::ContextObject;
use core::ffi::c_int;

pub(crate) unsafe extern "C" fn get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    guard::number(|| {
        // SAFETY: the context is open.
        let context = unsafe { ContextObject::from_pointer(context) }.context();
        // SAFETY: an object's events are withdrawn before it is freed.
        let next = context.next_event(|next| unsafe { async_event::deliver(next) })?;
        // SAFETY: the program passes room for the event.
        unsafe { event.write(next) };
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: the program passes an event that it got, whose object is alive until now.
    guard::value((), || unsafe { async_event::acknowledge(&*event) });
}
