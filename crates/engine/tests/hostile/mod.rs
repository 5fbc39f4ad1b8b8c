//! A queue pair of each service, at work with a peer, hears packets that keep to no rule. What
//! they are a script says, from the fuzzer or from the kept corpus.

#![allow(dead_code, reason = "each who includes this uses its part")]

use crate::conversation::{QUEUE_KEY, Side, Terms, pair};
use converb_engine::iba::{Mtu, Service};
use converb_engine::work::Operation;
use converb_wire::{Bth, Opcode, Packet, Psn, Rkey};

/// What a script did.
#[derive(Debug, Default)]
pub struct Told {
    /// Packets that could be parsed, and were handed to a queue pair.
    pub heard: usize,
    /// Packets that queue pairs sent.
    pub said: usize,
    /// Completions with an error, and refusals.
    pub failed: usize,
}

/// No step may make a queue pair say more: four READs of all its memory, in the smallest packets,
/// and a send queue of messages of 3000 bytes.
const SAID_MAX: usize = 4 * 256 + 32 * 13 + 64;
/// Packets of the peer that a script can still deliver.
const KEPT_MAX: usize = 256;

/// Plays a script. Asserts that no memory outside of the region is touched, that a step leaves a
/// bounded number of packets, and that completions and records of failures agree.
pub fn play(script: &[u8]) -> Told {
    let Some((&first, mut rest)) = script.split_first() else { return Told::default() };
    let service = match first % 4 {
        0 | 3 => Service::ReliableConnection,
        1 => Service::UnreliableConnection,
        _ => Service::UnreliableDatagram,
    };
    let mtu = if first & 4 == 0 { Mtu::Bytes256 } else { Mtu::Bytes1024 };
    let retry_count = first >> 5;
    let terms = Terms { service, mtu, atomics: true, retry_count, ..Terms::default() };
    let [mut ours, mut peer] = pair(terms);
    let (mut kept, mut told) = (Vec::new(), Told::default());
    while let Some(([step, a, b, c], after)) = rest.split_first_chunk::<4>() {
        let packet = match step % 12 {
            // Bytes as they are.
            0 => {
                let length = usize::from(*a) | usize::from(*b & 15) << 8;
                let (bytes, after) = after.split_at(length.min(after.len()));
                rest = after;
                Some(bytes.to_vec())
            }
            // A head that fits, and the rest as it comes: so that it gets far.
            1..=3 => {
                let (bytes, after) = after.split_at(usize::from(*c & 63).min(after.len()));
                rest = after;
                Some(forged(&ours, [*step, *a, *b, *c], bytes))
            }
            // A real one, in any order, maybe with a byte changed.
            4 | 5 => {
                rest = after;
                let place = usize::from(*a) % kept.len().max(1);
                let real: Option<Vec<u8>> = kept.get(place).cloned();
                real.map(|mut real| {
                    let at = usize::from(*b) % real.len();
                    real[at] ^= if *step & 0x10 == 0 { 0 } else { *c };
                    real
                })
            }
            other => {
                rest = after;
                act(other, [*a, *b, *c], &mut ours, &mut peer);
                None
            }
        };
        if let Some(packet) = packet
            && let Ok(parsed) = Packet::parse(&packet)
        {
            told.heard += 1;
            // Now and then from somewhere else.
            let source = if step & 0xe0 == 0xe0 { 7 } else { 1 };
            ours.hears_from(source, &parsed, &packet);
        }
        let said = ours.speaks();
        assert!(said.len() <= SAID_MAX, "{} packets in one step", said.len());
        told.said += said.len();
        // Questions of credit are the driver's to answer.
        let is_packet = |bytes: &&Vec<u8>| Packet::parse(bytes).is_ok();
        peer.hears_all(said.iter().filter(is_packet));
        kept.extend(peer.speaks());
        kept.drain(..kept.len().saturating_sub(KEPT_MAX));
        told.failed += ours.failures().len();
        peer.failures();
        assert_eq!(ours.strayed() + peer.strayed(), 0, "memory outside of the region was wanted");
    }
    told
}

/// A packet to a queue pair whose opcode and packet number are chosen, numbers near those that it
/// waits for, and where a header names memory it may be its own.
fn forged(to: &Side, [step, opcode, psn, flags]: [u8; 4], bytes: &[u8]) -> Vec<u8> {
    let opcode = Opcode(opcode);
    // Its peer's requests begin at 500; what it sends itself, and gets answers for, at 100.
    let base = if step & 0x40 == 0 { 500 } else { 100 };
    let number = Psn::new((base + u32::from(psn)).wrapping_sub(32) & 0xff_ffff);
    let mut bth = Bth::new(opcode, to.qpn(), number);
    bth.ack_request = flags & 0x40 != 0;
    let mut packet = vec![0; Bth::LENGTH];
    bth.emit(&mut packet);
    if let Some(info) = opcode.info() {
        let mut headers = vec![0; info.header_length()];
        let given = bytes.len().min(headers.len());
        headers[..given].copy_from_slice(&bytes[..given]);
        if info.has_deth() && headers.len() >= 4 {
            headers[..4].copy_from_slice(&QUEUE_KEY.to_be_bytes());
        }
        let names_memory = info.has_reth() || info.has_atomic_eth();
        if names_memory && headers.len() >= 16 && flags & 0x80 == 0 {
            let at = to.remote(u64::from(headers[0]) << 8 | u64::from(headers[1]));
            headers[..8].copy_from_slice(&at.address.to_be_bytes());
            headers[8..12].copy_from_slice(&at.rkey.0.to_be_bytes());
            // Lengths of more than a few packets are rarely interesting.
            headers[12] &= if step & 0x20 == 0 { 0 } else { 0x80 };
            headers[13] &= 0x01;
        }
        packet.extend(headers);
        if info.has_payload() {
            // Full packets, too, for those in the middle of a message must be full.
            let payload = match flags & 0x30 {
                0x10 => 256,
                0x20 => 1024,
                _ => bytes.len() & !3,
            };
            packet.resize(packet.len() + payload, 0x5a);
        }
    } else {
        packet.extend_from_slice(bytes);
    }
    packet
}

/// What programs and time do.
fn act(step: u8, [a, b, c]: [u8; 3], ours: &mut Side, peer: &mut Side) {
    let length = (u32::from(b) << 8 | u32::from(c)) % 3000;
    let work = |to: &Side| {
        let remote = to.remote(u64::from(b) * 8);
        match a % 8 {
            0 => (Operation::Send, length),
            1 => (Operation::SendWithImmediate(1), length),
            2 => (Operation::Write(remote), length),
            3 => (Operation::WriteWithImmediate(remote, 2), length),
            4 => (Operation::Read(remote), length),
            5 => (Operation::FetchAndAdd { remote, add: 3 }, 8),
            6 => (Operation::CompareAndSwap { remote, compare: 0, swap: 4 }, 8),
            _ => (Operation::SendWithInvalidate(Rkey(u32::from(c))), length),
        }
    };
    match step {
        6 => {
            let (operation, length) = work(peer);
            ours.tries(1, operation, length);
        }
        7 => {
            let (operation, length) = work(ours);
            peer.tries(2, operation, length);
        }
        8 => ours.tries_receive(3, length),
        9 => peer.tries_receive(4, length),
        10 => ours.waits(u64::from(a) << (b % 12)),
        _ if a == 0xff && b == 0xff => ours.gives_up(),
        _ => peer.waits(u64::from(a) << (b % 12)),
    }
}
