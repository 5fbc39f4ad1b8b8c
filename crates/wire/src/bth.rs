//! The base transport header, with which every packet of the transport begins.

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Opcode, Psn, Qpn};

/// The base transport header (IBA 9.2).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---------------+-+-+---+-------+-------------------------------+
/// |    OpCode     |S|M|Pad| TVer  |             P_Key             |
/// +-+-+-----------+-+-+---+-------+-------------------------------+
/// |F|B| reserved  |              destination QP                   |
/// +-+-+-----------+-----------------------------------------------+
/// |A|  reserved   |                     PSN                       |
/// +-+-------------+-----------------------------------------------+
/// ```
///
/// The byte with F and B is the one that the invariant CRC does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// What kind of packet this is.
    pub opcode: Opcode,
    /// S: the responder should raise an event when the message is complete.
    pub solicited: bool,
    /// M: the path migration state; true for "migrated", which is also what a queue pair without
    /// an alternate path sends.
    pub migration: bool,
    /// How many bytes after the payload only fill it up to a multiple of four, 0 to 3.
    pub pad: u8,
    /// TVer, 4 bits: the version of the transport, 0.
    pub version: u8,
    /// The partition key. 0xFFFF is the default partition, full membership.
    pub partition_key: u16,
    /// F: the packet met congestion on its way.
    pub fecn: bool,
    /// B: the reverse path met congestion.
    pub becn: bool,
    /// The 6 bits after B, 0 unless someone uses them against the specification.
    pub reserved_6: u8,
    /// The queue pair that this packet is for.
    pub destination: Qpn,
    /// A: the responder should acknowledge this packet.
    pub ack_request: bool,
    /// The 7 bits after A, 0 unless someone uses them against the specification.
    pub reserved_7: u8,
    /// The packet sequence number.
    pub psn: Psn,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    opcode: u8,
    flags: u8,
    partition_key: U16,
    congestion_and_destination: U32,
    ack_and_psn: U32,
}

const _: () = assert!(size_of::<Layout>() == Bth::LENGTH);

impl Bth {
    /// The length on the wire.
    pub const LENGTH: usize = 12;
    /// The partition key of the default partition, full membership.
    pub const DEFAULT_PARTITION_KEY: u16 = 0xffff;

    /// A header as most packets have it: default partition, migrated, no pad, nothing requested.
    pub const fn new(opcode: Opcode, destination: Qpn, psn: Psn) -> Self {
        Self {
            opcode,
            solicited: false,
            migration: true,
            pad: 0,
            version: 0,
            partition_key: Self::DEFAULT_PARTITION_KEY,
            fecn: false,
            becn: false,
            reserved_6: 0,
            destination,
            ack_request: false,
            reserved_7: 0,
            psn,
        }
    }

    /// The header at the start of `bytes` and what follows it; `None` if `bytes` is too short.
    /// Neither the opcode nor the version is judged.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = Layout::ref_from_prefix(bytes).ok()?;
        let congestion = wire.congestion_and_destination.get();
        let ack = wire.ack_and_psn.get();
        let header = Self {
            opcode: Opcode(wire.opcode),
            solicited: wire.flags & 0x80 != 0,
            migration: wire.flags & 0x40 != 0,
            pad: (wire.flags >> 4) & 0x3,
            version: wire.flags & 0xf,
            partition_key: wire.partition_key.get(),
            fecn: congestion & 1 << 31 != 0,
            becn: congestion & 1 << 30 != 0,
            reserved_6: (congestion >> 24) as u8 & 0x3f,
            destination: Qpn::new(congestion),
            ack_request: ack & 1 << 31 != 0,
            reserved_7: (ack >> 24) as u8 & 0x7f,
            psn: Psn::new(ack),
        };
        Some((header, rest))
    }

    /// Writes the header over the first 12 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let wire = Layout {
            opcode: self.opcode.0,
            flags: u8::from(self.solicited) << 7
                | u8::from(self.migration) << 6
                | (self.pad & 0x3) << 4
                | self.version & 0xf,
            partition_key: U16::new(self.partition_key),
            congestion_and_destination: U32::new(
                u32::from(self.fecn) << 31
                    | u32::from(self.becn) << 30
                    | u32::from(self.reserved_6 & 0x3f) << 24
                    | self.destination.value(),
            ),
            ack_and_psn: U32::new(
                u32::from(self.ack_request) << 31
                    | u32::from(self.reserved_7 & 0x7f) << 24
                    | self.psn.value(),
            ),
        };
        bytes[..Self::LENGTH].copy_from_slice(wire.as_bytes());
    }
}
