//! The RDMA extended transport header: which remote memory an RDMA operation is about.

use zerocopy::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Rkey;

/// The RDMA extended transport header (IBA 9.3.3).
///
/// ```text
/// +---------------------------------------------------------------+
/// |                  virtual address, high half                   |
/// +---------------------------------------------------------------+
/// |                  virtual address, low half                    |
/// +---------------------------------------------------------------+
/// |                             R_Key                             |
/// +---------------------------------------------------------------+
/// |                          DMA length                           |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Where the remote memory begins, as its owner registered it.
    pub address: u64,
    /// The key that names the remote memory.
    pub rkey: Rkey,
    /// The bytes of the whole message, not of this packet.
    pub length: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    address: U64,
    rkey: U32,
    length: U32,
}

const _: () = assert!(size_of::<Layout>() == Reth::LENGTH);

impl Reth {
    /// The length on the wire.
    pub const LENGTH: usize = 16;

    /// The header at the start of `bytes` and what follows it; `None` if `bytes` is too short.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = Layout::ref_from_prefix(bytes).ok()?;
        let header = Self {
            address: wire.address.get(),
            rkey: Rkey(wire.rkey.get()),
            length: wire.length.get(),
        };
        Some((header, rest))
    }

    /// Writes the header over the first 16 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let wire = Layout {
            address: U64::new(self.address),
            rkey: U32::new(self.rkey.0),
            length: U32::new(self.length),
        };
        bytes[..Self::LENGTH].copy_from_slice(wire.as_bytes());
    }
}
