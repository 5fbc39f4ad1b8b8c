//! What is damaged on the way, or was never a packet, is dropped and counted; what peers send is
//! taken, however they number their IPv4 packets.

mod pair;

use converb_driver::Port;
use pair::*;
use std::net::Ipv6Addr;

/// The byte of the BTH that the invariant CRC does not cover.
const VARIANT_BYTE: usize = 4;

fn flipped(packet: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

fn dropped(pair: &Pair) -> u64 {
    count(&pair.receiver, "dropped_bad_icrc") + count(&pair.receiver, "dropped_identification")
}

/// `Incoming` is where sources are remembered.
fn a_flipped_bit_is_found(ip: Ipv6Addr, is_known: bool) {
    let pair = Pair::new();
    let forger = Forger::new(ip, pair.udp_port);
    let good = forger.seal(&packet(1, 80), 0);
    let mut incoming = pair.receiver.new_incoming();
    let (mut accepted, mut bad) = (0, 0);
    for bit in 0..good.len() * 8 {
        if !is_known {
            incoming = pair.receiver.new_incoming();
        }
        forger.send(&flipped(&good, bit));
        if bit / 8 == VARIANT_BYTE {
            assert_eq!(receive_all(&pair.receiver, &mut incoming, 1).len(), 1);
            accepted += 1;
            continue;
        }
        assert!(pair.receiver.receive(&mut incoming));
        assert!(pair.receiver.next(&mut incoming).is_none(), "bit {bit}");
        bad += 1;
        assert_eq!(dropped(&pair), bad);
        if is_known {
            forger.send(&good);
            assert_eq!(receive_all(&pair.receiver, &mut incoming, 1).len(), 1);
            accepted += 1;
        }
    }
    assert_eq!(count(&pair.receiver, "received_packets"), accepted);
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    for ip in [LOOPBACK_4, LOOPBACK_6] {
        a_flipped_bit_is_found(ip, true);
    }
}

#[test]
fn a_flipped_bit_in_the_first_packet_of_a_source_is_found() {
    for ip in [LOOPBACK_4, LOOPBACK_6] {
        a_flipped_bit_is_found(ip, false);
    }
}

#[test]
fn a_damaged_packet_of_a_super_packet_takes_no_other_with_it() {
    let pair = Pair::new();
    let forger = Forger::new(LOOPBACK_4, pair.udp_port);
    let mut incoming = pair.receiver.new_incoming();
    // Coalesced or not, the second of them has the wrong CRC.
    let sent: Vec<_> = (0..3).map(|number| packet(number, 40)).collect();
    for (index, bytes) in sent.iter().enumerate() {
        let sealed = forger.seal(bytes, index as u16);
        forger.send(&if index == 1 { flipped(&sealed, 200) } else { sealed });
    }
    let received = receive_all(&pair.receiver, &mut incoming, 2);
    assert_eq!(received, [sent[0].clone(), sent[2].clone()]);
    assert_eq!(dropped(&pair), 1);
}

#[test]
fn datagrams_too_short_for_a_packet_are_counted() {
    for ip in [LOOPBACK_4, LOOPBACK_6] {
        let pair = Pair::new();
        let forger = Forger::new(ip, pair.udp_port);
        let mut incoming = pair.receiver.new_incoming();
        for length in 0..16 {
            forger.send(&vec![0xff; length]);
        }
        assert!(receive_all(&pair.receiver, &mut incoming, 1).is_empty());
        assert_eq!(count(&pair.receiver, "dropped_short"), 16);
    }
}

/// rdma_rxe counts, from anywhere, and skips.
#[test]
fn a_peer_that_counts_its_packets_loses_none() {
    let pair = Pair::new();
    let forger = Forger::new(LOOPBACK_4, pair.udp_port);
    let mut incoming = pair.receiver.new_incoming();
    let mut identification = 60_000u16;
    for number in 0..3000u32 {
        let bytes = packet(number, 20 + (number % 50) as usize * 4);
        forger.send(&forger.seal(&bytes, identification));
        let received = receive_all(&pair.receiver, &mut incoming, 1);
        assert_eq!(received, [bytes], "packet {number}, identification {identification}");
        identification = identification.wrapping_add(1 + (number % 5) as u16);
    }
    assert_eq!(dropped(&pair), 0);
}

#[test]
fn a_peer_that_starts_to_count_is_believed_after_a_while() {
    let pair = Pair::new();
    let forger = Forger::new(LOOPBACK_4, pair.udp_port);
    let mut incoming = pair.receiver.new_incoming();
    forger.send(&forger.seal(&packet(0, 40), 0));
    assert_eq!(receive_all(&pair.receiver, &mut incoming, 1).len(), 1);
    for number in 0..20 {
        forger.send(&forger.seal(&packet(u32::from(number), 40), 5000 + number));
    }
    assert_eq!(receive_all(&pair.receiver, &mut incoming, 20).len(), 17);
    assert_eq!(count(&pair.receiver, "dropped_identification"), 3);
    // And what jumps about is not.
    for number in 0..20u16 {
        let wild = 9000u16.wrapping_add(number.wrapping_mul(3001)) | 128;
        forger.send(&forger.seal(&packet(u32::from(number), 40), wild));
    }
    assert_eq!(receive_all(&pair.receiver, &mut incoming, 1).len(), 0);
    assert_eq!(count(&pair.receiver, "dropped_identification"), 23);
}
