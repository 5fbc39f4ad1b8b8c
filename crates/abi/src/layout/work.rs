//! Work requests and work completions.

use super::*;
use core::ffi::{c_int, c_uint, c_void};

c_structs! {
    struct ibv_sge {
        addr: u64,
        length: u32,
        lkey: u32,
    }

    struct ibv_recv_wr {
        wr_id: u64,
        next: *mut ibv_recv_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
    }

    struct ibv_mw_bind_info {
        mr: *mut ibv_mr,
        addr: u64,
        length: u64,
        mw_access_flags: c_uint,
    }

    struct ibv_send_wr {
        wr_id: u64,
        next: *mut ibv_send_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        opcode: c_int,
        send_flags: c_uint,
        /// A union without a name: immediate data in network order, or a key to invalidate.
        imm_data: u32,
        wr: RemoteWork,
        qp_type: u32,
        /// A union without a name, which no operation that is supported uses.
        bind_mw: BindWindow,
    }

    struct ibv_wc {
        wr_id: u64,
        status: c_int,
        opcode: c_int,
        vendor_err: u32,
        byte_len: u32,
        /// A union without a name: immediate data in network order, or an invalidated key.
        imm_data: u32,
        qp_num: u32,
        src_qp: u32,
        wc_flags: c_uint,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
    }

    struct ibv_global_route {
        dgid: ibv_gid,
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
    }

    struct ibv_grh {
        version_tclass_flow: u32,
        paylen: u16,
        next_hdr: u8,
        hop_limit: u8,
        sgid: ibv_gid,
        dgid: ibv_gid,
    }
}

/// The union `wr` of `struct ibv_send_wr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union RemoteWork {
    pub(crate) rdma: RemoteMemory,
    pub(crate) atomic: RemoteAtomic,
    pub(crate) ud: RemoteQueuePair,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RemoteMemory {
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RemoteAtomic {
    pub(crate) remote_addr: u64,
    pub(crate) compare_add: u64,
    pub(crate) swap: u64,
    pub(crate) rkey: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RemoteQueuePair {
    pub(crate) ah: *mut ibv_ah,
    pub(crate) remote_qpn: u32,
    pub(crate) remote_qkey: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct BindWindow {
    pub(crate) mw: *mut c_void,
    pub(crate) rkey: u32,
    pub(crate) bind_info: ibv_mw_bind_info,
}
