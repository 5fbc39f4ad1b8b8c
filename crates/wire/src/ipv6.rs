//! The IPv6 header, below UDP in RoCEv2.

use core::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::IpProtocol;

/// The IPv6 header (RFC 8200). Extension headers are not looked at.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-------+---------------+---------------------------------------+
/// |   6   | traffic class |              flow label               |
/// +-------+---------------+-------+---------------+---------------+
/// |        payload length         |  next header  |   hop limit   |
/// +-------------------------------+---------------+---------------+
/// |                       source, 16 bytes                        |
/// +---------------------------------------------------------------+
/// |                     destination, 16 bytes                     |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// The traffic class in the upper 6 bits, congestion (ECN) in the lower 2.
    pub traffic_class: u8,
    /// Which flow this belongs to, 20 bits.
    pub flow_label: u32,
    /// The bytes that follow; what the frame holds beyond them is not the packet's.
    pub payload_length: u16,
    /// What follows.
    pub next_header: IpProtocol,
    /// How many routers may still pass this on.
    pub hop_limit: u8,
    /// Who sent it.
    pub source: Ipv6Addr,
    /// Whom it is for.
    pub destination: Ipv6Addr,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    version_class_and_flow: U32,
    payload_length: U16,
    next_header: u8,
    hop_limit: u8,
    source: [u8; 16],
    destination: [u8; 16],
}

const _: () = assert!(size_of::<Layout>() == Ipv6::LENGTH);

impl Ipv6 {
    /// The length on the wire.
    pub const LENGTH: usize = 40;

    /// A header without class and flow.
    pub const fn new(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        next_header: IpProtocol,
        payload_length: u16,
    ) -> Self {
        Self {
            traffic_class: 0,
            flow_label: 0,
            payload_length,
            next_header,
            hop_limit: 64,
            source,
            destination,
        }
    }

    /// The header at the start of `bytes` and all that follows it; `None` if `bytes` is too short
    /// or the version is not 6.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = Layout::ref_from_prefix(bytes).ok()?;
        let first = wire.version_class_and_flow.get();
        if first >> 28 != 6 {
            return None;
        }
        let header = Self {
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0x000f_ffff,
            payload_length: wire.payload_length.get(),
            next_header: IpProtocol(wire.next_header),
            hop_limit: wire.hop_limit,
            source: wire.source.into(),
            destination: wire.destination.into(),
        };
        Some((header, rest))
    }

    /// Writes the header over the first 40 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0x000f_ffff;
        let wire = Layout {
            version_class_and_flow: U32::new(first),
            payload_length: U16::new(self.payload_length),
            next_header: self.next_header.0,
            hop_limit: self.hop_limit,
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        bytes[..Self::LENGTH].copy_from_slice(wire.as_bytes());
    }
}
