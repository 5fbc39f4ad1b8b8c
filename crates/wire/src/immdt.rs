//! The four bytes that a message can carry beside its payload: immediate data for the receiver's
//! completion, or a key that the receiver shall invalidate.

use zerocopy::FromBytes;
use zerocopy::network_endian::U32;

use crate::Rkey;

/// Immediate data (IBA 9.3.6), 32 bits, in host order here. The verbs API hands them to programs
/// as the four bytes on the wire, so it converts.
///
/// ```text
/// +---------------------------------------------------------------+
/// |                        immediate data                         |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImmDt(pub u32);

/// The invalidate extended transport header (IBA 9.3.7).
///
/// ```text
/// +---------------------------------------------------------------+
/// |                             R_Key                             |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ieth(pub Rkey);

const _: () = assert!(size_of::<U32>() == ImmDt::LENGTH);
const _: () = assert!(size_of::<U32>() == Ieth::LENGTH);

impl ImmDt {
    /// The length on the wire.
    pub const LENGTH: usize = 4;

    /// The header at the start of `bytes` and what follows it; `None` if `bytes` is too short.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = U32::ref_from_prefix(bytes).ok()?;
        Some((Self(wire.get()), rest))
    }

    /// Writes the header over the first 4 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[..Self::LENGTH].copy_from_slice(&self.0.to_be_bytes());
    }
}

impl Ieth {
    /// The length on the wire.
    pub const LENGTH: usize = 4;

    /// The header at the start of `bytes` and what follows it; `None` if `bytes` is too short.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = U32::ref_from_prefix(bytes).ok()?;
        Some((Self(Rkey(wire.get())), rest))
    }

    /// Writes the header over the first 4 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[..Self::LENGTH].copy_from_slice(&self.0.0.to_be_bytes());
    }
}
