//! RTU: the last word of those that make a connection.

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Body, PrivateData};

/// RTU, ready to use (IBA 12.6.9, table 111): a REP has come, and its receiver may send.
///
/// ```text
///      0  local communication ID
///      4  remote communication ID
///      8  private data, 224 bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadyToUse {
    /// The sender's name for the connection.
    pub local_communication_id: u32,
    /// The receiver's name for it.
    pub remote_communication_id: u32,
    /// The consumer's.
    pub private_data: PrivateData<224>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    local_communication_id: U32,
    remote_communication_id: U32,
    private_data: [u8; 224],
}

impl ReadyToUse {
    /// The attribute that is an RTU.
    pub const ATTRIBUTE: u16 = 0x0014;

    pub(super) fn parse(body: &Body) -> Self {
        let wire: &Layout = zerocopy::transmute_ref!(body);
        Self {
            local_communication_id: wire.local_communication_id.get(),
            remote_communication_id: wire.remote_communication_id.get(),
            private_data: wire.private_data.into(),
        }
    }

    pub(super) fn emit(&self) -> Body {
        zerocopy::transmute!(Layout {
            local_communication_id: U32::new(self.local_communication_id),
            remote_communication_id: U32::new(self.remote_communication_id),
            private_data: *self.private_data.as_bytes(),
        })
    }
}
