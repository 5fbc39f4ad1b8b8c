//! What `ibv_create_qp_ex` may ask for.

use crate::guard::Errno;
use crate::layout::{ibv_pd, ibv_qp_init_attr, ibv_qp_init_attr_ex};
use crate::objects::{UNRELIABLE_CONNECTION, UNRELIABLE_DATAGRAM};
use core::ffi::c_int;

/// A request that was looked through.
pub(crate) struct ExtendedRequest {
    pub(crate) domain: *mut ibv_pd,
    pub(crate) attributes: ibv_qp_init_attr,
    /// The operations that will be built with the functions of `struct ibv_qp_ex`.
    pub(crate) send_operations: Option<u64>,
}

/// `enum ibv_qp_init_attr_mask`: a domain, creation flags, operations.
pub(crate) const HAS_DOMAIN: u32 = 1;
const HAS_CREATE_FLAGS: u32 = 1 << 2;
const HAS_SEND_OPERATIONS: u32 = 1 << 6;
/// The mask bits that verbs.h defines; another one is from a newer header than we know.
const KNOWN: u32 = 0b111_1111;

/// `enum ibv_qp_create_send_ops_flags`, as far as it is there.
const WRITES: u64 = 0b11;
const SENDS: u64 = 0b11 << 2;
const READS_AND_ATOMICS: u64 = 0b111 << 4;
const SEND_WITH_INVALIDATE: u64 = 1 << 9;

/// The operations that the functions of `struct ibv_qp_ex` build for a service. Which services
/// there are is for creation to say.
fn operations_of(service: c_int) -> u64 {
    match service {
        UNRELIABLE_DATAGRAM => SENDS,
        UNRELIABLE_CONNECTION => SENDS | WRITES,
        _ => SENDS | WRITES | READS_AND_ATOMICS | SEND_WITH_INVALIDATE,
    }
}

/// Refuses what is not there.
pub(crate) fn check(initial: &ibv_qp_init_attr_ex) -> Result<ExtendedRequest, Errno> {
    if initial.comp_mask & !KNOWN != 0 || initial.comp_mask & HAS_DOMAIN == 0 {
        return Err(Errno::INVALID);
    }
    let supported = HAS_DOMAIN | HAS_CREATE_FLAGS | HAS_SEND_OPERATIONS;
    let has_flags = initial.comp_mask & HAS_CREATE_FLAGS != 0 && initial.create_flags != 0;
    let operations =
        (initial.comp_mask & HAS_SEND_OPERATIONS != 0).then_some(initial.send_ops_flags);
    if initial.comp_mask & !supported != 0
        || has_flags
        || operations.is_some_and(|operations| operations & !operations_of(initial.qp_type) != 0)
    {
        return Err(Errno::NOT_SUPPORTED);
    }
    Ok(ExtendedRequest {
        domain: initial.pd,
        attributes: ibv_qp_init_attr {
            qp_context: initial.qp_context,
            send_cq: initial.send_cq,
            recv_cq: initial.recv_cq,
            srq: initial.srq,
            cap: initial.cap,
            qp_type: initial.qp_type,
            sq_sig_all: initial.sq_sig_all,
        },
        send_operations: operations,
    })
}
