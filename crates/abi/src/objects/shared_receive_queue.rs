//! `struct ibv_srq`.

use super::{Acknowledgement, ProtectionDomainObject, c_object, next_handle};
use crate::guard::Errno;
use crate::layout::{ibv_pd, ibv_srq, ibv_srq_init_attr};
use converb::SharedReceiveQueue;
use core::cell::UnsafeCell;
use std::sync::Arc;

/// A shared receive queue as programs see it.
#[repr(C)]
pub(crate) struct SharedReceiveQueueObject {
    public: UnsafeCell<ibv_srq>,
    queue: Arc<SharedReceiveQueue>,
    pub(crate) async_events: Acknowledgement,
}

c_object!(SharedReceiveQueueObject, ibv_srq);

impl SharedReceiveQueueObject {
    /// # Safety
    /// The domain is alive.
    pub(crate) unsafe fn allocate(
        domain: *mut ibv_pd,
        initial: &ibv_srq_init_attr,
    ) -> Result<*mut ibv_srq, Errno> {
        // SAFETY: the caller's promise.
        let object = unsafe { ProtectionDomainObject::from_pointer(domain) };
        // The object's own address is its number in events, so the queue is made for a place.
        let place = Box::<Self>::new_uninit();
        let number = place.as_ptr().expose_provenance() as u64;
        let (capacity, entries) = (initial.attr.max_wr, initial.attr.max_sge);
        let queue = SharedReceiveQueue::new(object.domain(), capacity, entries, number)
            .map_err(crate::complain::about("create a shared receive queue"))?;
        // SAFETY: all fields are integers, pointers, a mutex and a condition, for which zero is a
        // value (the initialisers of the latter are zero).
        let mut public: ibv_srq = unsafe { core::mem::zeroed() };
        public.context = object.context_pointer();
        public.srq_context = initial.srq_context;
        public.pd = domain;
        public.handle = next_handle();
        let object = Self {
            public: UnsafeCell::new(public),
            queue,
            async_events: Acknowledgement::default(),
        };
        Ok(Box::into_raw(Box::write(place, object)).cast())
    }

    /// The object that an event's number means.
    pub(crate) fn pointer_of_number(number: u64) -> *mut ibv_srq {
        core::ptr::with_exposed_provenance_mut(number as usize)
    }

    pub(crate) fn queue(&self) -> &Arc<SharedReceiveQueue> {
        &self.queue
    }
}
