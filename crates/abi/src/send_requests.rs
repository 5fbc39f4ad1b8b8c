//! Send work requests of verbs.h, turned into the engine's.

use crate::guard::Errno;
use crate::layout::{RemoteWork, ibv_ah, ibv_send_wr, ibv_sge};
use crate::objects::AddressHandleObject;
use converb::work::{DatagramDestination, Operation, RemoteAddress, ScatterGather, SendFlags};
use converb::{Qpn, QueuePair, Rkey};
use core::ffi::c_int;

/// `enum ibv_wr_opcode`.
pub(crate) const WRITE: c_int = 0;
pub(crate) const WRITE_WITH_IMMEDIATE: c_int = 1;
pub(crate) const SEND: c_int = 2;
pub(crate) const SEND_WITH_IMMEDIATE: c_int = 3;
pub(crate) const READ: c_int = 4;
pub(crate) const COMPARE_AND_SWAP: c_int = 5;
pub(crate) const FETCH_AND_ADD: c_int = 6;
pub(crate) const SEND_WITH_INVALIDATE: c_int = 9;

/// `IBV_SEND_INLINE`.
pub(crate) const INLINE: u32 = 1 << 3;

/// `enum ibv_send_flags` but for inline, which says where the bytes are.
pub(crate) fn flags(flags: u32) -> SendFlags {
    SendFlags {
        fence: flags & 1 != 0,
        signaled: flags & 1 << 1 != 0,
        solicited: flags & 1 << 2 != 0,
    }
}

/// The operation of a work request.
///
/// # Safety
/// The union holds what the opcode says.
pub(crate) unsafe fn operation(work: &ibv_send_wr) -> Result<Operation, Errno> {
    let immediate = || u32::from_be(work.imm_data);
    // SAFETY: the caller's promise.
    let remote = || unsafe { remote_memory(&work.wr) };
    Ok(match work.opcode {
        WRITE => Operation::Write(remote()),
        WRITE_WITH_IMMEDIATE => Operation::WriteWithImmediate(remote(), immediate()),
        SEND => Operation::Send,
        SEND_WITH_IMMEDIATE => Operation::SendWithImmediate(immediate()),
        READ => Operation::Read(remote()),
        COMPARE_AND_SWAP | FETCH_AND_ADD => {
            // SAFETY: the caller's promise.
            let atomic = unsafe { work.wr.atomic };
            let remote = RemoteAddress { address: atomic.remote_addr, rkey: Rkey(atomic.rkey) };
            if work.opcode == FETCH_AND_ADD {
                Operation::FetchAndAdd { remote, add: atomic.compare_add }
            } else {
                Operation::CompareAndSwap { remote, compare: atomic.compare_add, swap: atomic.swap }
            }
        }
        SEND_WITH_INVALIDATE => Operation::SendWithInvalidate(Rkey(work.imm_data)),
        _ => return Err(Errno::INVALID),
    })
}

/// Where a datagram goes; `None` without an address handle, and for one of another protection
/// domain than the queue pair's (IBA 10.2.2.2).
///
/// # Safety
/// The union holds the destination of a datagram, whose address handle is null or alive.
pub(crate) unsafe fn destination(
    work: &ibv_send_wr,
    queue_pair: &QueuePair,
) -> Option<DatagramDestination> {
    // SAFETY: the caller's promise.
    let datagram = unsafe { work.wr.ud };
    // SAFETY: the caller's promise.
    unsafe {
        datagram_destination(datagram.ah, queue_pair, datagram.remote_qpn, datagram.remote_qkey)
    }
}

/// As [`destination`], from its parts.
///
/// # Safety
/// The address handle is null or alive.
pub(crate) unsafe fn datagram_destination(
    handle: *mut ibv_ah,
    queue_pair: &QueuePair,
    qpn: u32,
    queue_key: u32,
) -> Option<DatagramDestination> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let handle = unsafe { AddressHandleObject::from_pointer(handle) };
    let path = handle.belongs_to(queue_pair.domain()).then(|| handle.path())?;
    Some(DatagramDestination { path, qpn: Qpn::new(qpn), queue_key })
}

unsafe fn remote_memory(work: &RemoteWork) -> RemoteAddress {
    // SAFETY: the caller's promise.
    let rdma = unsafe { work.rdma };
    RemoteAddress { address: rdma.remote_addr, rkey: Rkey(rdma.rkey) }
}

/// A scatter-gather entry.
pub(crate) fn entry(entry: &ibv_sge) -> ScatterGather {
    ScatterGather { address: entry.addr, length: entry.length, lkey: entry.lkey }
}

/// The program's list of scatter-gather entries.
///
/// # Safety
/// There are `count` entries at `list`, for as long as the slice is used.
pub(crate) unsafe fn entries<'a>(
    list: *const ibv_sge,
    count: c_int,
) -> Result<&'a [ibv_sge], Errno> {
    let count = usize::try_from(count).map_err(|_| Errno::INVALID)?;
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(list, count) })
}
