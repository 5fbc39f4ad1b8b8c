//! `struct ibv_qp` and `struct ibv_qp_ex` in one.

use super::{
    Acknowledgement, CompletionQueueObject, ProtectionDomainObject, SharedReceiveQueueObject,
    c_object, next_handle,
};
use crate::builder::Builder;
use crate::guard::Errno;
use crate::layout::{ibv_cq, ibv_pd, ibv_qp, ibv_qp_ex, ibv_qp_init_attr, ibv_srq};
use converb::iba::Service;
use converb::{Capacities, QueuePair, QueuePairOptions};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use std::sync::Arc;

/// A queue pair as programs see it.
#[repr(C)]
pub(crate) struct QueuePairObject {
    public: UnsafeCell<ibv_qp_ex>,
    queue_pair: Arc<QueuePair>,
    pub(crate) async_events: Acknowledgement,
    pub(crate) builder: Builder,
    program_context: *mut c_void,
    send_queue: *mut ibv_cq,
    receive_queue: *mut ibv_cq,
    shared_receives: *mut ibv_srq,
    kind: c_int,
    /// Whether it was created for the builder functions (`IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`).
    has_builder: bool,
}

c_object!(QueuePairObject, ibv_qp_ex);

/// `enum ibv_qp_type`, as far as it is there.
pub(super) const RELIABLE_CONNECTION: c_int = 2;
pub(crate) const UNRELIABLE_CONNECTION: c_int = 3;
pub(crate) const UNRELIABLE_DATAGRAM: c_int = 4;

/// The service that a type of queue pair gives.
pub(super) fn service(kind: c_int) -> Result<Service, Errno> {
    match kind {
        RELIABLE_CONNECTION => Ok(Service::ReliableConnection),
        UNRELIABLE_CONNECTION => Ok(Service::UnreliableConnection),
        UNRELIABLE_DATAGRAM => Ok(Service::UnreliableDatagram),
        _ => Err(Errno::NOT_SUPPORTED),
    }
}

impl QueuePairObject {
    /// # Safety
    /// The domain, and what the attributes point to, are alive.
    pub(crate) unsafe fn allocate(
        domain: *mut ibv_pd,
        attributes: &ibv_qp_init_attr,
        send_operations: Option<u64>,
    ) -> Result<*mut ibv_qp_ex, Errno> {
        if attributes.send_cq.is_null() || attributes.recv_cq.is_null() {
            return Err(Errno::INVALID);
        }
        let service = service(attributes.qp_type)?;
        let shared_receives = if attributes.srq.is_null() {
            None
        } else {
            // SAFETY: the caller's promise.
            let shared = unsafe { SharedReceiveQueueObject::from_pointer(attributes.srq) };
            Some(Arc::clone(shared.queue()))
        };
        // SAFETY: the caller's promise.
        let (object, send, receive) = unsafe {
            (
                ProtectionDomainObject::from_pointer(domain),
                CompletionQueueObject::from_smaller(attributes.send_cq),
                CompletionQueueObject::from_smaller(attributes.recv_cq),
            )
        };
        // The object's own address is its number in events, so the queue pair is made for a place.
        let place = Box::<Self>::new_uninit();
        let options = QueuePairOptions {
            send_queue: Arc::clone(send.queue()),
            receive_queue: Arc::clone(receive.queue()),
            service,
            capacities: Capacities {
                sends: attributes.cap.max_send_wr,
                receives: if shared_receives.is_some() { 0 } else { attributes.cap.max_recv_wr },
                send_entries: attributes.cap.max_send_sge,
                receive_entries: attributes.cap.max_recv_sge,
                inline_bytes: attributes.cap.max_inline_data,
            },
            signal_all: attributes.sq_sig_all != 0,
            shared_receives,
            number: place.as_ptr().expose_provenance() as u64,
        };
        let queue_pair = QueuePair::new(object.domain(), options)
            .map_err(crate::complain::about("create a queue pair"))?;
        // SAFETY: all fields are integers, pointers, optional functions, a mutex and a condition,
        // for which zero is a value (the initialisers of the latter are zero).
        let mut public: ibv_qp_ex = unsafe { core::mem::zeroed() };
        public.qp_base.context = object.context_pointer();
        public.qp_base.qp_context = attributes.qp_context;
        public.qp_base.pd = domain;
        public.qp_base.send_cq = attributes.send_cq;
        public.qp_base.recv_cq = attributes.recv_cq;
        public.qp_base.srq = attributes.srq;
        public.qp_base.handle = next_handle();
        public.qp_base.qp_num = queue_pair.qpn().value();
        public.qp_base.state = queue_pair.state() as c_int;
        public.qp_base.qp_type = attributes.qp_type;
        if send_operations.is_some() {
            crate::builder::fill(&mut public);
        }
        let object = Self {
            public: UnsafeCell::new(public),
            queue_pair,
            async_events: Acknowledgement::default(),
            builder: Builder::default(),
            program_context: attributes.qp_context,
            send_queue: attributes.send_cq,
            receive_queue: attributes.recv_cq,
            shared_receives: attributes.srq,
            kind: attributes.qp_type,
            has_builder: send_operations.is_some(),
        };
        Ok(Box::into_raw(Box::write(place, object)).cast())
    }

    /// The object that a program's pointer to the smaller structure means.
    ///
    /// # Safety
    /// As for [`Self::from_pointer`].
    pub(crate) unsafe fn from_smaller<'a>(pointer: *mut ibv_qp) -> &'a Self {
        const { assert!(core::mem::offset_of!(ibv_qp_ex, qp_base) == 0) };
        // SAFETY: the caller's promise; the smaller structure is first in the larger.
        unsafe { Self::from_pointer(pointer.cast()) }
    }

    /// The object that an event's number means.
    pub(crate) fn pointer_of_number(number: u64) -> *mut ibv_qp {
        core::ptr::with_exposed_provenance_mut(number as usize)
    }

    pub(crate) fn queue_pair(&self) -> &Arc<QueuePair> {
        &self.queue_pair
    }

    pub(crate) fn has_builder(&self) -> bool {
        self.has_builder
    }

    /// What the program created it with, as `ibv_query_qp` tells it.
    pub(crate) fn initial_attributes(&self) -> ibv_qp_init_attr {
        let options = self.queue_pair.options();
        ibv_qp_init_attr {
            qp_context: self.program_context,
            send_cq: self.send_queue,
            recv_cq: self.receive_queue,
            srq: self.shared_receives,
            cap: crate::attributes::capacities(&options.capacities),
            qp_type: self.kind,
            sq_sig_all: c_int::from(options.signal_all),
        }
    }
}
