//! Completions in the words of verbs.h.

use crate::guard::Errno;
use crate::layout::ibv_wc;
use converb::{Completion, CompletionQueue, Extra};
use core::ffi::c_int;

/// Completions fetched at a time.
const BATCH: usize = 16;

/// `enum ibv_wc_flags`.
const WITH_GRH: u32 = 1;
const WITH_IMMEDIATE: u32 = 1 << 1;
const WITH_INVALIDATED: u32 = 1 << 3;

/// Fills `count` places with the oldest completions; returns how many there were.
///
/// # Safety
/// There is room for `count` completions at `places`.
pub(crate) unsafe fn poll(
    queue: &CompletionQueue,
    count: c_int,
    places: *mut ibv_wc,
) -> Result<c_int, Errno> {
    let wanted = usize::try_from(count).map_err(|_| Errno::INVALID)?;
    let mut batch = [Completion::default(); BATCH];
    let mut filled = 0;
    while filled < wanted {
        let asked = BATCH.min(wanted - filled);
        let found = queue.poll(&mut batch[..asked])?;
        for completion in &batch[..found] {
            // SAFETY: the caller's promise: `filled` is less than `wanted`.
            unsafe { places.add(filled).write(described(completion)) };
            filled += 1;
        }
        if found < asked {
            break;
        }
    }
    Ok(filled as c_int)
}

/// `struct ibv_wc`.
pub(crate) fn described(completion: &Completion) -> ibv_wc {
    ibv_wc {
        wr_id: completion.wr_id,
        status: completion.status as c_int,
        opcode: completion.kind as c_int,
        vendor_err: completion.vendor_error,
        byte_len: completion.byte_length,
        imm_data: immediate_or_key(completion),
        qp_num: completion.qpn.value(),
        src_qp: completion.source_qpn.value(),
        wc_flags: flags(completion),
        pkey_index: 0,
        slid: 0,
        sl: completion.service_level,
        dlid_path_bits: 0,
    }
}

/// Immediate data in network order, or an invalidated key in host order.
pub(crate) fn immediate_or_key(completion: &Completion) -> u32 {
    match completion.extra {
        Extra::None => 0,
        Extra::Immediate(value) => value.to_be(),
        Extra::Invalidated(key) => key.0,
    }
}

/// `enum ibv_wc_flags`.
pub(crate) fn flags(completion: &Completion) -> u32 {
    let extra = match completion.extra {
        Extra::None => 0,
        Extra::Immediate(_) => WITH_IMMEDIATE,
        Extra::Invalidated(_) => WITH_INVALIDATED,
    };
    extra | if completion.with_grh { WITH_GRH } else { 0 }
}
