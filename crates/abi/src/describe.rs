//! Devices and ports in the words of verbs.h.

use crate::guard::Errno;
use crate::layout::*;
use crate::objects::copy_text;
use converb::{Device, DeviceAttributes, Gid, Port};
use core::ffi::c_int;

/// `IBV_GID_TYPE_ROCE_V2`.
const GID_TYPE_ROCE_V2: u32 = 2;
/// `IBV_LINK_LAYER_ETHERNET`.
const LINK_LAYER_ETHERNET: u8 = 2;
/// `IBV_PORT_CM_SUP` and `IBV_PORT_IP_BASED_GIDS`.
const PORT_CAPABILITIES: u32 = 1 << 16 | 1 << 26;
/// `IBV_MTU_4096`.
const MTU_4096: c_int = 5;
/// The one partition, with full membership.
const DEFAULT_PARTITION: u16 = 0xffff;

/// `struct ibv_device_attr`.
pub(crate) fn device(device: &Device) -> ibv_device_attr {
    let all = DeviceAttributes::ALL;
    // SAFETY: all fields are integers.
    let mut attributes: ibv_device_attr = unsafe { core::mem::zeroed() };
    copy_text(&mut attributes.fw_ver, all.firmware_version);
    attributes.node_guid = device.node_guid().to_be();
    attributes.sys_image_guid = device.node_guid().to_be();
    attributes.max_mr_size = all.max_region_bytes;
    attributes.page_size_cap = 0xffff_f000;
    attributes.vendor_id = all.vendor_id;
    attributes.vendor_part_id = all.vendor_part_id;
    attributes.hw_ver = all.hardware_version;
    attributes.max_qp = all.max_queue_pairs as c_int;
    attributes.max_qp_wr = all.max_work_requests as c_int;
    attributes.device_cap_flags = all.capability_flags;
    attributes.max_sge = all.max_scatter_gather as c_int;
    attributes.max_sge_rd = all.max_scatter_gather as c_int;
    attributes.max_cq = all.max_completion_queues as c_int;
    attributes.max_cqe = all.max_completions as c_int;
    attributes.max_mr = all.max_regions as c_int;
    attributes.max_pd = all.max_protection_domains as c_int;
    attributes.max_qp_rd_atom = c_int::from(all.max_reads);
    attributes.max_res_rd_atom = c_int::from(all.max_reads) * all.max_queue_pairs as c_int;
    attributes.max_qp_init_rd_atom = c_int::from(all.max_reads);
    attributes.atomic_cap = all.atomic_capability as c_int;
    attributes.max_ah = all.max_address_handles as c_int;
    attributes.max_srq = all.max_queue_pairs as c_int;
    attributes.max_srq_wr = all.max_work_requests as c_int;
    attributes.max_srq_sge = all.max_scatter_gather as c_int;
    attributes.max_pkeys = 1;
    attributes.local_ca_ack_delay = all.ack_delay;
    attributes.phys_port_cnt = 1;
    attributes
}

/// `struct ibv_device_attr_ex`.
pub(crate) fn device_extended(device: &Device) -> ibv_device_attr_ex {
    // SAFETY: all fields are integers.
    let mut attributes: ibv_device_attr_ex = unsafe { core::mem::zeroed() };
    attributes.orig_attr = self::device(device);
    attributes.device_cap_flags_ex = u64::from(attributes.orig_attr.device_cap_flags);
    attributes.phys_port_cnt_ex = 1;
    attributes
}

/// `struct ibv_port_attr`.
pub(crate) fn port(port: &Port) -> ibv_port_attr {
    // SAFETY: all fields are integers.
    let mut attributes: ibv_port_attr = unsafe { core::mem::zeroed() };
    attributes.state = port.state as c_int;
    attributes.max_mtu = MTU_4096;
    attributes.active_mtu = port.active_mtu as c_int;
    attributes.gid_tbl_len = port.gids.len() as c_int;
    attributes.port_cap_flags = PORT_CAPABILITIES;
    attributes.max_msg_sz = 1 << 31;
    attributes.pkey_tbl_len = 1;
    attributes.max_vl_num = 1;
    attributes.active_width = port.active_width;
    attributes.active_speed = port.active_speed;
    attributes.phys_state = port.physical_state;
    attributes.link_layer = LINK_LAYER_ETHERNET;
    attributes
}

/// `union ibv_gid`.
pub(crate) fn gid(gid: Gid) -> ibv_gid {
    ibv_gid { raw: GidBytes(gid.0) }
}

/// `struct ibv_gid_entry`.
pub(crate) fn gid_entry(device: &Device, index: u32, gid: Gid) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: self::gid(gid),
        gid_index: index,
        port_num: converb::PORT.into(),
        gid_type: GID_TYPE_ROCE_V2,
        ndev_ifindex: device.interface_index(),
    }
}

/// The partition key at an index: there is one.
pub(crate) fn partition_key(port: u8, index: c_int) -> Result<u16, Errno> {
    if port == converb::PORT && index == 0 { Ok(DEFAULT_PARTITION) } else { Err(Errno::INVALID) }
}
