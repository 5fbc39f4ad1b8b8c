//! The messages of connection management (IBA 12.6, 12.8, 12.11): parsed from management datagrams
//! and written into them.
//!
//! Each is a value whose fields have the specification's names, where "local" is the sender's.
//! Nothing that a peer may put into a field is refused here, and reserved bits are ignored and sent
//! as zeros: what a value means is for the state machines to judge. `request.rs` shows what every
//! message file looks like.

use core::fmt;

use crate::mad::{Class, Header, MAD_SIZE, Method};

mod alternate_path;
mod codes;
mod disconnect;
mod field;
mod ip;
mod mra;
mod path;
mod private_data;
mod ready;
mod reject;
mod reply;
mod request;
mod service;

pub use alternate_path::{AlternatePathResponse, AlternatePathStatus, LoadAlternatePath};
pub use disconnect::{DisconnectReply, DisconnectRequest};
pub use ip::{BadIpHeader, IpAddresses, IpHeader, PortSpace, ServiceId};
pub use mra::{MessageMraed, ReceiptAcknowledgment};
pub use path::Path;
pub use private_data::{AdditionalInformation, PrivateData, TooLong};
pub use ready::ReadyToUse;
pub use reject::{MessageRejected, Reason, Reject};
pub use reply::{FailoverAccepted, Reply};
pub use request::{ExtendedTransportType, Request, TransportServiceType};
pub use service::{ServiceReply, ServiceRequest, ServiceStatus};

/// What follows the management header: all of it is the message.
type Body = [u8; MAD_SIZE - Header::SIZE];

/// A message of connection management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// REQ.
    Request(Request),
    /// MRA.
    ReceiptAcknowledgment(ReceiptAcknowledgment),
    /// REJ.
    Reject(Reject),
    /// REP.
    Reply(Reply),
    /// RTU.
    ReadyToUse(ReadyToUse),
    /// DREQ.
    DisconnectRequest(DisconnectRequest),
    /// DREP.
    DisconnectReply(DisconnectReply),
    /// SIDR_REQ.
    ServiceRequest(ServiceRequest),
    /// SIDR_REP.
    ServiceReply(ServiceReply),
    /// LAP.
    LoadAlternatePath(LoadAlternatePath),
    /// APR.
    AlternatePathResponse(AlternatePathResponse),
}

/// Enhanced connection establishment: what two adapters of one vendor agree on beyond the
/// specification. REQ, REP and SIDR_REP carry it, as Linux does: the vendor where older releases
/// of the specification have reserved fields, the options in the management header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EnhancedConnection {
    /// The vendor's number, 24 bits; 0 if nothing is offered.
    pub vendor_id: u32,
    /// The vendor's options, as the attribute modifier of the management header.
    pub attribute_modifier: u32,
}

/// Why a management datagram is no message of connection management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The version of the management header is not 1.
    BaseVersion(u8),
    /// It belongs to another management class.
    Class(Class),
    /// The version of connection management is not 2. A REQ deserves the answer
    /// [`Reason::UNSUPPORTED_CLASS_VERSION`].
    ClassVersion(u8),
    /// All messages are sent with [`Method::SEND`].
    Method(Method),
    /// No message has this attribute.
    Attribute(u16),
}

const BASE_VERSION: u8 = 1;
const CLASS_VERSION: u8 = 2;

impl Message {
    /// The message in a datagram, and the datagram's header, whose transaction id an answer has to
    /// repeat.
    ///
    /// # Errors
    /// The header is not that of a message that is known.
    pub fn parse(mad: &[u8; MAD_SIZE]) -> Result<(Header, Self), Malformed> {
        let header = Header::parse(mad).expect("a whole datagram has room for its header");
        if header.base_version != BASE_VERSION {
            return Err(Malformed::BaseVersion(header.base_version));
        }
        if header.class != Class::COMMUNICATION {
            return Err(Malformed::Class(header.class));
        }
        if header.class_version != CLASS_VERSION {
            return Err(Malformed::ClassVersion(header.class_version));
        }
        if header.method != Method::SEND {
            return Err(Malformed::Method(header.method));
        }
        let body = mad.last_chunk().expect("the body is what a datagram has behind its header");
        let message = Self::parse_body(&header, body)?;
        Ok((header, message))
    }

    /// The sender's and the receiver's names for the connection; `None` in messages that stand for no
    /// connection, or for one that the receiver has no name for.
    pub fn communication_ids(&self) -> Option<(u32, u32)> {
        let (theirs, ours) = match self {
            Self::ReceiptAcknowledgment(it) => {
                (it.local_communication_id, it.remote_communication_id)
            }
            Self::Reject(it) => (it.local_communication_id, it.remote_communication_id),
            Self::Reply(it) => (it.local_communication_id, it.remote_communication_id),
            Self::ReadyToUse(it) => (it.local_communication_id, it.remote_communication_id),
            Self::DisconnectRequest(it) => (it.local_communication_id, it.remote_communication_id),
            Self::DisconnectReply(it) => (it.local_communication_id, it.remote_communication_id),
            Self::LoadAlternatePath(it) => (it.local_communication_id, it.remote_communication_id),
            Self::AlternatePathResponse(it) => {
                (it.local_communication_id, it.remote_communication_id)
            }
            Self::Request(_) | Self::ServiceRequest(_) | Self::ServiceReply(_) => return None,
        };
        Some((theirs, ours))
    }

