//! The local route header, with which packets begin inside an InfiniBand subnet.

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A local identifier: an address inside an InfiniBand subnet (IBA 4.1.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lid(pub u16);

/// The local route header (IBA 7.7).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-------+-------+-------+---+---+-------------------------------+
/// |  VL   | LVer  |  SL   |rsv|LNH|             DLID              |
/// +-------+-+-----+-------+---+---+-------------------------------+
/// |reserved |       PktLen        |             SLID              |
/// +---------+---------------------+-------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lrh {
    /// VL, 4 bits: the virtual lane, which changes from link to link.
    pub virtual_lane: u8,
    /// LVer, 4 bits: the version of the link, 0.
    pub link_version: u8,
    /// SL, 4 bits.
    pub service_level: u8,
    /// The 2 bits after SL, 0 unless someone uses them against the specification.
    pub reserved_2: u8,
    /// LNH: what follows.
    pub next: LinkNextHeader,
    /// Whom the packet is for.
    pub destination: Lid,
    /// The 5 bits before PktLen, 0 unless someone uses them against the specification.
    pub reserved_5: u8,
    /// PktLen, 11 bits: the length in words of four bytes, from the first byte of this header to
    /// the last before the variant CRC.
    pub packet_words: u16,
    /// Who sent it.
    pub source: Lid,
}

/// What follows an LRH, in the order of the numbers (IBA 7.7.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LinkNextHeader {
    /// A raw packet of some EtherType.
    Raw,
    /// A raw IPv6 packet.
    Ipv6,
    /// A BTH: the packet stays in the subnet.
    #[default]
    Bth,
    /// A GRH, and behind it a BTH.
    Grh,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    lane_and_version: u8,
    level_and_next: u8,
    destination: U16,
    packet_words: U16,
    source: U16,
}

const _: () = assert!(size_of::<Layout>() == Lrh::LENGTH);

impl Lrh {
    /// The length on the wire.
    pub const LENGTH: usize = 8;

    /// The header at the start of `bytes` and all that follows it; `None` if `bytes` is too short.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = Layout::ref_from_prefix(bytes).ok()?;
        let packet_words = wire.packet_words.get();
        let header = Self {
            virtual_lane: wire.lane_and_version >> 4,
            link_version: wire.lane_and_version & 0xf,
            service_level: wire.level_and_next >> 4,
            reserved_2: (wire.level_and_next >> 2) & 0x3,
            next: match wire.level_and_next & 0x3 {
                0 => LinkNextHeader::Raw,
                1 => LinkNextHeader::Ipv6,
                2 => LinkNextHeader::Bth,
                _ => LinkNextHeader::Grh,
            },
            destination: Lid(wire.destination.get()),
            reserved_5: (packet_words >> 11) as u8,
            packet_words: packet_words & 0x07ff,
            source: Lid(wire.source.get()),
        };
        Some((header, rest))
    }

    /// Writes the header over the first 8 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let next = match self.next {
            LinkNextHeader::Raw => 0,
            LinkNextHeader::Ipv6 => 1,
            LinkNextHeader::Bth => 2,
            LinkNextHeader::Grh => 3,
        };
        let wire = Layout {
            lane_and_version: self.virtual_lane << 4 | self.link_version & 0xf,
            level_and_next: self.service_level << 4 | (self.reserved_2 & 0x3) << 2 | next,
            destination: U16::new(self.destination.0),
            packet_words: U16::new(u16::from(self.reserved_5) << 11 | self.packet_words & 0x07ff),
            source: U16::new(self.source.0),
        };
        bytes[..Self::LENGTH].copy_from_slice(wire.as_bytes());
    }
}
