//! A management datagram as a line of text.

use crate::network::Fate;
use converb_cm::mad::MAD_SIZE;
use converb_cm::message::Message;

/// The short name that the specification gives the message.
pub const fn name(message: &Message) -> &'static str {
    match message {
        Message::Request(_) => "REQ",
        Message::ReceiptAcknowledgment(_) => "MRA",
        Message::Reject(_) => "REJ",
        Message::Reply(_) => "REP",
        Message::ReadyToUse(_) => "RTU",
        Message::DisconnectRequest(_) => "DREQ",
        Message::DisconnectReply(_) => "DREP",
        Message::ServiceRequest(_) => "SIDR_REQ",
        Message::ServiceReply(_) => "SIDR_REP",
        Message::LoadAlternatePath(_) => "LAP",
        Message::AlternatePathResponse(_) => "APR",
    }
}

/// One line about a datagram.
pub fn describe(mad: &[u8; MAD_SIZE]) -> String {
    let Ok((_, message)) = Message::parse(mad) else { return "malformed".into() };
    let name = name(&message);
    let ids = message.communication_ids();
    let named = ids.map(|(theirs, ours)| format!("{name} from {theirs:08x} to {ours:08x}"));
    match message {
        Message::Request(it) => {
            let (id, service) = (it.local_communication_id, it.service_id.0);
            format!("{name} from {id:08x} qp {:06x} service {service}", it.local_qpn.value())
        }
        Message::Reply(it) => {
            format!("{} qp {:06x}", named.unwrap_or_default(), it.local_qpn.value())
        }
        Message::Reject(it) => {
            let refused = it.message_rejected;
            format!("{} of {refused}: {}", named.unwrap_or_default(), it.reason)
        }
        Message::ServiceRequest(it) => {
            format!("{name} {:08x} service {}", it.request_id, it.service_id.0)
        }
        Message::ServiceReply(it) => format!("{name} {:08x}: {}", it.request_id, it.status),
        _ => named.unwrap_or_default(),
    }
}

/// What becomes of a datagram.
pub const fn fate(fate: &Fate) -> &'static str {
    match fate {
        Fate::Lost => "  LOST",
        Fate::Arrives { again: Some(_), .. } => "  TWICE",
        Fate::Arrives { .. } => "",
    }
}
