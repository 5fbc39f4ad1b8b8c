//! Packets that came in: fetched in bulk, checked one by one just before they are used.
//!
//! The kernel copies a super-packet into a buffer; the invariant CRC of each packet in it is
//! computed while that part of the buffer is in the cache, and then the engine reads it there.

use super::arriving::Arriving;
use super::faults::{ArrivingFaults, DAMAGED, DROPPED};
use super::flow::{Flow, Share, actual_word, identification_of, word_of};
use super::recorder::{Recorder, Seen};
use super::relay::{Relay, Relayed};
use super::source::Sources;
use crate::capture::Direction;
use crate::carried::Envelope;
use crate::clock;
use crate::counters::Counters;
use crate::fault::Decision;
use crate::socket::{Arrival, Endpoint};
use converb_driver::Received;
use converb_engine::Address;
use converb_wire::{Bth, icrc};
use rustix::io::Errno;
use std::time::Instant;

/// Packets that came in, not all looked at yet.
pub struct Incoming {
    buffers: Box<[u8]>,
    arrivals: Box<[Arrival]>,
    /// How many of the buffers hold a message.
    filled: usize,
    /// Which of them is being looked at, and from which byte on.
    current: usize,
    offset: usize,
    message: Option<Message>,
    /// The Identification that the next packet of the message should have.
    expected: u16,
    /// How many buffers the next call offers.
    offered: usize,
    /// The slot that is asked first.
    turn: usize,
    /// The socket that the messages came by.
    slot: usize,
    sources: Sources,
    started: Instant,
    relayed: Relayed,
    /// What happens to packets on purpose.
    faults: Option<Box<ArrivingFaults>>,
    recorder: Recorder,
    good: Tally,
}

/// Counted here first, for an atomic addition for each packet is not free.
#[derive(Default)]
struct Tally {
    packets: u64,
    bytes: u64,
}

/// A received message: a packet, or a super-packet of several from one flow.
#[derive(Clone, Copy)]
struct Message {
    bytes: usize,
    packet_bytes: usize,
    flow: Flow,
    /// For its packets but the last one.
    share: Share,
    source: Address,
    local: Address,
    traffic_class: u8,
    hop_limit: u8,
}

impl Message {
    /// A packet of it.
    const fn packet(self, bytes: &[u8]) -> Received<'_> {
        Received {
            source: self.source,
            local: self.local,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            bytes,
        }
    }
}

impl Incoming {
    pub(crate) fn new(faults: Option<ArrivingFaults>, recorder: Recorder) -> Self {
        Self {
            buffers: vec![0; BUFFERS * BUFFER_BYTES].into_boxed_slice(),
            arrivals: (0..BUFFERS).map(|_| Arrival::new()).collect(),
            filled: 0,
            current: 0,
            offset: 0,
            message: None,
            expected: 0,
            offered: 1,
            turn: 0,
            slot: 0,
            sources: Sources::new(),
            started: Instant::now(),
            relayed: Relayed::new(),
            faults: faults.map(Box::new),
            recorder,
            good: Tally::default(),
        }
    }

    /// Fetches what has arrived by the first socket that has something.
    pub(crate) fn receive(&mut self, sockets: &[Arriving], counters: &Counters) -> bool {
        self.flush(counters);
        self.filled = 0;
        self.current = 0;
        self.message = None;
        self.relayed.clear();
        for step in 0..sockets.len() {
            let index = (self.turn + step) % sockets.len();
            let arrivals = &mut self.arrivals[..self.offered];
            counters.receive_calls.add(1);
            match sockets[index].receive(&mut self.buffers, BUFFER_BYTES, arrivals) {
                Ok(count) => {
                    self.filled = count;
                    self.slot = index;
                    self.turn = (index + 1) % sockets.len();
                    // A single small packet after a quiet moment is a ping-pong: asking for more
                    // would cost a fruitless look at the socket. After a super-packet the same
                    // buffer is the one that is in the cache.
                    let is_small = arrivals[0].bytes < SMALL_BYTES;
                    self.offered = if is_small { BUFFERS } else { 1 };
                    counters.received_batches.add(1);
                    return true;
                }
                Err(Errno::AGAIN) => (),
                Err(Errno::BADF | Errno::NOTSOCK) => counters.descriptors_lost.add(1),
                // An error that an earlier send left at the socket; it is gone with this call.
                Err(_) => (),
            }
        }
        self.offered = 1;
        false
    }

    /// Takes over packets of ours that other processes received.
    pub(crate) fn take_over(&mut self, relay: &dyn Relay, counters: &Counters) -> bool {
        relay.take(&mut self.relayed);
        counters.taken_over_packets.add(self.relayed.left() as u64);
        self.relayed.left() > 0
    }

    /// Lets packets in that were delayed on purpose and are due.
    pub(crate) fn release_delayed(&mut self) -> bool {
        let Some(faults) = &mut self.faults else { return false };
        faults.release(clock::now(), &mut self.relayed);
        self.relayed.left() > 0
    }

