//! `struct ibv_cq` and `struct ibv_cq_ex` in one.

use super::{Acknowledgement, CompletionChannelObject, ContextObject, c_object, next_handle};
use crate::extended_poll::ExtendedPoll;
use crate::guard::Errno;
use crate::layout::{ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex};
use converb::CompletionQueue;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use std::sync::Arc;

/// A completion queue as programs see it.
#[repr(C)]
pub(crate) struct CompletionQueueObject {
    public: UnsafeCell<ibv_cq_ex>,
    queue: Arc<CompletionQueue>,
    pub(crate) completion_events: Acknowledgement,
    pub(crate) async_events: Acknowledgement,
    pub(crate) extended: ExtendedPoll,
}

c_object!(CompletionQueueObject, ibv_cq_ex);

/// What `ibv_create_cq` and `ibv_create_cq_ex` ask for.
pub(crate) struct CompletionQueueRequest {
    pub(crate) capacity: usize,
    pub(crate) program_context: *mut c_void,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) vector: u32,
}

impl CompletionQueueObject {
    /// # Safety
    /// The context is open; the channel is null or alive.
    pub(crate) unsafe fn allocate(
        context: *mut ibv_context,
        request: &CompletionQueueRequest,
    ) -> Result<*mut ibv_cq_ex, Errno> {
        // SAFETY: the caller's promise.
        let object = unsafe { ContextObject::from_pointer(context) };
        if request.vector >= object.vectors() {
            return Err(Errno::INVALID);
        }
        let channel = if request.channel.is_null() {
            None
        } else {
            // SAFETY: the caller's promise.
            Some(unsafe { CompletionChannelObject::from_pointer(request.channel) }.channel())
        };
        // The object's own address is its number in events, so the queue is made for a place.
        let place = Box::<Self>::new_uninit();
        let number = place.as_ptr().expose_provenance() as u64;
        let queue = CompletionQueue::new(object.context(), request.capacity, channel, number)
            .map_err(crate::complain::about("create a completion queue"))?;
        // SAFETY: all fields are integers, pointers, optional functions, a mutex and a condition,
        // for which zero is a value (the initialisers of the latter are zero).
        let mut public: ibv_cq_ex = unsafe { core::mem::zeroed() };
        public.context = context;
        public.channel = request.channel;
        public.cq_context = request.program_context;
        public.handle = next_handle();
        public.cqe = queue.capacity() as c_int;
        crate::extended_poll::fill(&mut public);
        let object = Self {
            public: UnsafeCell::new(public),
            queue,
            completion_events: Acknowledgement::default(),
            async_events: Acknowledgement::default(),
            extended: ExtendedPoll::default(),
        };
        Ok(Box::into_raw(Box::write(place, object)).cast())
    }

    /// The object that a program's pointer to the smaller structure means.
    ///
    /// # Safety
    /// As for [`Self::from_pointer`].
    pub(crate) unsafe fn from_smaller<'a>(pointer: *mut ibv_cq) -> &'a Self {
        const {
            assert!(
                offset_of!(ibv_cq, comp_events_completed)
                    == offset_of!(ibv_cq_ex, comp_events_completed)
            );
        };
        // SAFETY: the caller's promise; both structures begin alike.
        unsafe { Self::from_pointer(pointer.cast()) }
    }

    /// The object that an event's number means.
    pub(crate) fn pointer_of_number(number: u64) -> *mut ibv_cq {
        core::ptr::with_exposed_provenance_mut(number as usize)
    }

    pub(crate) fn queue(&self) -> &Arc<CompletionQueue> {
        &self.queue
    }

    /// Waits until all events of the queue are acknowledged.
    ///
    /// # Safety
    /// The pointer is to a living object.
    pub(crate) unsafe fn wait_for_acknowledgements(pointer: *mut ibv_cq) {
        // SAFETY: the caller's promise.
        unsafe {
            let object = Self::from_smaller(pointer);
            let (mutex, condition) = (&raw mut (*pointer).mutex, &raw mut (*pointer).cond);
            let completions = &raw mut (*pointer).comp_events_completed;
            object.completion_events.wait(mutex, condition, completions);
            let asynchronous = &raw mut (*pointer).async_events_completed;
            object.async_events.wait(mutex, condition, asynchronous);
        }
    }
}
