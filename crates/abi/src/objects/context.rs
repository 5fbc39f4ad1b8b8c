//! `struct verbs_context`, with `struct ibv_context` at its end.

use super::DeviceObject;
use crate::entry::{completion, query, queue_pair, shared_receive, unsupported};
use crate::layout::{ABI_IS_EXTENDED, ibv_context, ibv_context_ops, verbs_context};
use converb::Context;
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::offset_of;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// An opened device as programs see it.
#[repr(C)]
pub(crate) struct ContextObject {
    public: UnsafeCell<verbs_context>,
    vectors: u32,
    context: Arc<Context>,
    /// Programs poll `cmd_fd` or print it; nothing ever happens on it.
    _command: OwnedFd,
}

impl ContextObject {
    /// A context, with the operations that exist in their slots. It lives until
    /// [`Self::free`].
    pub(crate) fn allocate(
        device: &'static DeviceObject,
        context: Arc<Context>,
    ) -> std::io::Result<*mut ibv_context> {
        let command = eventfd(0, EventfdFlags::CLOEXEC)?;
        // SAFETY: all fields are integers, pointers, optional functions and a mutex, for which
        // zero is a value (the mutex's is PTHREAD_MUTEX_INITIALIZER).
        let mut public: verbs_context = unsafe { core::mem::zeroed() };
        public.query_port = Some(query::query_port_extended);
        public.query_device_ex = Some(query::query_device_ex);
        public.create_cq_ex = Some(completion::create_cq_ex);
        public.create_qp_ex = Some(queue_pair::create_qp_ex);
        public.close_xrcd = Some(unsupported::close_xrcd);
        public.sz = size_of::<verbs_context>();
        public.context.device = device.as_pointer();
        public.context.ops = operations();
        public.context.cmd_fd = command.as_raw_fd();
        public.context.async_fd = context.async_descriptor().as_raw_fd();
        public.context.num_comp_vectors =
            std::thread::available_parallelism().map_or(1, |count| count.get() as c_int);
        public.context.abi_compat = ABI_IS_EXTENDED;
        let object = Box::new(Self {
            vectors: public.context.num_comp_vectors as u32,
            public: UnsafeCell::new(public),
            context,
            _command: command,
        });
        // SAFETY: the offset lies inside the object.
        Ok(unsafe { Box::into_raw(object).byte_add(Self::CONTEXT_OFFSET).cast() })
    }

    const CONTEXT_OFFSET: usize = offset_of!(Self, public) + offset_of!(verbs_context, context);

    /// The object that a program's pointer means.
    ///
    /// # Safety
    /// The pointer comes from [`Self::allocate`] and has not been freed.
    pub(crate) unsafe fn from_pointer<'a>(pointer: *mut ibv_context) -> &'a Self {
        // SAFETY: the caller's promise; the pointer is to the middle of the object.
        unsafe { &*pointer.byte_sub(Self::CONTEXT_OFFSET).cast() }
    }

    /// Ends the object.
    ///
    /// # Safety
    /// As for [`Self::from_pointer`]; the pointer is not used again.
    pub(crate) unsafe fn free(pointer: *mut ibv_context) {
        // SAFETY: the object was a box before it became this pointer.
        drop(unsafe { Box::from_raw(pointer.byte_sub(Self::CONTEXT_OFFSET).cast::<Self>()) });
    }

    /// How many completion vectors a program may choose from.
    pub(crate) fn vectors(&self) -> u32 {
        self.vectors
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

fn operations() -> ibv_context_ops {
    // SAFETY: all fields are optional functions, for which zero is `None`.
    let mut operations: ibv_context_ops = unsafe { core::mem::zeroed() };
    operations._compat_query_device = Some(query::query_device);
    operations._compat_query_port = Some(query::query_port);
    operations.poll_cq = Some(completion::poll_cq);
    operations.req_notify_cq = Some(completion::req_notify_cq);
    operations.post_srq_recv = Some(shared_receive::post_srq_recv);
    operations.post_send = Some(queue_pair::post_send);
    operations.post_recv = Some(queue_pair::post_recv);
    operations
}