    /// The next good packet.
    pub(crate) fn next(
        &mut self,
        sockets: &[Arriving],
        counters: &Counters,
    ) -> Option<Received<'_>> {
        if self.relayed.left() > 0 {
            return self.relayed.next();
        }
        let (message, packet) = loop {
            let Some(message) = self.message else {
                if self.current == self.filled {
                    self.flush(counters);
                    return None;
                }
                self.start_message(&sockets[self.slot], counters);
                continue;
            };
            let start = self.current * BUFFER_BYTES + self.offset;
            let bytes = message.packet_bytes.min(message.bytes - self.offset);
            self.offset += bytes;
            let packet = start..start + bytes;
            let decision = match &mut self.faults {
                None => Decision::default(),
                Some(faults) => faults.meet(&mut self.buffers[packet.clone()], counters),
            };
            let verdict = self.check(&message, packet.clone(), counters);
            if self.offset == message.bytes {
                self.message = None;
                self.current += 1;
            }
            if self.recorder.is_on() {
                self.record(&message, &self.buffers[packet.clone()], &decision, verdict);
            }
            if verdict.is_err() {
                continue;
            }
            self.good.packets += 1;
            self.good.bytes += packet.len() as u64;
            let transport = packet.start..packet.end - icrc::LENGTH;
            if let Some(faults) = &mut self.faults {
                let received = message.packet(&self.buffers[transport.clone()]);
                if !faults.lets_in(&decision, &received, clock::now(), counters) {
                    continue;
                }
            }
            break (message, transport);
        };
        Some(message.packet(&self.buffers[packet]))
    }

    /// Reads what came with the message in the current buffer; passes over it if it is no use.
    fn start_message(&mut self, socket: &Arriving, counters: &Counters) {
        let arrival = &self.arrivals[self.current];
        self.message = parse_arrival(arrival, socket, counters);
        self.offset = 0;
        self.expected = 0;
        if self.message.is_none() {
            self.current += 1;
        }
    }

    /// Whether a packet is whole and undamaged: the Identification that it came with, or why not.
    fn check(
        &mut self,
        message: &Message,
        packet: core::ops::Range<usize>,
        counters: &Counters,
    ) -> Result<u16, &'static str> {
        let Some((transport, received)) = icrc::split(&self.buffers[packet])
            .filter(|(transport, _)| transport.len() >= Bth::LENGTH)
        else {
            counters.dropped_short.add(1);
            return Err("dropped: shorter than a BTH and the invariant CRC");
        };
        let expected = self.expected;
        let computed = if message.share.is_for(transport.len()) {
            message.share.icrc(expected, transport)
        } else {
            message.flow.share(transport.len()).icrc(expected, transport)
        };
        self.expected = expected.wrapping_add(1);
        let Some(ip) = message.flow.ipv4_source() else {
            counters.dropped_bad_icrc.add(u64::from(computed != received));
            return if computed == received { Ok(0) } else { Err(BAD_ICRC) };
        };
        if computed == received {
            self.sources.met_expectation(ip, expected);
            return Ok(expected);
        }
        let word = actual_word(received, computed, word_of(expected), transport.len());
        let identification = identification_of(word);
        let now_ms = self.started.elapsed().as_millis() as u64;
        if self.sources.accepts(ip, identification, now_ms) {
            let identification = identification.unwrap_or(expected);
            self.expected = identification.wrapping_add(1);
            return Ok(identification);
        }
        match identification {
            Some(_) => {
                counters.dropped_identification.add(1);
                Err("dropped: the invariant CRC is wrong, or the IPv4 Identification unexpected")
            }
            None => {
                counters.dropped_bad_icrc.add(1);
                Err(BAD_ICRC)
            }
        }
    }

    /// Writes down a packet and what became of it.
    #[cold]
    fn record(
        &self,
        message: &Message,
        packet: &[u8],
        decision: &Decision,
        verdict: Result<u16, &'static str>,
    ) {
        let comment = match verdict {
            _ if decision.is_dropped => Some(DROPPED),
            _ if decision.damaged_bit.is_some() => Some(DAMAGED),
            Ok(_) => None,
            Err(reason) => Some(reason),
        };
        let seen = Seen {
            direction: Direction::Received,
            traffic_class: message.traffic_class,
            hop_limit: message.hop_limit,
            identification: verdict.unwrap_or(0),
        };
        self.recorder.record(&message.flow, seen, packet, comment);
    }

    /// Adds up what was counted.
    fn flush(&mut self, counters: &Counters) {
        counters.received_packets.add(core::mem::take(&mut self.good.packets));
        counters.received_bytes.add(core::mem::take(&mut self.good.bytes));
        self.recorder.flush();
    }
}

/// Reads what came with a message. `None` if packets cannot be made of it.
fn parse_arrival(arrival: &Arrival, socket: &Arriving, counters: &Counters) -> Option<Message> {
    let bytes = arrival.bytes as usize;
    let envelope = socket.envelope(arrival);
    if let Some(count) = envelope.as_ref().and_then(|envelope| envelope.overflows) {
        let before = socket.overflows.swap(count, core::sync::atomic::Ordering::Relaxed);
        counters.dropped_overflow.add(u64::from(count.wrapping_sub(before)));
    }
    if bytes == 0 {
        counters.dropped_short.add(1);
        return None;
    }
    let message = envelope.and_then(|envelope| {
        let Envelope { source: Endpoint { ip, scope, port }, traffic_class, hop_limit, .. } =
            envelope;
        let (local, interface) = envelope.destination;
        let packet_bytes = envelope.segment_bytes.unwrap_or(bytes);
        let flow = Flow::new((ip, port), (local, socket.port))?;
        let local_scope = if local.is_unicast_link_local() { interface } else { 0 };
        Some(Message {
            bytes,
            packet_bytes,
            flow,
            share: flow.share(packet_bytes.saturating_sub(icrc::LENGTH)),
            source: Address::Udp { ip, scope },
            local: Address::Udp { ip: local, scope: local_scope },
            traffic_class,
            hop_limit,
        })
    });
    if arrival.is_truncated || message.is_none() {
        counters.dropped_incomplete.add(1);
        return None;
    }
    message
}

const BAD_ICRC: &str = "dropped: the invariant CRC is wrong";

const BUFFERS: usize = 8;
/// The longest datagram, and so the longest super-packet, rounded up to whole pages.
const BUFFER_BYTES: usize = 64 << 10;
/// A message below this is no super-packet worth a buffer of its own.
const SMALL_BYTES: u32 = 16 << 10;
