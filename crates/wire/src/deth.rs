//! The datagram headers: who sent a datagram and with which key, and the channel it came by.

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Qpn;

/// The datagram extended transport header (IBA 9.3.2).
///
/// ```text
/// +---------------------------------------------------------------+
/// |                             Q_Key                             |
/// +---------------+-----------------------------------------------+
/// |   reserved    |                   source QP                   |
/// +---------------+-----------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// The queue key, which must be that of the receiving queue pair.
    pub queue_key: u32,
    /// The sending queue pair.
    pub source: Qpn,
    /// 0 unless someone uses it against the specification.
    pub reserved: u8,
}

/// The reliable datagram extended transport header (IBA 9.3.1).
///
/// ```text
/// +---------------+-----------------------------------------------+
/// |   reserved    |                  EE context                   |
/// +---------------+-----------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rdeth {
    /// The end-to-end context, 24 bits.
    pub end_to_end_context: u32,
    /// 0 unless someone uses it against the specification.
    pub reserved: u8,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    queue_key: U32,
    reserved_and_source: U32,
}

const _: () = assert!(size_of::<Layout>() == Deth::LENGTH);
const _: () = assert!(size_of::<U32>() == Rdeth::LENGTH);

impl Deth {
    /// The length on the wire.
    pub const LENGTH: usize = 8;

    /// The header at the start of `bytes` and what follows it; `None` if `bytes` is too short.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = Layout::ref_from_prefix(bytes).ok()?;
        let source = wire.reserved_and_source.get();
        let header = Self {
            queue_key: wire.queue_key.get(),
            source: Qpn::new(source),
            reserved: (source >> 24) as u8,
        };
        Some((header, rest))
    }

    /// Writes the header over the first 8 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let wire = Layout {
            queue_key: U32::new(self.queue_key),
            reserved_and_source: U32::new(u32::from(self.reserved) << 24 | self.source.value()),
        };
        bytes[..Self::LENGTH].copy_from_slice(wire.as_bytes());
    }
}

impl Rdeth {
    /// The length on the wire.
    pub const LENGTH: usize = 4;

    /// The header at the start of `bytes` and what follows it; `None` if `bytes` is too short.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = U32::ref_from_prefix(bytes).ok()?;
        let word = wire.get();
        Some((Self { end_to_end_context: word & 0x00ff_ffff, reserved: (word >> 24) as u8 }, rest))
    }

    /// Writes the header over the first 4 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let word = u32::from(self.reserved) << 24 | self.end_to_end_context & 0x00ff_ffff;
        bytes[..Self::LENGTH].copy_from_slice(&word.to_be_bytes());
    }
}
