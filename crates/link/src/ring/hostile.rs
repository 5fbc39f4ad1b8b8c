//! A ring whose writers keep to no rule: fuzzer and tests say what they write.

use super::layout::{self, ENTRIES, PACKET_BYTES_MAX};
use super::{RingReceiver, RingSender};
use crate::kept::Kept;
use crate::udp::Relayed;
use converb_driver::Received;
use converb_engine::Address;
use core::net::Ipv6Addr;
use std::os::fd::{AsFd, OwnedFd};

/// Plays a script against a ring: steps of a byte that says what to do, and its arguments. Asserts
/// that reading ends, and yields nothing longer than a packet; how many packets came out.
pub fn play(mut script: &[u8]) -> usize {
    let mut receiver = RingReceiver::create().expect("memory");
    let sender = sender_of(&receiver);
    let mut came = 0;
    while let Some(([step, a0, a1, a2, value @ ..], rest)) = script.split_first_chunk::<12>() {
        script = rest;
        let place = usize::from(u16::from_le_bytes([*a0, *a1]));
        let value = u64::from_le_bytes(*value);
        match step % 4 {
            0 => {
                let address = Address::Udp { ip: Ipv6Addr::from_bits(value.into()), scope: 0 };
                let bytes = &[*a2; PACKET_BYTES_MAX + 8][..place % (PACKET_BYTES_MAX + 8)];
                let (source, local) = (address, address);
                sender.push(&Received { source, local, traffic_class: 1, hop_limit: 2, bytes });
            }
            1 => receiver.memory.spoil(place | usize::from(*a2) << 16, value),
            // One of the next entries, at its beginning: relative to the turn, or as it is said.
            2 => {
                let number = receiver.next.wrapping_add(u64::from(*a0 & 63));
                let turn = if *a0 & 64 == 0 { number.wrapping_mul(2) } else { 0 };
                receiver
                    .memory
                    .entry(number)
                    .spoil(usize::from(*a1 % 16), turn.wrapping_add(value));
            }
            _ => came += pop(&mut receiver),
        }
    }
    came + pop(&mut receiver)
}

fn pop(receiver: &mut RingReceiver) -> usize {
    let mut relayed = Relayed::new();
    receiver.pop(&mut relayed);
    let mut came = 0;
    while let Some(packet) = relayed.next() {
        assert!(packet.bytes.len() <= PACKET_BYTES_MAX);
        came += 1;
    }
    assert!(came <= ENTRIES);
    came
}

fn sender_of(receiver: &RingReceiver) -> RingSender {
    let descriptors = receiver.descriptors();
    let copy = |descriptor: &OwnedFd| descriptor.try_clone().expect("a descriptor");
    let (memory, bell) = (copy(&descriptors.memory), copy(&descriptors.bell));
    RingSender {
        memory: layout::Memory::map(memory.as_fd()).expect("memory"),
        bell: Kept::new(bell),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_of_scripts_holds() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/link_ring");
        let scripts = std::fs::read_dir(folder).expect("the corpus");
        let came = scripts
            .map(|script| play(&std::fs::read(script.expect("an entry").path()).expect("a file")));
        assert!(came.sum::<usize>() >= 100, "the scripts push packets, too");
    }

    #[test]
    fn a_writer_that_never_stops_keeps_the_reader_for_a_lap_at_most() {
        let mut receiver = RingReceiver::create().expect("memory");
        let stop = core::sync::atomic::AtomicBool::new(false);
        let descriptors = receiver.descriptors();
        let memory = layout::Memory::map(descriptors.memory.as_fd()).expect("memory");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 0;
                // Entries of no length that a packet has, published for ever.
                while !stop.load(core::sync::atomic::Ordering::Relaxed) {
                    let entry = memory.entry(number);
                    entry.spoil(2, u64::MAX);
                    if entry.publish(number) {
                        number += 1;
                    }
                }
            });
            for _ in 0..1000 {
                let before = receiver.next;
                // A full ring, so that one more while it is read is one too many.
                let last = before + ENTRIES as u64 - 1;
                while !memory.entry(last).is_published(last) {
                    std::thread::yield_now();
                }
                pop(&mut receiver);
                assert!(receiver.next - before <= ENTRIES as u64);
            }
            stop.store(true, core::sync::atomic::Ordering::Relaxed);
        });
    }
}
