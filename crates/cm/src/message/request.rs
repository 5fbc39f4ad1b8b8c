//! REQ: asks for a connection.

use converb_wire::{Psn, Qpn};
use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::codes::codes;
use super::field::{U24, bits, place};
use super::path::{self, Path};
use super::{Body, EnhancedConnection, PrivateData, ServiceId};

/// REQ (IBA 12.6.5, table 106). Offsets are those from the end of the management header.
///
/// ```text
///      0  local communication ID
///      4  reserved, 8 bits          | ECE vendor, 24
///      8  service ID, 64
///     16  local CA GUID, 64
///     24  reserved
///     28  local Q_Key
///     32  local QPN, 24             | responder resources, 8
///     36  local EECN, 24            | initiator depth, 8
///     40  remote EECN, 24           | remote CM response timeout, 5 | service type, 2 | flow, 1
///     44  starting PSN, 24          | local CM response timeout, 5 | retry count, 3
///     48  partition key, 16         | MTU, 4 | RDC, 1 | RNR retry count, 3
///                                   | CM retries, 4 | SRQ, 1 | extended type, 3
///     52  primary path, 44 bytes
///     96  alternate path, 44 bytes
///    140  private data, 92 bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The sender's name for the connection, which is not used again while anybody may know it.
    pub local_communication_id: u32,
    /// What the sender can do beyond the specification.
    pub enhanced: EnhancedConnection,
    /// Whom the sender wants to talk to.
    pub service_id: ServiceId,
    /// The sender's channel adapter.
    pub local_ca_guid: u64,
    /// The sender's queue key, for reliable datagrams.
    pub local_qkey: u32,
    /// The sender's queue pair.
    pub local_qpn: Qpn,
    /// How many READs and atomics at a time the sender is able to answer.
    pub responder_resources: u8,
    /// The sender's end-to-end context, 24 bits.
    pub local_eecn: u32,
    /// How many READs and atomics at a time the sender wants to have outstanding.
    pub initiator_depth: u8,
    /// The receiver's end-to-end context, 24 bits, if there is one already.
    pub remote_eecn: u32,
    /// How long the receiver may take to answer: 5 bits, 4.096 us times 2 to the power of it.
    pub remote_cm_response_timeout: u8,
    /// The kind of connection.
    pub transport_service_type: TransportServiceType,
    /// Whether the sender counts credits.
    pub end_to_end_flow_control: bool,
    /// The PSN of the sender's first request.
    pub starting_psn: Psn,
    /// How long the sender takes at most to answer, a code of the same kind.
    pub local_cm_response_timeout: u8,
    /// How often the receiver's queue pair shall retry, 3 bits.
    pub retry_count: u8,
    /// The partition of the connection.
    pub partition_key: u16,
    /// The code of the path's MTU, 4 bits: 1 is 256 bytes, 5 is 4096.
    pub path_packet_payload_mtu: u8,
    /// Whether a reliable datagram channel exists already.
    pub rdc_exists: bool,
    /// How often the receiver's queue pair shall retry after an RNR NAK, 3 bits: 7 is for ever.
    pub rnr_retry_count: u8,
    /// How often either side sends a message again before it gives up, 4 bits.
    pub max_cm_retries: u8,
    /// Whether the sender's queue pair has a shared receive queue.
    pub srq: bool,
    /// The kind of connection if [`TransportServiceType::EXTENDED`] refers to this.
    pub extended_transport_type: ExtendedTransportType,
    /// The path to use.
    pub primary: Path,
    /// The path to migrate to.
    pub alternate: Path,
    /// The consumer's.
    pub private_data: PrivateData<92>,
}

codes! {
    /// The kind of connection that a REQ asks for, 2 bits.
    pub struct TransportServiceType(u8);
    RELIABLE_CONNECTION = 0, "reliable connection";
    UNRELIABLE_CONNECTION = 1, "unreliable connection";
    RELIABLE_DATAGRAM = 2, "reliable datagram";
    EXTENDED = 3, "what the extended transport type says";
}

