//! What a device can do (`struct ibv_device_attr`): the same for every device.

/// The attributes of a device. They promise no more than is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAttributes {
    /// The version of this software, where NICs tell their firmware's.
    pub firmware_version: &'static str,
    /// Who made the device.
    pub vendor_id: u32,
    /// Which device of that vendor it is.
    pub vendor_part_id: u32,
    /// Its revision.
    pub hardware_version: u32,
    /// Bytes in one memory region at most.
    pub max_region_bytes: u64,
    /// Queue pairs of a process at most.
    pub max_queue_pairs: u32,
    /// Work requests in one queue at most.
    pub max_work_requests: u32,
    /// Scatter-gather entries of a work request at most.
    pub max_scatter_gather: u32,
    /// Bytes of inline data of a work request at most.
    pub max_inline_bytes: u32,
    /// Completion queues at most.
    pub max_completion_queues: u32,
    /// Completions in one queue at most.
    pub max_completions: u32,
    /// Memory regions at most.
    pub max_regions: u32,
    /// Protection domains at most.
    pub max_protection_domains: u32,
    /// READs and atomics in flight of one queue pair at most, in either direction.
    pub max_reads: u8,
    /// Address handles at most.
    pub max_address_handles: u32,
    /// What the device can do besides (`enum ibv_device_cap_flags`).
    pub capability_flags: u32,
    /// How long an acknowledgement may be under way inside the device: 4.096 us times two to this
    /// power.
    pub ack_delay: u8,
    /// Whether atomics work, and are atomic toward whom (`enum ibv_atomic_cap`).
    pub atomic_capability: u32,
}

/// Ids are what some programs go by, so they are chosen with care:
/// - perftest goes by the part id alone for most vendors, and turns inline data off for parts that
///   it does not know (and then says so if inline data was asked for). 4119 is a NIC for which it
///   uses its defaults everywhere; other known parts make it lower the MTU or the inline size.
/// - UCX, Open MPI and DPDK know NICs by vendor *and* part and then use their private interfaces.
///   No vendor has the id below, which is a locally administered OUI, so they treat the device as
///   any other.
/// - A vendor id of 0x1425 or 0x8086 makes perftest read the part id by that vendor's numbers.
const VENDOR_ID: u32 = 0x02_c0_4e;
const VENDOR_PART_ID: u32 = 4119;

/// `enum ibv_device_cap_flags`: the current state may be named in modify; port events; a system
/// image GUID; RNR NAKs for RC; shared receive queues change their size.
const CAPABILITY_FLAGS: u32 = 1 << 7 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 13;

/// `IBV_ATOMIC_GLOB`: atomics of peers are done with the processor's own instructions, so they are
/// atomic toward everything in the machine.
const ATOMIC_AMONG_ALL: u32 = 2;

impl DeviceAttributes {
    /// The attributes of every device.
    pub const ALL: Self = Self {
        firmware_version: env!("CARGO_PKG_VERSION"),
        vendor_id: VENDOR_ID,
        vendor_part_id: VENDOR_PART_ID,
        hardware_version: 0,
        max_region_bytes: 1 << 47,
        max_queue_pairs: 16_000,
        max_work_requests: 16_384,
        max_scatter_gather: 32,
        max_inline_bytes: 1024,
        max_completion_queues: 65_536,
        max_completions: 1 << 22,
        max_regions: converb_engine::memory::KeyTable::REGIONS_MAX as u32,
        max_protection_domains: 65_536,
        // As many as rdma_rxe has: perftest asks for the peer's depth, and what is larger than ours
        // is refused.
        max_reads: 128,
        max_address_handles: 65_536,
        capability_flags: CAPABILITY_FLAGS,
        ack_delay: 15,
        atomic_capability: ATOMIC_AMONG_ALL,
    };
}
