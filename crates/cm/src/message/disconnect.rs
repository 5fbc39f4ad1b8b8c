//! DREQ and DREP: the end of a connection.

use converb_wire::Qpn;
use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::field::U24;
use super::{Body, PrivateData};

/// DREQ (IBA 12.6.10, table 112): the sender gives the connection up.
///
/// ```text
///      0  local communication ID
///      4  remote communication ID
///      8  remote QPN or EECN, 24 | reserved, 8
///     12  private data, 220 bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisconnectRequest {
    /// The sender's name for the connection.
    pub local_communication_id: u32,
    /// The receiver's name for it.
    pub remote_communication_id: u32,
    /// The receiver's queue pair, or its end-to-end context, which has to be the connection's.
    pub remote_qpn_or_eecn: Qpn,
    /// The consumer's.
    pub private_data: PrivateData<220>,
}

/// DREP (IBA 12.6.11, table 113): a DREQ has come.
///
/// ```text
///      0  local communication ID
///      4  remote communication ID
///      8  private data, 224 bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisconnectReply {
    /// The sender's name for the connection.
    pub local_communication_id: u32,
    /// The receiver's name for it.
    pub remote_communication_id: u32,
    /// The consumer's.
    pub private_data: PrivateData<224>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    local_communication_id: U32,
    remote_communication_id: U32,
    remote_qpn_or_eecn: U24,
    reserved_11: u8,
    private_data: [u8; 220],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReplyLayout {
    local_communication_id: U32,
    remote_communication_id: U32,
    private_data: [u8; 224],
}

impl DisconnectRequest {
    /// The attribute that is a DREQ.
    pub const ATTRIBUTE: u16 = 0x0015;

    pub(super) fn parse(body: &Body) -> Self {
        let wire: &RequestLayout = zerocopy::transmute_ref!(body);
        Self {
            local_communication_id: wire.local_communication_id.get(),
            remote_communication_id: wire.remote_communication_id.get(),
            remote_qpn_or_eecn: Qpn::new(wire.remote_qpn_or_eecn.get()),
            private_data: wire.private_data.into(),
        }
    }

    pub(super) fn emit(&self) -> Body {
        zerocopy::transmute!(RequestLayout {
            local_communication_id: U32::new(self.local_communication_id),
            remote_communication_id: U32::new(self.remote_communication_id),
            remote_qpn_or_eecn: U24::new(self.remote_qpn_or_eecn.value()),
            reserved_11: 0,
            private_data: *self.private_data.as_bytes(),
        })
    }
}

impl DisconnectReply {
    /// The attribute that is a DREP.
    pub const ATTRIBUTE: u16 = 0x0016;

    pub(super) fn parse(body: &Body) -> Self {
        let wire: &ReplyLayout = zerocopy::transmute_ref!(body);
        Self {
            local_communication_id: wire.local_communication_id.get(),
            remote_communication_id: wire.remote_communication_id.get(),
            private_data: wire.private_data.into(),
        }
    }

    pub(super) fn emit(&self) -> Body {
        zerocopy::transmute!(ReplyLayout {
            local_communication_id: U32::new(self.local_communication_id),
            remote_communication_id: U32::new(self.remote_communication_id),
            private_data: *self.private_data.as_bytes(),
        })
    }
}
