//! Bytes as a message: what parses has to survive being written and read again. The tests and the
//! fuzz target share this.

#![allow(dead_code)] // Nobody who includes this uses all of it.

use converb_cm::mad::{Header, MAD_SIZE};
use converb_cm::message::{IpHeader, Malformed, Message};

/// The message in a datagram, and the datagram written again from it.
pub fn message(mad: &[u8; MAD_SIZE]) -> Result<(Message, [u8; MAD_SIZE]), Malformed> {
    let (header, message) = Message::parse(mad)?;
    let mut again = [0xa5; MAD_SIZE];
    message.emit(header.transaction_id, &mut again);

    let (header_again, message_again) = Message::parse(&again).expect("it was just written");
    assert_eq!(message_again, message);
    assert_eq!(header_again.transaction_id, header.transaction_id);
    assert_eq!(header_again.attribute_id, header.attribute_id);

    let before = &mad[Header::SIZE..];
    match &message {
        Message::Request(request) => ip_header(request.private_data.as_bytes(), before),
        Message::ServiceRequest(request) => ip_header(request.private_data.as_bytes(), before),
        _ => {}
    }
    Ok((message, again))
}

/// If private data begins with the header of the IP service, both survive together.
fn ip_header<const LIMIT: usize>(private_data: &[u8; LIMIT], body: &[u8]) {
    assert!(body.ends_with(private_data), "private data is the end of a message");
    let Ok((header, consumer)) = IpHeader::parse(private_data) else { return };
    let again = header.before::<LIMIT>(consumer).expect("it was as long as that before");
    assert_eq!(IpHeader::parse(again.as_bytes()), Ok((header, consumer)));
}
