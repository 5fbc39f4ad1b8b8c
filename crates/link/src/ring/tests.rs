//! Packets through a ring, and what must not come through.

use super::*;
use converb_engine::Address;
use core::net::Ipv6Addr;

fn address(last: u16) -> Address {
    Address::Udp { ip: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last), scope: u32::from(last) }
}

fn packet(bytes: &[u8]) -> Received<'_> {
    Received { source: address(1), local: address(2), traffic_class: 3, hop_limit: 4, bytes }
}

fn sender_of(receiver: &RingReceiver) -> RingSender {
    let descriptors = receiver.descriptors();
    let copy = |descriptor: &OwnedFd| descriptor.try_clone().expect("a descriptor");
    let (memory, bell) = (copy(&descriptors.memory), copy(&descriptors.bell));
    RingSender::open(RingDescriptors { memory, bell }).expect("a ring of ours")
}

fn pop_all(receiver: &mut RingReceiver) -> Vec<Vec<u8>> {
    let mut relayed = Relayed::new();
    receiver.pop(&mut relayed);
    let mut packets = Vec::new();
    while let Some(received) = relayed.next() {
        assert_eq!((received.source, received.local), (address(1), address(2)));
        assert_eq!((received.traffic_class, received.hop_limit), (3, 4));
        packets.push(received.bytes.to_vec());
    }
    packets
}

fn is_ringing(receiver: &RingReceiver) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let bell = receiver.bell();
    let mut entries = [PollFd::from_borrowed_fd(bell, PollFlags::IN)];
    poll(&mut entries, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("open") == 1
}

#[test]
fn packets_come_out_as_they_went_in_lap_after_lap() {
    let mut receiver = RingReceiver::create().expect("memory");
    let sender = sender_of(&receiver);
    assert!(!is_ringing(&receiver));
    for lap in 0..10usize {
        let sent: Vec<Vec<u8>> =
            (0..40).map(|index| vec![index as u8; (lap * 40 + index) * 11 % 4224]).collect();
        for bytes in &sent {
            assert!(sender.push(&packet(bytes)));
        }
        assert!(is_ringing(&receiver));
        receiver.quieten();
        assert!(!is_ringing(&receiver));
        // What goes over does not fit into one batch.
        let mut received = pop_all(&mut receiver);
        while received.len() < sent.len() {
            received.extend(pop_all(&mut receiver));
        }
        assert_eq!(received, sent);
    }
    assert!(pop_all(&mut receiver).is_empty());
}

#[test]
fn a_full_ring_and_packets_that_do_not_fit_are_refused() {
    let mut receiver = RingReceiver::create().expect("memory");
    let sender = sender_of(&receiver);
    assert!(!sender.push(&packet(&[0; 5000])));
    assert!(!sender.push(&Received { source: Address::Lid(1), ..packet(&[0; 20]) }));
    let taken = (0..200).take_while(|_| sender.push(&packet(&[1; 20]))).count();
    assert_eq!(taken, layout::ENTRIES);
    assert_eq!(pop_all(&mut receiver).len(), taken);
    assert!(sender.push(&packet(&[2; 20])));
}

#[test]
fn many_senders_lose_nothing_that_was_taken() {
    let mut receiver = RingReceiver::create().expect("memory");
    let sender = sender_of(&receiver);
    let (senders, each) = (4u8, 500u32);
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        for number in 0..senders {
            let sender = &sender;
            scope.spawn(move || {
                for index in 0..each {
                    let mut bytes = vec![number; 64];
                    bytes[1..5].copy_from_slice(&index.to_le_bytes());
                    while !sender.push(&packet(&bytes)) {
                        std::thread::yield_now();
                    }
                }
            });
        }
        while received.len() < usize::from(senders) * each as usize {
            received.extend(pop_all(&mut receiver));
        }
    });
    for number in 0..senders {
        let own = received.iter().filter(|bytes| bytes[0] == number);
        let order: Vec<u32> =
            own.map(|bytes| u32::from_le_bytes(bytes[1..5].try_into().expect("4 bytes"))).collect();
        assert!(order.iter().copied().eq(0..each), "sender {number}: each once, in order");
    }
}

#[test]
fn a_sender_that_dies_half_way_stops_the_ring_for_a_moment_only() {
    let mut receiver = RingReceiver::create().expect("memory");
    let sender = sender_of(&receiver);
    let (number, entry) = sender.memory.claim().expect("room");
    assert!(sender.push(&packet(&[5; 20])));
    assert!(pop_all(&mut receiver).is_empty());
    std::thread::sleep(DEAD_AFTER + DEAD_AFTER / 2);
    assert!(pop_all(&mut receiver).is_empty(), "passes over it");
    assert_eq!(pop_all(&mut receiver), [[5; 20]]);
    // And if it was only slow, it finds that it is too late.
    assert!(!entry.publish(number));
}

#[test]
fn an_entry_that_was_spoiled_is_passed_over() {
    let mut receiver = RingReceiver::create().expect("memory");
    let sender = sender_of(&receiver);
    for spoil in 0..3u64 {
        assert!(sender.push(&packet(&[5; 200])));
        assert!(sender.push(&packet(&[6; 20])));
        let entry = receiver.memory.entry(2 * spoil);
        match spoil {
            // Another length, too long a one, other bytes.
            0 => entry.spoil(2, 100 << 32),
            1 => entry.spoil(2, u64::MAX),
            _ => entry.spoil(20, 1),
        }
        assert_eq!(pop_all(&mut receiver), [[6; 20]], "{spoil}");
    }
}

#[test]
fn what_is_no_ring_of_a_known_version_is_not_opened() {
    let receiver = RingReceiver::create().expect("memory");
    let bell = || receiver.descriptors().bell.try_clone().expect("a descriptor");
    let plain = memfd_create("plain", MemfdFlags::CLOEXEC).expect("memory");
    rustix::fs::ftruncate(&plain, layout::BYTES as u64).expect("ours");
    let result = RingSender::open(RingDescriptors { memory: plain, bell: bell() });
    assert_eq!(result.err(), Some(Errno::INVAL), "it could be truncated");
    let memory = || receiver.descriptors().memory.try_clone().expect("a descriptor");
    receiver.memory.set_version(VERSION + 1, FEATURES);
    let result = RingSender::open(RingDescriptors { memory: memory(), bell: bell() });
    assert_eq!(result.err(), Some(Errno::OPNOTSUPP));
    receiver.memory.set_version(VERSION, FEATURES | 1 << 31);
    let result = RingSender::open(RingDescriptors { memory: memory(), bell: bell() });
    assert_eq!(result.err(), Some(Errno::OPNOTSUPP));
}
