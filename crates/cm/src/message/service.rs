//! SIDR_REQ and SIDR_REP: which queue pair serves a service by datagrams.

use converb_wire::Qpn;
use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::codes::codes;
use super::field::U24;
use super::{AdditionalInformation, Body, EnhancedConnection, PrivateData, ServiceId};

/// SIDR_REQ, service ID resolution request (IBA 12.11.1, table 119).
///
/// ```text
///      0  request ID
///      4  partition key, 16 | reserved, 16
///      8  service ID, 64
///     16  private data, 216 bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceRequest {
    /// The sender's name for the question, which the answer repeats.
    pub request_id: u32,
    /// The partition in which datagrams will be sent.
    pub partition_key: u16,
    /// The service.
    pub service_id: ServiceId,
    /// The consumer's.
    pub private_data: PrivateData<216>,
}

/// SIDR_REP, service ID resolution response (IBA 12.11.2, table 120).
///
/// ```text
///      0  request ID
///      4  status, 8 | information length, 8 | ECE vendor, high 16
///      8  QPN, 24   | ECE vendor, low 8
///     12  service ID, 64
///     20  Q_Key
///     24  additional information, 72 bytes
///     96  private data, 136 bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceReply {
    /// The question.
    pub request_id: u32,
    /// Whether there is an answer.
    pub status: ServiceStatus,
    /// What the sender can do beyond the specification.
    pub enhanced: EnhancedConnection,
    /// The queue pair that serves.
    pub qpn: Qpn,
    /// The service.
    pub service_id: ServiceId,
    /// The queue pair's key.
    pub qkey: u32,
    /// The ClassPortInfo of who should be asked instead, if the status says so.
    pub additional_information: AdditionalInformation,
    /// The consumer's.
    pub private_data: PrivateData<136>,
}

codes! {
    /// What a SIDR_REP answers (IBA 12.11.2).
    pub struct ServiceStatus(u8);
    VALID = 0, "the queue pair and its key are valid";
    INVALID_SERVICE_ID = 1, "nobody serves the service ID";
    REJECTED = 2, "the service refuses";
    NO_QP = 3, "no queue pair is available";
    REDIRECTED = 4, "another communication manager should be asked";
    UNSUPPORTED_CLASS_VERSION = 5, "the version of connection management is not supported";
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    request_id: U32,
    partition_key: U16,
    reserved_6: U16,
    service_id: U64,
    private_data: [u8; 216],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReplyLayout {
    request_id: U32,
    status: u8,
    information_length: u8,
    enhanced_vendor_high: [u8; 2],
    qpn: U24,
    enhanced_vendor_low: u8,
    service_id: U64,
    qkey: U32,
    additional_information: [u8; AdditionalInformation::LIMIT],
    private_data: [u8; 136],
}

impl ServiceRequest {
    /// The attribute that is a SIDR_REQ.
    pub const ATTRIBUTE: u16 = 0x0017;

    pub(super) fn parse(body: &Body) -> Self {
        let wire: &RequestLayout = zerocopy::transmute_ref!(body);
        Self {
            request_id: wire.request_id.get(),
            partition_key: wire.partition_key.get(),
            service_id: ServiceId(wire.service_id.get()),
            private_data: wire.private_data.into(),
        }
    }

    pub(super) fn emit(&self) -> Body {
        zerocopy::transmute!(RequestLayout {
            request_id: U32::new(self.request_id),
            partition_key: U16::new(self.partition_key),
            reserved_6: U16::ZERO,
            service_id: U64::new(self.service_id.0),
            private_data: *self.private_data.as_bytes(),
        })
    }
}

impl ServiceReply {
    /// The attribute that is a SIDR_REP.
    pub const ATTRIBUTE: u16 = 0x0018;

    pub(super) fn parse(body: &Body, attribute_modifier: u32) -> Self {
        let wire: &ReplyLayout = zerocopy::transmute_ref!(body);
        let [high, middle] = wire.enhanced_vendor_high;
        let vendor_id = u32::from_be_bytes([0, high, middle, wire.enhanced_vendor_low]);
        Self {
            request_id: wire.request_id.get(),
            status: ServiceStatus(wire.status),
            enhanced: EnhancedConnection { vendor_id, attribute_modifier },
            qpn: Qpn::new(wire.qpn.get()),
            service_id: ServiceId(wire.service_id.get()),
            qkey: wire.qkey.get(),
            additional_information: AdditionalInformation::received(
                &wire.additional_information,
                wire.information_length,
            ),
            private_data: wire.private_data.into(),
        }
    }

    /// Values beyond their fields are cut off.
    pub(super) fn emit(&self) -> Body {
        let [_, high, middle, low] = self.enhanced.vendor_id.to_be_bytes();
        zerocopy::transmute!(ReplyLayout {
            request_id: U32::new(self.request_id),
            status: self.status.0,
            information_length: self.additional_information.length(),
            enhanced_vendor_high: [high, middle],
            qpn: U24::new(self.qpn.value()),
            enhanced_vendor_low: low,
            service_id: U64::new(self.service_id.0),
            qkey: U32::new(self.qkey),
            additional_information: self.additional_information.field(),
            private_data: *self.private_data.as_bytes(),
        })
    }
}
