//! The queues of identifiers: queue pairs, with completion queues where the program has none, and
//! shared receive queues.

use crate::entry::{completion, queue_pair, shared_receive};
use crate::extended_attributes::HAS_DOMAIN;
use crate::guard::{self, Errno};
use crate::layout::*;
use crate::objects::IdentifierObject;
use core::ffi::c_int;
use core::ptr::null_mut;

pub(crate) unsafe extern "C" fn create_qp(
    id: *mut rdma_cm_id,
    domain: *mut ibv_pd,
    initial: *mut ibv_qp_init_attr,
) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive, the domain null or alive, the attributes whole.
        unsafe {
            let mut extended = extend(&*initial, domain);
            create(id, &mut extended)?;
            (*initial).cap = extended.cap;
        }
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn create_qp_ex(
    id: *mut rdma_cm_id,
    initial: *mut ibv_qp_init_attr_ex,
) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive, and the attributes whole.
        unsafe {
            if (*initial).comp_mask & HAS_DOMAIN == 0 {
                (*initial).comp_mask |= HAS_DOMAIN;
                (*initial).pd = null_mut();
            }
            create(id, &mut *initial)?;
        }
        Ok(0)
    })
}

fn extend(initial: &ibv_qp_init_attr, domain: *mut ibv_pd) -> ibv_qp_init_attr_ex {
    // SAFETY: all fields are integers and pointers, for which zero is a value.
    let mut extended: ibv_qp_init_attr_ex = unsafe { core::mem::zeroed() };
    extended.qp_context = initial.qp_context;
    extended.send_cq = initial.send_cq;
    extended.recv_cq = initial.recv_cq;
    extended.srq = initial.srq;
    extended.cap = initial.cap;
    extended.qp_type = initial.qp_type;
    extended.sq_sig_all = initial.sq_sig_all;
    extended.comp_mask = HAS_DOMAIN;
    extended.pd = domain;
    extended
}

/// # Safety
/// The identifier is alive, and so is what the attributes name.
pub(super) unsafe fn create(
    id: *mut rdma_cm_id,
    initial: &mut ibv_qp_init_attr_ex,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe {
        let object = IdentifierObject::from_pointer(id);
        if !(*id).qp.is_null() || initial.qp_type != (*id).qp_type {
            return Err(Errno::INVALID);
        }
        initial.pd = object.domain(initial.pd)?;
        let (sends, receives) = (initial.cap.max_send_wr, initial.cap.max_recv_wr);
        if initial.send_cq.is_null() {
            let made = CompletionQueue::make(id, sends)?;
            ((*id).send_cq_channel, (*id).send_cq) = (made.channel, made.queue);
            object.own().has_send_queue = true;
            initial.send_cq = made.queue;
        }
        if initial.recv_cq.is_null() {
            let made = match CompletionQueue::make(id, receives) {
                Ok(made) => made,
                Err(error) => {
                    destroy_queues(id);
                    return Err(error);
                }
            };
            ((*id).recv_cq_channel, (*id).recv_cq) = (made.channel, made.queue);
            object.own().has_receive_queue = true;
            initial.recv_cq = made.queue;
        }
        if initial.srq.is_null() {
            initial.srq = (*id).srq;
        }
        let created = queue_pair::create_qp_ex((*id).verbs, initial);
        if created.is_null() {
            let error = std::io::Error::last_os_error().into();
            destroy_queues(id);
            return Err(error);
        }
        (*id).qp = created;
        (*id).pd = initial.pd;
        // It may lie where one lay that the program has destroyed without a word.
        object.lose_queue_pair();
        object.take_queue_pair();
        if let Err(error) = object.identifier().prepare() {
            destroy(id);
            return Err(error.into());
        }
        object.publish_state();
    }
    Ok(())
}

/// A completion queue of the library's, which has a channel of its own.
struct CompletionQueue {
    channel: *mut ibv_comp_channel,
    queue: *mut ibv_cq,
}

impl CompletionQueue {
    /// # Safety
    /// The identifier is alive and has a context.
    unsafe fn make(id: *mut rdma_cm_id, size: u32) -> Result<Self, Errno> {
        let last_error = || std::io::Error::last_os_error().into();
        // SAFETY: the caller's promise.
        unsafe {
            let channel = completion::create_comp_channel((*id).verbs);
            if channel.is_null() {
                return Err(last_error());
            }
            let size = size.clamp(1, c_int::MAX as u32) as c_int;
            let queue = completion::create_cq((*id).verbs, size, id.cast(), channel, 0);
            if queue.is_null() {
                let error = last_error();
                completion::destroy_comp_channel(channel);
                return Err(error);
            }
            Ok(Self { channel, queue })
        }
    }

    /// # Safety
    /// Both are alive, and used no more.
    unsafe fn destroy(self) {
        // SAFETY: the caller's promise.
        unsafe {
            completion::destroy_cq(self.queue);
            completion::destroy_comp_channel(self.channel);
        }
    }
}

pub(crate) unsafe extern "C" fn destroy_qp(id: *mut rdma_cm_id) {
    // SAFETY: the identifier is alive, and its queue pair is used no more.
    guard::value((), || unsafe { destroy(id) });
}

/// # Safety
/// As for [`destroy_qp`].
unsafe fn destroy(id: *mut rdma_cm_id) {
    // SAFETY: the caller's promise.
    unsafe {
        let queue_pair = core::mem::replace(&mut (*id).qp, null_mut());
        IdentifierObject::from_pointer(id).lose_queue_pair();
        if !queue_pair.is_null() {
            queue_pair::destroy_qp(queue_pair);
        }
        destroy_queues(id);
    }
}

/// # Safety
/// The identifier is alive, and nothing uses its completion queues.
unsafe fn destroy_queues(id: *mut rdma_cm_id) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut own = IdentifierObject::from_pointer(id).own();
        if core::mem::take(&mut own.has_send_queue) {
            CompletionQueue { channel: (*id).send_cq_channel, queue: (*id).send_cq }.destroy();
            ((*id).send_cq_channel, (*id).send_cq) = (null_mut(), null_mut());
        }
        if core::mem::take(&mut own.has_receive_queue) {
            CompletionQueue { channel: (*id).recv_cq_channel, queue: (*id).recv_cq }.destroy();
            ((*id).recv_cq_channel, (*id).recv_cq) = (null_mut(), null_mut());
        }
    }
}

pub(crate) unsafe extern "C" fn create_srq(
    id: *mut rdma_cm_id,
    domain: *mut ibv_pd,
    initial: *mut ibv_srq_init_attr,
) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive, the domain null or alive, the attributes whole.
        unsafe {
            if !(*id).srq.is_null() {
                return Err(Errno::INVALID);
            }
            let domain = IdentifierObject::from_pointer(id).domain(domain)?;
            let created = shared_receive::create_srq(domain, initial);
            if created.is_null() {
                return Err(std::io::Error::last_os_error().into());
            }
            ((*id).srq, (*id).pd) = (created, domain);
        }
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn destroy_srq(id: *mut rdma_cm_id) {
    guard::value((), || {
        // SAFETY: the identifier is alive, and its shared receive queue is used no more.
        unsafe {
            let queue = core::mem::replace(&mut (*id).srq, null_mut());
            if !queue.is_null() {
                shared_receive::destroy_srq(queue);
            }
        }
    });
}