    fn parse_body(header: &Header, body: &Body) -> Result<Self, Malformed> {
        let modifier = header.attribute_modifier;
        Ok(match header.attribute_id {
            Request::ATTRIBUTE => Self::Request(Request::parse(body, modifier)),
            ReceiptAcknowledgment::ATTRIBUTE => {
                Self::ReceiptAcknowledgment(ReceiptAcknowledgment::parse(body))
            }
            Reject::ATTRIBUTE => Self::Reject(Reject::parse(body)),
            Reply::ATTRIBUTE => Self::Reply(Reply::parse(body, modifier)),
            ReadyToUse::ATTRIBUTE => Self::ReadyToUse(ReadyToUse::parse(body)),
            DisconnectRequest::ATTRIBUTE => Self::DisconnectRequest(DisconnectRequest::parse(body)),
            DisconnectReply::ATTRIBUTE => Self::DisconnectReply(DisconnectReply::parse(body)),
            ServiceRequest::ATTRIBUTE => Self::ServiceRequest(ServiceRequest::parse(body)),
            ServiceReply::ATTRIBUTE => Self::ServiceReply(ServiceReply::parse(body, modifier)),
            LoadAlternatePath::ATTRIBUTE => Self::LoadAlternatePath(LoadAlternatePath::parse(body)),
            AlternatePathResponse::ATTRIBUTE => {
                Self::AlternatePathResponse(AlternatePathResponse::parse(body))
            }
            other => return Err(Malformed::Attribute(other)),
        })
    }

    /// The datagram that carries the message.
    pub fn datagram(&self, transaction_id: u64) -> [u8; MAD_SIZE] {
        let mut mad = [0; MAD_SIZE];
        self.emit(transaction_id, &mut mad);
        mad
    }

    /// Writes the message and its header over all of a datagram.
    pub fn emit(&self, transaction_id: u64, mad: &mut [u8; MAD_SIZE]) {
        let (attribute_id, attribute_modifier, body) = self.emit_body();
        let header = Header {
            base_version: BASE_VERSION,
            class: Class::COMMUNICATION,
            class_version: CLASS_VERSION,
            method: Method::SEND,
            status: 0,
            class_specific: 0,
            transaction_id,
            attribute_id,
            attribute_modifier,
        };
        header.emit(mad);
        mad[Header::SIZE..].copy_from_slice(&body);
    }

    /// Attribute, attribute modifier and body.
    fn emit_body(&self) -> (u16, u32, Body) {
        match self {
            Self::Request(message) => {
                (Request::ATTRIBUTE, message.enhanced.attribute_modifier, message.emit())
            }
            Self::ReceiptAcknowledgment(message) => {
                (ReceiptAcknowledgment::ATTRIBUTE, 0, message.emit())
            }
            Self::Reject(message) => (Reject::ATTRIBUTE, 0, message.emit()),
            Self::Reply(message) => {
                (Reply::ATTRIBUTE, message.enhanced.attribute_modifier, message.emit())
            }
            Self::ReadyToUse(message) => (ReadyToUse::ATTRIBUTE, 0, message.emit()),
            Self::DisconnectRequest(message) => (DisconnectRequest::ATTRIBUTE, 0, message.emit()),
            Self::DisconnectReply(message) => (DisconnectReply::ATTRIBUTE, 0, message.emit()),
            Self::ServiceRequest(message) => (ServiceRequest::ATTRIBUTE, 0, message.emit()),
            Self::ServiceReply(message) => {
                (ServiceReply::ATTRIBUTE, message.enhanced.attribute_modifier, message.emit())
            }
            Self::LoadAlternatePath(message) => (LoadAlternatePath::ATTRIBUTE, 0, message.emit()),
            Self::AlternatePathResponse(message) => {
                (AlternatePathResponse::ATTRIBUTE, 0, message.emit())
            }
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BaseVersion(version) => {
                write!(formatter, "version {version} of management datagrams")
            }
            Self::Class(class) => write!(formatter, "management class {:#04x}", class.0),
            Self::ClassVersion(version) => {
                write!(formatter, "version {version} of connection management")
            }
            Self::Method(method) => write!(formatter, "method {:#04x}", method.0),
            Self::Attribute(attribute) => write!(formatter, "attribute {attribute:#06x}"),
        }
    }
}

impl core::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_message_is_refused_by_its_header() {
        let mut mad = [0; MAD_SIZE];
        Message::ReadyToUse(ReadyToUse::default()).emit(1, &mut mad);
        assert!(Message::parse(&mad).is_ok());
        for (at, byte, expected) in [
            (0, 2, Malformed::BaseVersion(2)),
            (1, 3, Malformed::Class(Class::SUBNET_ADMINISTRATION)),
            (2, 1, Malformed::ClassVersion(1)),
            (3, 1, Malformed::Method(Method::GET)),
            (17, 0x0f, Malformed::Attribute(0x000f)),
            (17, 0x1b, Malformed::Attribute(0x001b)),
        ] {
            let mut other = mad;
            other[at] = byte;
            assert_eq!(Message::parse(&other), Err(expected));
        }
    }

    #[test]
    fn nothing_of_what_the_datagram_held_before_is_sent() {
        let mut clean = [0; MAD_SIZE];
        let mut used = [0xff; MAD_SIZE];
        for attribute in Request::ATTRIBUTE..=AlternatePathResponse::ATTRIBUTE {
            Header { attribute_id: attribute, ..empty_header() }.emit(&mut clean);
            clean[Header::SIZE..].fill(0);
            let (header, message) = Message::parse(&clean).expect("the attributes are known");
            message.emit(header.transaction_id, &mut used);
            assert_eq!(used, clean, "attribute {attribute:#06x}");
        }
    }

    fn empty_header() -> Header {
        Header {
            base_version: BASE_VERSION,
            class: Class::COMMUNICATION,
            class_version: CLASS_VERSION,
            method: Method::SEND,
            status: 0,
            class_specific: 0,
            transaction_id: 7,
            attribute_id: 0,
            attribute_modifier: 0,
        }
    }
}
