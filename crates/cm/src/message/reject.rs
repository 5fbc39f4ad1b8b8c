//! REJ: refuses a connection, or gives one up that is half made; and the reasons for it.

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::codes::codes;
use super::field::{bits, place};
use super::{AdditionalInformation, Body, PrivateData};

/// REJ (IBA 12.6.7, table 108).
///
/// ```text
///      0  local communication ID, 0 if the sender has none yet
///      4  remote communication ID
///      8  message rejected, 2 bits | reserved, 6 | information length, 7 | reserved, 1
///     10  reason, 16
///     12  additional reject information, 72 bytes
///     84  private data, 148 bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reject {
    /// The sender's name for the connection.
    pub local_communication_id: u32,
    /// The receiver's name for it.
    pub remote_communication_id: u32,
    /// Which message is refused.
    pub message_rejected: MessageRejected,
    /// Why.
    pub reason: Reason,
    /// What would have been acceptable (the ARI), in the form that the reason asks for: a GID, a
    /// LID, an MTU, the ClassPortInfo of who should be asked instead.
    pub additional_information: AdditionalInformation,
    /// The consumer's.
    pub private_data: PrivateData<148>,
}

codes! {
    /// Which message a REJ refuses, 2 bits.
    pub struct MessageRejected(u8);
    REQUEST = 0, "REQ";
    REPLY = 1, "REP";
    OTHER = 2, "no message, or another one";
}

codes! {
    /// Why a connection is refused (IBA 12.6.7.2, table 109).
    pub struct Reason(u16);
    NO_QP = 1, "no queue pair is available";
    NO_EEC = 2, "no end-to-end context is available";
    NO_RESOURCES = 3, "resources are missing";
    TIMEOUT = 4, "no answer came in time";
    UNSUPPORTED_REQUEST = 5, "requests of this kind are not supported";
    INVALID_COMMUNICATION_ID = 6, "a communication ID is invalid";
    INVALID_COMMUNICATION_INSTANCE = 7, "the IDs and the queue pair name no connection";
    INVALID_SERVICE_ID = 8, "nobody serves the service ID";
    INVALID_TRANSPORT_SERVICE_TYPE = 9, "the service does not take this transport service type";
    STALE_CONNECTION = 10, "the queue pair is still in a connection";
    RDC_DOES_NOT_EXIST = 11, "the reliable datagram channel does not exist";
    PRIMARY_REMOTE_GID_REJECTED = 12, "the primary path's remote GID is rejected";
    PRIMARY_REMOTE_LID_REJECTED = 13, "the primary path's remote LID is rejected";
    INVALID_PRIMARY_SERVICE_LEVEL = 14, "the primary path's service level is invalid";
    INVALID_PRIMARY_TRAFFIC_CLASS = 15, "the primary path's traffic class is invalid";
    INVALID_PRIMARY_HOP_LIMIT = 16, "the primary path's hop limit is invalid";
    INVALID_PRIMARY_PACKET_RATE = 17, "the primary path's packet rate is invalid";
    ALTERNATE_REMOTE_GID_REJECTED = 18, "the alternate path's remote GID is rejected";
    ALTERNATE_REMOTE_LID_REJECTED = 19, "the alternate path's remote LID is rejected";
    INVALID_ALTERNATE_SERVICE_LEVEL = 20, "the alternate path's service level is invalid";
    INVALID_ALTERNATE_TRAFFIC_CLASS = 21, "the alternate path's traffic class is invalid";
    INVALID_ALTERNATE_HOP_LIMIT = 22, "the alternate path's hop limit is invalid";
    INVALID_ALTERNATE_PACKET_RATE = 23, "the alternate path's packet rate is invalid";
    PORT_AND_CM_REDIRECTION = 24, "another port's communication manager should be asked";
    PORT_REDIRECTION = 25, "another port should be asked for";
    INVALID_PATH_MTU = 26, "the path's MTU is not supported";
    INSUFFICIENT_RESPONDER_RESOURCES = 27, "the responder resources do not suffice";
    CONSUMER_REJECT = 28, "the consumer refuses";
    RNR_RETRY_COUNT_REJECT = 29, "the RNR retry count is rejected";
    DUPLICATE_LOCAL_COMMUNICATION_ID = 30, "the local communication ID is in use already";
    UNSUPPORTED_CLASS_VERSION = 31, "the version of connection management is not supported";
    INVALID_PRIMARY_FLOW_LABEL = 32, "the primary path's flow label is invalid";
    INVALID_ALTERNATE_FLOW_LABEL = 33, "the alternate path's flow label is invalid";
    VENDOR_OPTION_NOT_SUPPORTED = 35, "an option of the vendor is not supported";
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    local_communication_id: U32,
    remote_communication_id: U32,
    message_rejected: u8,
    information_length: u8,
    reason: U16,
    additional_information: [u8; AdditionalInformation::LIMIT],
    private_data: [u8; 148],
}

impl Reject {
    /// The attribute that is a REJ.
    pub const ATTRIBUTE: u16 = 0x0012;

    pub(super) fn parse(body: &Body) -> Self {
        let wire: &Layout = zerocopy::transmute_ref!(body);
        Self {
            local_communication_id: wire.local_communication_id.get(),
            remote_communication_id: wire.remote_communication_id.get(),
            message_rejected: MessageRejected(bits(wire.message_rejected, 0, 2)),
            reason: Reason(wire.reason.get()),
            additional_information: AdditionalInformation::received(
                &wire.additional_information,
                bits(wire.information_length, 0, 7),
            ),
            private_data: wire.private_data.into(),
        }
    }

    /// Values beyond their fields are cut off.
    pub(super) fn emit(&self) -> Body {
        zerocopy::transmute!(Layout {
            local_communication_id: U32::new(self.local_communication_id),
            remote_communication_id: U32::new(self.remote_communication_id),
            message_rejected: place(self.message_rejected.0, 0, 2),
            information_length: place(self.additional_information.length(), 0, 7),
            reason: U16::new(self.reason.0),
            additional_information: self.additional_information.field(),
            private_data: *self.private_data.as_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_names_in_words() {
        assert_eq!(Reason(8), Reason::INVALID_SERVICE_ID);
        assert_eq!(Reason(28).to_string(), "the consumer refuses");
        assert_eq!(Reason(34).in_words(), None);
        assert_eq!(Reason(34).to_string(), "unknown code 34");
        let named = (0..=u16::MAX).filter(|number| Reason(*number).in_words().is_some());
        assert_eq!(named.count(), 34);
    }
}
