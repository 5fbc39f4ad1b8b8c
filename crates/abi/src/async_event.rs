//! Asynchronous events in the words of verbs.h.

use crate::layout::ibv_async_event;
use crate::objects::{
    Acknowledgement, CompletionQueueObject, QueuePairObject, SharedReceiveQueueObject,
};
use converb::{Element, Event};
use core::ffi::{c_int, c_void};

/// The event as the program gets it; from now on its object waits for the acknowledgement.
///
/// # Safety
/// The event's object is alive: events of destroyed objects are withdrawn.
pub(crate) unsafe fn deliver(event: Event) -> ibv_async_event {
    let element: *mut c_void = match event.element {
        Element::CompletionQueue(number) => {
            let pointer = CompletionQueueObject::pointer_of_number(number);
            // SAFETY: the caller's promise.
            unsafe { CompletionQueueObject::from_smaller(pointer) }.async_events.deliver();
            pointer.cast()
        }
        Element::QueuePair(number) => {
            let pointer = QueuePairObject::pointer_of_number(number);
            // SAFETY: the caller's promise.
            unsafe { QueuePairObject::from_smaller(pointer) }.async_events.deliver();
            pointer.cast()
        }
        Element::SharedReceiveQueue(number) => {
            let pointer = SharedReceiveQueueObject::pointer_of_number(number);
            // SAFETY: the caller's promise.
            unsafe { SharedReceiveQueueObject::from_pointer(pointer) }.async_events.deliver();
            pointer.cast()
        }
        Element::Device => core::ptr::null_mut(),
        // The union's other member is an `int`, at its start.
        Element::Port(port) => {
            let mut element = core::ptr::null_mut::<c_void>();
            // SAFETY: a pointer is larger than an `int` and no less aligned.
            unsafe { (&raw mut element).cast::<c_int>().write(c_int::from(port)) };
            element
        }
    };
    ibv_async_event { element, event_type: event.kind as c_int }
}

/// The program has seen the event.
///
/// # Safety
/// The event comes from [`deliver`], and its object is alive.
pub(crate) unsafe fn acknowledge(event: &ibv_async_event) {
    /// `IBV_EVENT_CQ_ERR`, and the events of queue pairs.
    const OF_COMPLETION_QUEUES: c_int = 0;
    const OF_QUEUE_PAIRS: [c_int; 8] = [1, 2, 3, 4, 5, 6, 7, 16];
    const OF_SHARED_RECEIVES: [c_int; 2] = [14, 15];
    if event.event_type == OF_COMPLETION_QUEUES {
        let queue = event.element.cast::<crate::layout::ibv_cq>();
        // SAFETY: the caller's promise.
        unsafe {
            Acknowledgement::acknowledge(
                &raw mut (*queue).mutex,
                &raw mut (*queue).cond,
                &raw mut (*queue).async_events_completed,
                1,
            );
        }
    } else if OF_SHARED_RECEIVES.contains(&event.event_type) {
        let queue = event.element.cast::<crate::layout::ibv_srq>();
        // SAFETY: the caller's promise.
        unsafe {
            Acknowledgement::acknowledge(
                &raw mut (*queue).mutex,
                &raw mut (*queue).cond,
                &raw mut (*queue).events_completed,
                1,
            );
        }
    } else if OF_QUEUE_PAIRS.contains(&event.event_type) {
        let queue_pair = event.element.cast::<crate::layout::ibv_qp>();
        // SAFETY: the caller's promise.
        unsafe {
            Acknowledgement::acknowledge(
                &raw mut (*queue_pair).mutex,
                &raw mut (*queue_pair).cond,
                &raw mut (*queue_pair).events_completed,
                1,
            );
        }
    }
}
