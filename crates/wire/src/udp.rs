//! The UDP header, between IP and the BTH in RoCEv2.

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The UDP port to which RoCEv2 packets go (IBA annex A17).
pub const ROCE_V2_PORT: u16 = 4791;

/// The UDP header (RFC 768).
///
/// ```text
/// +-------------------------------+-------------------------------+
/// |          source port          |       destination port        |
/// +-------------------------------+-------------------------------+
/// |            length             |           checksum            |
/// +-------------------------------+-------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Udp {
    /// The sender's port. RoCEv2 uses it only to spread flows over paths.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// The bytes of header and payload together, at least 8.
    pub length: u16,
    /// The checksum as found; 0 means none.
    pub checksum: u16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    source_port: U16,
    destination_port: U16,
    length: U16,
    checksum: U16,
}

const _: () = assert!(size_of::<Layout>() == Udp::LENGTH);

impl Udp {
    /// The length on the wire.
    pub const LENGTH: usize = 8;

    /// A header without checksum. A payload that does not fit into 65,535 bytes with the header is
    /// cut off.
    pub const fn new(source_port: u16, destination_port: u16, payload_length: u16) -> Self {
        let length = payload_length.saturating_add(Self::LENGTH as u16);
        Self { source_port, destination_port, length, checksum: 0 }
    }

    /// The bytes that follow the header.
    pub fn payload_length(&self) -> usize {
        usize::from(self.length).saturating_sub(Self::LENGTH)
    }

    /// The header at the start of `bytes` and all that follows it; `None` if `bytes` is too short
    /// or the length in it is below 8. The checksum is not judged.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = Layout::ref_from_prefix(bytes).ok()?;
        let header = Self {
            source_port: wire.source_port.get(),
            destination_port: wire.destination_port.get(),
            length: wire.length.get(),
            checksum: wire.checksum.get(),
        };
        if usize::from(header.length) < Self::LENGTH { None } else { Some((header, rest)) }
    }

    /// Writes the header over the first 8 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let wire = Layout {
            source_port: U16::new(self.source_port),
            destination_port: U16::new(self.destination_port),
            length: U16::new(self.length),
            checksum: U16::new(self.checksum),
        };
        bytes[..Self::LENGTH].copy_from_slice(wire.as_bytes());
    }
}
