//! The flush extended transport header: how far a FLUSH shall bring earlier writes.

use zerocopy::FromBytes;
use zerocopy::network_endian::U32;

/// The flush extended transport header (IBA annex A19).
///
/// ```text
/// +---------------------------------------------------+---+-------+
/// |                      reserved                     |SEL|  PLT  |
/// +---------------------------------------------------+---+-------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feth {
    /// PLT, 4 bits: 1 makes earlier writes visible to the whole node, 2 makes them persistent.
    pub placement: u8,
    /// SEL, 2 bits: 0 is about the range that the RETH names, 1 about the whole memory region.
    pub selectivity: u8,
    /// The upper 26 bits, 0 unless someone uses them against the specification.
    pub reserved: u32,
}

const _: () = assert!(size_of::<U32>() == Feth::LENGTH);

impl Feth {
    /// The length on the wire.
    pub const LENGTH: usize = 4;

    /// The header at the start of `bytes` and what follows it; `None` if `bytes` is too short.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = U32::ref_from_prefix(bytes).ok()?;
        let word = wire.get();
        let header = Self {
            placement: word as u8 & 0xf,
            selectivity: (word >> 4) as u8 & 0x3,
            reserved: word >> 6,
        };
        Some((header, rest))
    }

    /// Writes the header over the first 4 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let word = self.reserved << 6
            | u32::from(self.selectivity & 0x3) << 4
            | u32::from(self.placement & 0xf);
        bytes[..Self::LENGTH].copy_from_slice(&word.to_be_bytes());
    }
}
