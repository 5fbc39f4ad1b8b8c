//! An agent of another user that carries whatever it likes: fuzzer and tests say what.

use super::{ENVELOPE_BYTES, Envelope};
use crate::udp::{Flow, Settings, Slot, UdpPort};
use converb_driver::Port;
use converb_wire::{ROCE_V2_PORT, icrc};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

/// Plays a script to a port: messages, each behind two bytes that tell its length. The highest bit
/// asks for a right invariant CRC at the end of the message. Asserts that reading ends, and yields
/// no byte that was not sent; how many packets came out.
pub fn play(mut script: &[u8]) -> usize {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (socket, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a pair");
    let slots = vec![Slot { index: 1, socket }];
    let port = UdpPort::carried(slots, 1 << 20, Settings::default()).expect("descriptors");
    let mut incoming = port.new_incoming();
    let mut came = 0;
    while let Some(([low, high], rest)) = script.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes([*low, *high & 0x7f])).min(rest.len());
        let (message, rest) = rest.split_at(length);
        script = rest;
        let mut message = message.to_vec();
        if high & 0x80 != 0 {
            seal(&mut message);
        }
        send(&theirs, &message, SendFlags::DONTWAIT).expect("the pair is empty");
        let mut left = message.len();
        while port.receive(&mut incoming) {
            while let Some(packet) = port.next(&mut incoming) {
                left = left.checked_sub(packet.bytes.len()).expect("no more than was sent");
                came += 1;
            }
        }
    }
    drop(theirs);
    assert!(!port.receive(&mut incoming), "the end is no packet");
    came
}

/// Makes the last four bytes the invariant CRC of the message as one packet.
fn seal(message: &mut [u8]) {
    let Some((head, packet)) = message.split_first_chunk_mut::<ENVELOPE_BYTES>() else { return };
    let Some(envelope) = Envelope::parse(head) else { return };
    let source = (envelope.source.ip, envelope.source.port);
    let destination = (envelope.destination.0, ROCE_V2_PORT);
    let Some(flow) = Flow::new(source, destination) else { return };
    let Some(length) = packet.len().checked_sub(icrc::LENGTH) else { return };
    let (transport, end) = packet.split_at_mut(length);
    if transport.len() >= converb_wire::Bth::LENGTH {
        end.copy_from_slice(&flow.share(length).icrc(0, transport).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Endpoint;

    fn scripts() -> impl Iterator<Item = Vec<u8>> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/link_carried");
        let entries = std::fs::read_dir(folder).expect("the corpus");
        entries.map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a file"))
    }

    #[test]
    fn the_corpus_of_scripts_holds() {
        assert!(scripts().map(|script| play(&script)).sum::<usize>() >= 4, "some are packets");
    }

    #[test]
    fn a_sealed_message_is_a_packet_and_a_segment_size_beyond_it_is_harmless() {
        let envelope = Envelope {
            source: Endpoint { ip: "::1".parse().expect("an address"), scope: 0, port: 50_000 },
            destination: ("::1".parse().expect("an address"), 1),
            traffic_class: 0,
            hop_limit: 64,
            segment_bytes: None,
            overflows: Some(7),
        };
        for segment_bytes in [None, Some(1), Some(56), Some(usize::MAX >> 40)] {
            let message = [&Envelope { segment_bytes, ..envelope }.emit()[..], &[4; 56]].concat();
            let script = |seal: u8| [&[message.len() as u8, seal][..], &message].concat();
            let expected = usize::from(segment_bytes != Some(1));
            assert_eq!((play(&script(0)), play(&script(0x80))), (0, expected));
        }
    }
}
