//! Attributes of queue pairs in the words of verbs.h.

use crate::address;
use crate::guard::Errno;
use crate::layout::{ibv_qp_attr, ibv_qp_cap};
use converb::iba::{AttributeMask, Attributes, Mtu, State};
use converb::memory::Access;
use converb::{Capacities, Context, Psn, Qpn};
use core::ffi::c_int;

/// The mask bits that verbs.h defines; another one is from a newer header than we know.
const KNOWN: u32 = ((1 << 21) - 1) | (1 << 25);
/// `IBV_ACCESS_MW_BIND` and hints: rights that a queue pair accepts and that change nothing.
const ACCESS_KNOWN: u32 = 0b1111 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 0x3ff0_0000;

/// What `ibv_modify_qp` asks for.
pub(crate) fn requested(
    context: &Context,
    attributes: &ibv_qp_attr,
    mask: c_int,
) -> Result<(Attributes, AttributeMask), Errno> {
    let mask = AttributeMask(mask as u32);
    if mask.0 & !KNOWN != 0 {
        return Err(Errno::INVALID);
    }
    let has = |part: AttributeMask| mask.contains(part);
    let mut requested = Attributes {
        destination: Qpn::new(attributes.dest_qp_num),
        queue_key: attributes.qkey,
        receive_psn: Psn::new(attributes.rq_psn),
        send_psn: Psn::new(attributes.sq_psn),
        timeout: attributes.timeout,
        retry_count: attributes.retry_cnt,
        rnr_retry: attributes.rnr_retry,
        min_rnr_timer: attributes.min_rnr_timer,
        max_reads: attributes.max_rd_atomic,
        max_destination_reads: attributes.max_dest_rd_atomic,
        partition_key_index: attributes.pkey_index,
        port: attributes.port_num,
        draining: attributes.en_sqd_async_notify != 0,
        ..Attributes::default()
    };
    // Only what the mask names is looked at: the rest of the structure may be anything.
    if has(AttributeMask::STATE) {
        requested.state = state(attributes.qp_state)?;
    }
    if has(AttributeMask::CURRENT_STATE) {
        requested.current_state = state(attributes.cur_qp_state)?;
    }
    if has(AttributeMask::ACCESS_FLAGS) {
        if attributes.qp_access_flags & !ACCESS_KNOWN != 0 {
            return Err(Errno::INVALID);
        }
        requested.access = Access(attributes.qp_access_flags & 0b1111);
    }
    if has(AttributeMask::PATH_MTU) {
        requested.path_mtu = Mtu::from_code(attributes.path_mtu as u32).ok_or(Errno::INVALID)?;
    }
    if has(AttributeMask::PATH) {
        requested.path = Some(address::path(context, &attributes.ah_attr)?);
    }
    Ok((requested, mask))
}

/// `struct ibv_qp_attr` of a queue pair.
pub(crate) fn current(
    context: &Context,
    attributes: &Attributes,
    sizes: &Capacities,
) -> ibv_qp_attr {
    // SAFETY: all fields are integers.
    let mut current: ibv_qp_attr = unsafe { core::mem::zeroed() };
    current.qp_state = attributes.state as c_int;
    current.cur_qp_state = attributes.state as c_int;
    current.path_mtu = attributes.path_mtu as c_int;
    current.qkey = attributes.queue_key;
    current.rq_psn = attributes.receive_psn.value();
    current.sq_psn = attributes.send_psn.value();
    current.dest_qp_num = attributes.destination.value();
    current.qp_access_flags = attributes.access.0;
    current.cap = capacities(sizes);
    current.pkey_index = attributes.partition_key_index;
    current.sq_draining = u8::from(attributes.draining);
    current.max_rd_atomic = attributes.max_reads;
    current.max_dest_rd_atomic = attributes.max_destination_reads;
    current.min_rnr_timer = attributes.min_rnr_timer;
    current.port_num = attributes.port;
    current.timeout = attributes.timeout;
    current.retry_cnt = attributes.retry_count;
    current.rnr_retry = attributes.rnr_retry;
    if let Some(path) = attributes.path {
        current.ah_attr = address::described(context, &path);
    }
    current
}

/// `struct ibv_qp_cap`.
pub(crate) fn capacities(sizes: &Capacities) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: sizes.sends,
        max_recv_wr: sizes.receives,
        max_send_sge: sizes.send_entries,
        max_recv_sge: sizes.receive_entries,
        max_inline_data: sizes.inline_bytes,
    }
}

fn state(code: c_int) -> Result<State, Errno> {
    State::ALL.into_iter().find(|state| *state as c_int == code).ok_or(Errno::INVALID)
}