codes! {
    /// The kind of connection where two bits were not enough, 3 bits.
    pub struct ExtendedTransportType(u8);
    NONE = 0, "none";
    EXTENDED_RELIABLE_CONNECTION = 1, "extended reliable connection";
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    local_communication_id: U32,
    reserved_4: u8,
    enhanced_vendor: U24,
    service_id: U64,
    local_ca_guid: U64,
    reserved_24: U32,
    local_qkey: U32,
    local_qpn: U24,
    responder_resources: u8,
    local_eecn: U24,
    initiator_depth: u8,
    remote_eecn: U24,
    /// Remote CM response timeout, transport service type, end-to-end flow control.
    timeout_type_flow: u8,
    starting_psn: U24,
    /// Local CM response timeout, retry count.
    timeout_retries: u8,
    partition_key: U16,
    /// MTU, whether the RDC exists, RNR retry count.
    mtu_rdc_retries: u8,
    /// CM retries, whether there is an SRQ, extended transport type.
    retries_srq_type: u8,
    primary: path::Layout,
    alternate: path::Layout,
    private_data: [u8; 92],
}

impl Request {
    /// The attribute that is a REQ.
    pub const ATTRIBUTE: u16 = 0x0010;

    pub(super) fn parse(body: &Body, attribute_modifier: u32) -> Self {
        let wire: &Layout = zerocopy::transmute_ref!(body);
        Self {
            local_communication_id: wire.local_communication_id.get(),
            enhanced: EnhancedConnection {
                vendor_id: wire.enhanced_vendor.get(),
                attribute_modifier,
            },
            service_id: ServiceId(wire.service_id.get()),
            local_ca_guid: wire.local_ca_guid.get(),
            local_qkey: wire.local_qkey.get(),
            local_qpn: Qpn::new(wire.local_qpn.get()),
            responder_resources: wire.responder_resources,
            local_eecn: wire.local_eecn.get(),
            initiator_depth: wire.initiator_depth,
            remote_eecn: wire.remote_eecn.get(),
            remote_cm_response_timeout: bits(wire.timeout_type_flow, 0, 5),
            transport_service_type: TransportServiceType(bits(wire.timeout_type_flow, 5, 2)),
            end_to_end_flow_control: bits(wire.timeout_type_flow, 7, 1) != 0,
            starting_psn: Psn::new(wire.starting_psn.get()),
            local_cm_response_timeout: bits(wire.timeout_retries, 0, 5),
            retry_count: bits(wire.timeout_retries, 5, 3),
            partition_key: wire.partition_key.get(),
            path_packet_payload_mtu: bits(wire.mtu_rdc_retries, 0, 4),
            rdc_exists: bits(wire.mtu_rdc_retries, 4, 1) != 0,
            rnr_retry_count: bits(wire.mtu_rdc_retries, 5, 3),
            max_cm_retries: bits(wire.retries_srq_type, 0, 4),
            srq: bits(wire.retries_srq_type, 4, 1) != 0,
            extended_transport_type: ExtendedTransportType(bits(wire.retries_srq_type, 5, 3)),
            primary: Path::in_request(&wire.primary),
            alternate: Path::in_request(&wire.alternate),
            private_data: wire.private_data.into(),
        }
    }

    /// Values beyond their fields are cut off.
    pub(super) fn emit(&self) -> Body {
        let wire = Layout {
            local_communication_id: U32::new(self.local_communication_id),
            enhanced_vendor: U24::new(self.enhanced.vendor_id),
            service_id: U64::new(self.service_id.0),
            local_ca_guid: U64::new(self.local_ca_guid),
            local_qkey: U32::new(self.local_qkey),
            local_qpn: U24::new(self.local_qpn.value()),
            responder_resources: self.responder_resources,
            local_eecn: U24::new(self.local_eecn),
            initiator_depth: self.initiator_depth,
            remote_eecn: U24::new(self.remote_eecn),
            timeout_type_flow: place(self.remote_cm_response_timeout, 0, 5)
                | place(self.transport_service_type.0, 5, 2)
                | place(self.end_to_end_flow_control.into(), 7, 1),
            starting_psn: U24::new(self.starting_psn.value()),
            timeout_retries: place(self.local_cm_response_timeout, 0, 5)
                | place(self.retry_count, 5, 3),
            partition_key: U16::new(self.partition_key),
            mtu_rdc_retries: place(self.path_packet_payload_mtu, 0, 4)
                | place(self.rdc_exists.into(), 4, 1)
                | place(self.rnr_retry_count, 5, 3),
            retries_srq_type: place(self.max_cm_retries, 0, 4)
                | place(self.srq.into(), 4, 1)
                | place(self.extended_transport_type.0, 5, 3),
            primary: self.primary.to_request(),
            alternate: self.alternate.to_request(),
            private_data: *self.private_data.as_bytes(),
            ..Layout::new_zeroed()
        };
        zerocopy::transmute!(wire)
    }
}
