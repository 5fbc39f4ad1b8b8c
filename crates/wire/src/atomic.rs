//! The headers of atomic operations: what to do to eight bytes of remote memory, and what was there.

use zerocopy::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Rkey;

/// The atomic extended transport header (IBA 9.3.4).
///
/// ```text
/// +---------------------------------------------------------------+
/// |                  virtual address, high half                   |
/// +---------------------------------------------------------------+
/// |                  virtual address, low half                    |
/// +---------------------------------------------------------------+
/// |                             R_Key                             |
/// +---------------------------------------------------------------+
/// |                 swap or add data, high half                   |
/// +---------------------------------------------------------------+
/// |                 swap or add data, low half                    |
/// +---------------------------------------------------------------+
/// |                   compare data, high half                     |
/// +---------------------------------------------------------------+
/// |                   compare data, low half                      |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicEth {
    /// Where the eight bytes are, as their owner registered them.
    pub address: u64,
    /// The key that names the remote memory.
    pub rkey: Rkey,
    /// What to store (compare and swap) or to add (fetch and add).
    pub swap_or_add: u64,
    /// What must be there for the swap to happen; fetch and add ignores it.
    pub compare: u64,
}

/// The atomic acknowledgement's header (IBA 9.3.5).
///
/// ```text
/// +---------------------------------------------------------------+
/// |               original remote data, high half                 |
/// +---------------------------------------------------------------+
/// |               original remote data, low half                  |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicAckEth {
    /// What the eight bytes held before the operation.
    pub original: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    address: U64,
    rkey: U32,
    swap_or_add: U64,
    compare: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AckLayout {
    original: U64,
}

const _: () = assert!(size_of::<Layout>() == AtomicEth::LENGTH);
const _: () = assert!(size_of::<AckLayout>() == AtomicAckEth::LENGTH);

impl AtomicEth {
    /// The length on the wire.
    pub const LENGTH: usize = 28;

    /// The header at the start of `bytes` and what follows it; `None` if `bytes` is too short.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = Layout::ref_from_prefix(bytes).ok()?;
        let header = Self {
            address: wire.address.get(),
            rkey: Rkey(wire.rkey.get()),
            swap_or_add: wire.swap_or_add.get(),
            compare: wire.compare.get(),
        };
        Some((header, rest))
    }

    /// Writes the header over the first 28 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let wire = Layout {
            address: U64::new(self.address),
            rkey: U32::new(self.rkey.0),
            swap_or_add: U64::new(self.swap_or_add),
            compare: U64::new(self.compare),
        };
        bytes[..Self::LENGTH].copy_from_slice(wire.as_bytes());
    }
}

impl AtomicAckEth {
    /// The length on the wire.
    pub const LENGTH: usize = 8;

    /// The header at the start of `bytes` and what follows it; `None` if `bytes` is too short.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = AckLayout::ref_from_prefix(bytes).ok()?;
        Some((Self { original: wire.original.get() }, rest))
    }

    /// Writes the header over the first 8 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let wire = AckLayout { original: U64::new(self.original) };
        bytes[..Self::LENGTH].copy_from_slice(wire.as_bytes());
    }
}
