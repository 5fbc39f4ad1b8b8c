//! Batches between two ports on the loopback interface.

use super::*;
use crate::udp::{Settings, Slot, UdpPort};
use converb_driver::Port;
use core::net::Ipv4Addr;
use std::net::UdpSocket;

const QPN: Qpn = Qpn::new(5 << 14 | 1);

fn ports() -> (UdpPort, UdpPort) {
    let open = |destination_port| {
        let socket = UdpSocket::bind("[::]:0").expect("a socket");
        let port = socket.local_addr().expect("bound").port();
        let slots = vec![Slot { index: 5, socket: socket.into() }];
        let settings = Settings { destination_port, ..Settings::default() };
        (UdpPort::new(slots, settings).expect("a port"), port)
    };
    let (receiver, port) = open(1);
    (open(port).0, receiver)
}

fn path() -> AddressVector {
    let address = Address::Udp { ip: Ipv4Addr::LOCALHOST.to_ipv6_mapped(), scope: 0 };
    AddressVector {
        local: address,
        remote: address,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
        service_level: 0,
    }
}

fn fill(batch: &mut Outgoing, count: usize) {
    for number in 0..count {
        let room = batch.begin(&path(), QPN, 40).expect("room");
        room.fill(number as u8);
        batch.finish();
    }
}

/// What the kernel does on a path with IPsec, and older ones without checksum offload.
#[test]
fn a_refused_send_goes_packet_by_packet_with_its_crcs_made_right() {
    let (sender, receiver) = ports();
    let (mut batch, mut incoming) = (sender.new_outgoing(), receiver.new_incoming());
    for round in 0..2 {
        fill(&mut batch, 40);
        if round == 0 {
            batch.handle_refusal(Errno::IO);
        }
        assert_eq!(sender.send(&mut batch), Sent::All);
        let mut received = 0;
        while received < 40 && receiver.receive(&mut incoming) {
            while let Some(packet) = receiver.next(&mut incoming) {
                assert!(packet.bytes.iter().all(|byte| *byte == received));
                received += 1;
            }
        }
        assert_eq!(received, 40, "round {round}");
    }
    let counters = sender.counters();
    assert_eq!(counters.segmentation_refused.value(), 1);
    assert_eq!(counters.sent_super_packets.value(), 0);
    assert_eq!(counters.sent_packets.value(), 80);
    assert_eq!(receiver.counters().dropped_bad_icrc.value(), 0);
}

#[test]
fn a_batch_takes_a_bounded_number_of_runs_and_bytes() {
    let (sender, _receiver) = ports();
    let mut batch = sender.new_outgoing();
    // Each packet is longer than the one before, so each is a run.
    let runs = (0..100)
        .take_while(|index| {
            let has_room = batch.begin(&path(), QPN, 16 + 4 * index).is_some();
            if has_room {
                batch.finish();
            }
            has_room
        })
        .count();
    assert_eq!(runs, RUNS_MAX);
    assert_eq!(sender.send(&mut batch), Sent::All);
    let mut bytes = 0;
    while batch.begin(&path(), QPN, 4096).is_some() {
        batch.finish();
        bytes += 4100;
    }
    assert_eq!(bytes, BUFFER_BYTES / 4100 * 4100);
    assert_eq!(batch.live, 2, "a run is no longer than a datagram");
    assert_eq!(sender.send(&mut batch), Sent::All);
    assert!(batch.begin(&path(), QPN, DATAGRAM_BYTES_MAX).is_none(), "no datagram is so long");
}

#[test]
fn an_abandoned_packet_leaves_no_trace() {
    let (sender, receiver) = ports();
    let (mut batch, mut incoming) = (sender.new_outgoing(), receiver.new_incoming());
    batch.begin(&path(), QPN, 100).expect("room").fill(9);
    batch.abandon();
    assert!(sender.is_empty(&batch));
    assert_eq!(sender.send(&mut batch), Sent::All);
    fill(&mut batch, 1);
    batch.begin(&path(), QPN, 20).expect("room").fill(9);
    batch.abandon();
    batch.begin(&path(), Qpn::new(0), 20).expect("room").fill(9);
    assert_eq!(sender.send(&mut batch), Sent::All, "what was not finished does not go");
    assert!(receiver.receive(&mut incoming));
    assert_eq!(receiver.next(&mut incoming).expect("one").bytes, [0; 40]);
    assert!(receiver.next(&mut incoming).is_none());
    assert!(!receiver.receive(&mut incoming));
}

#[test]
fn packets_to_other_networks_are_dropped_and_counted() {
    let (sender, _receiver) = ports();
    let mut batch = sender.new_outgoing();
    let path = AddressVector { remote: Address::Lid(3), ..path() };
    assert!(batch.begin(&path, QPN, 20).is_some());
    batch.finish();
    assert_eq!(sender.send(&mut batch), Sent::All);
    assert_eq!(sender.counters().dropped_unreachable.value(), 1);
}

#[test]
fn each_slot_of_a_destination_has_a_run_and_a_socket_of_its_own() {
    let (sender, _receiver) = ports();
    let mut batch = sender.new_outgoing();
    for slot in [1u32, 1, 2, 1] {
        batch.begin(&path(), Qpn::new(slot << 14), 20).expect("room").fill(0);
        batch.finish();
    }
    let senders: Vec<_> =
        batch.runs[..batch.live].iter().map(|run| (run.way.sender, run.packets)).collect();
    assert_eq!(senders, [(0, 2), (1, 1), (0, 1)]);
}
