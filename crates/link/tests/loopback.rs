//! Packets that one port sends arrive at another, over both families and in every shape.

mod pair;

use converb_driver::{Interest, Port};
use converb_engine::{Address, AddressVector};
use converb_link::Settings;
use pair::*;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

#[test]
fn super_packets_cross_whole_in_both_families() {
    for ip in [LOOPBACK_4, LOOPBACK_6] {
        let pair = Pair::new();
        // A message: a longer first packet, which takes one shorter with it, more, a shorter
        // last one; then another message.
        let mut sent = vec![packet(0, 1068)];
        sent.extend((1..20).map(|number| packet(number, 1052)));
        sent.push(packet(20, 100));
        sent.push(packet(21, 1068));
        send_all(&pair.sender, &path(ip), &sent);
        let mut incoming = pair.receiver.new_incoming();
        let received = receive_all(&pair.receiver, &mut incoming, sent.len());
        assert_eq!(received, sent, "over {ip}");
        assert!(!pair.receiver.receive(&mut incoming));
        assert_eq!(count(&pair.sender, "sent_packets"), 22);
        assert_eq!(count(&pair.sender, "sent_super_packets"), 2);
        assert_eq!(count(&pair.receiver, "received_packets"), 22);
        let bytes: usize = sent.iter().map(|bytes| bytes.len() + 4).sum();
        assert_eq!(count(&pair.sender, "sent_bytes"), bytes as u64);
        assert_eq!(count(&pair.receiver, "received_bytes"), bytes as u64);
        // And so they arrive: two super-packets and a packet.
        assert!(count(&pair.receiver, "received_batches") <= 3);
    }
}

#[test]
fn plain_sockets_serve_where_there_is_no_ipv6() {
    let pair = Pair::with(IpAddr::V4(Ipv4Addr::UNSPECIFIED), Settings::default());
    let sent: Vec<_> = (0..70).map(|number| packet(number, 32)).collect();
    send_all(&pair.sender, &path(LOOPBACK_4), &sent);
    let mut incoming = pair.receiver.new_incoming();
    assert_eq!(receive_all(&pair.receiver, &mut incoming, sent.len()), sent);
    send_all(&pair.sender, &path(LOOPBACK_6), &sent);
    assert_eq!(count(&pair.sender, "dropped_unreachable"), 70);
}

#[test]
fn packets_go_one_by_one_where_sends_are_not_cut_up() {
    let settings = Settings { is_segmenting: false, ..Settings::default() };
    let pair = Pair::with(IpAddr::V4(Ipv4Addr::UNSPECIFIED), settings);
    let sent: Vec<_> = (0..200).map(|number| packet(number, 100)).collect();
    send_all(&pair.sender, &path(LOOPBACK_4), &sent);
    let mut incoming = pair.receiver.new_incoming();
    assert_eq!(receive_all(&pair.receiver, &mut incoming, sent.len()), sent);
    assert_eq!(count(&pair.sender, "sent_super_packets"), 0);
}

#[test]
fn what_comes_with_a_packet_is_told() {
    for ip in [LOOPBACK_4, LOOPBACK_6] {
        let pair = Pair::new();
        let path = AddressVector { traffic_class: 0x8a, hop_limit: 9, ..path(ip) };
        send_all(&pair.sender, &path, &[packet(1, 20), packet(2, 20)]);
        let mut incoming = pair.receiver.new_incoming();
        let interest =
            Interest { receivable: true, timeout: Some(Duration::from_secs(5)), sendable: false };
        assert!(pair.receiver.wait(interest).receivable);
        assert!(pair.receiver.receive(&mut incoming));
        for _ in 0..2 {
            let received = pair.receiver.next(&mut incoming).expect("two packets were sent");
            assert_eq!(received.source, Address::Udp { ip, scope: 0 });
            assert_eq!(received.local, Address::Udp { ip, scope: 0 });
            assert_eq!(received.traffic_class, 0x8a);
            assert_eq!(received.hop_limit, 9);
        }
        assert!(pair.receiver.next(&mut incoming).is_none());
    }
}
