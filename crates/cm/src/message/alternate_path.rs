//! LAP and APR: gives an established connection another path to migrate to.

use converb_wire::Qpn;
use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::codes::codes;
use super::field::{U24, bits, place};
use super::path::{self, Path};
use super::{AdditionalInformation, Body, PrivateData};

/// LAP, load alternate path (IBA 12.8.1, table 115).
///
/// ```text
///      0  local communication ID
///      4  remote communication ID
///      8  reserved
///     12  remote QPN or EECN, 24 | remote CM response timeout, 5 | reserved, 3
///     16  reserved
///     20  alternate path, 44 bytes
///     64  private data, 168 bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadAlternatePath {
    /// The sender's name for the connection.
    pub local_communication_id: u32,
    /// The receiver's name for it.
    pub remote_communication_id: u32,
    /// The receiver's queue pair, or its end-to-end context, which has to be the connection's.
    pub remote_qpn_or_eecn: Qpn,
    /// How long the receiver may take to answer: 5 bits, 4.096 us times 2 to the power of it.
    pub remote_cm_response_timeout: u8,
    /// The path.
    pub alternate: Path,
    /// The consumer's.
    pub private_data: PrivateData<168>,
}

/// APR, alternate path response (IBA 12.8.2, table 116).
///
/// ```text
///      0  local communication ID
///      4  remote communication ID
///      8  information length, 8 | status, 8 | reserved, 16
///     12  additional information, 72 bytes
///     84  private data, 148 bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlternatePathResponse {
    /// The sender's name for the connection.
    pub local_communication_id: u32,
    /// The receiver's name for it.
    pub remote_communication_id: u32,
    /// Whether the path is loaded.
    pub status: AlternatePathStatus,
    /// What would have been acceptable, in the form that the status asks for.
    pub additional_information: AdditionalInformation,
    /// The consumer's.
    pub private_data: PrivateData<148>,
}

codes! {
    /// What an APR says to a LAP (IBA 12.8.2).
    pub struct AlternatePathStatus(u8);
    LOADED = 0, "the alternate path is loaded";
    INVALID_COMMUNICATION_INSTANCE = 1, "the communication IDs name no connection";
    NOT_SUPPORTED = 2, "alternate paths are not supported";
    REJECTED = 3, "the alternate path is rejected";
    REDIRECTED = 4, "another port should be used";
    IS_CURRENT = 5, "this is the path already";
    INVALID_QPN_OR_EECN = 6, "the queue pair is not the connection's";
    LID_REJECTED = 7, "the remote LID is rejected";
    GID_REJECTED = 8, "the remote GID is rejected";
    FLOW_LABEL_REJECTED = 9, "the flow label is rejected";
    TRAFFIC_CLASS_REJECTED = 10, "the traffic class is rejected";
    HOP_LIMIT_REJECTED = 11, "the hop limit is rejected";
    PACKET_RATE_REJECTED = 12, "the packet rate is rejected";
    SERVICE_LEVEL_REJECTED = 13, "the service level is rejected";
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LoadLayout {
    local_communication_id: U32,
    remote_communication_id: U32,
    reserved_8: U32,
    remote_qpn_or_eecn: U24,
    response_timeout: u8,
    reserved_16: U32,
    alternate: path::Layout,
    private_data: [u8; 168],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ResponseLayout {
    local_communication_id: U32,
    remote_communication_id: U32,
    information_length: u8,
    status: u8,
    reserved_10: [u8; 2],
    additional_information: [u8; AdditionalInformation::LIMIT],
    private_data: [u8; 148],
}

impl LoadAlternatePath {
    /// The attribute that is a LAP.
    pub const ATTRIBUTE: u16 = 0x0019;

    pub(super) fn parse(body: &Body) -> Self {
        let wire: &LoadLayout = zerocopy::transmute_ref!(body);
        Self {
            local_communication_id: wire.local_communication_id.get(),
            remote_communication_id: wire.remote_communication_id.get(),
            remote_qpn_or_eecn: Qpn::new(wire.remote_qpn_or_eecn.get()),
            remote_cm_response_timeout: bits(wire.response_timeout, 0, 5),
            alternate: Path::in_load(&wire.alternate),
            private_data: wire.private_data.into(),
        }
    }

    /// Values beyond their fields are cut off.
    pub(super) fn emit(&self) -> Body {
        let wire = LoadLayout {
            local_communication_id: U32::new(self.local_communication_id),
            remote_communication_id: U32::new(self.remote_communication_id),
            remote_qpn_or_eecn: U24::new(self.remote_qpn_or_eecn.value()),
            response_timeout: place(self.remote_cm_response_timeout, 0, 5),
            alternate: self.alternate.to_load(),
            private_data: *self.private_data.as_bytes(),
            ..LoadLayout::new_zeroed()
        };
        zerocopy::transmute!(wire)
    }
}

impl AlternatePathResponse {
    /// The attribute that is an APR.
    pub const ATTRIBUTE: u16 = 0x001a;

    pub(super) fn parse(body: &Body) -> Self {
        let wire: &ResponseLayout = zerocopy::transmute_ref!(body);
        Self {
            local_communication_id: wire.local_communication_id.get(),
            remote_communication_id: wire.remote_communication_id.get(),
            status: AlternatePathStatus(wire.status),
            additional_information: AdditionalInformation::received(
                &wire.additional_information,
                wire.information_length,
            ),
            private_data: wire.private_data.into(),
        }
    }

    pub(super) fn emit(&self) -> Body {
        zerocopy::transmute!(ResponseLayout {
            local_communication_id: U32::new(self.local_communication_id),
            remote_communication_id: U32::new(self.remote_communication_id),
            information_length: self.additional_information.length(),
            status: self.status.0,
            reserved_10: [0; 2],
            additional_information: self.additional_information.field(),
            private_data: *self.private_data.as_bytes(),
        })
    }
}
