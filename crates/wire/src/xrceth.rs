//! The XRC extended transport header: which shared receive queue a request is for.

use zerocopy::FromBytes;
use zerocopy::network_endian::U32;

use crate::Qpn;

/// The XRC extended transport header (IBA annex A14).
///
/// ```text
/// +---------------+-----------------------------------------------+
/// |   reserved    |                    XRCSRQ                     |
/// +---------------+-----------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XrcEth {
    /// The number of the shared receive queue, from the same space as queue pair numbers.
    pub shared_receive_queue: Qpn,
    /// 0 unless someone uses it against the specification.
    pub reserved: u8,
}

const _: () = assert!(size_of::<U32>() == XrcEth::LENGTH);

impl XrcEth {
    /// The length on the wire.
    pub const LENGTH: usize = 4;

    /// The header at the start of `bytes` and what follows it; `None` if `bytes` is too short.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = U32::ref_from_prefix(bytes).ok()?;
        let word = wire.get();
        let header = Self { shared_receive_queue: Qpn::new(word), reserved: (word >> 24) as u8 };
        Some((header, rest))
    }

    /// Writes the header over the first 4 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let word = u32::from(self.reserved) << 24 | self.shared_receive_queue.value();
        bytes[..Self::LENGTH].copy_from_slice(&word.to_be_bytes());
    }
}
