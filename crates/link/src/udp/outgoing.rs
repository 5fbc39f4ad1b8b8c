//! Packets on their way out: a batch of runs in one contiguous buffer.
//!
//! A packet's bytes are written into the buffer once, its invariant CRC is computed over that
//! copy while it is in the cache, and that copy is what the kernel is given.

use super::destination::Destinations;
use super::faults::DepartingFaults;
use super::flow::Flow;
use super::recorder::{Recorder, Seen};
use super::run::{DATAGRAM_BYTES_MAX, Open, Run, Way};
use super::sender::{SENDERS_MAX, Senders};
use super::waiting::Waker;
use crate::capture::Direction;
use crate::counters::{Counter, Counters};
use crate::socket::{
    Control, Endpoint, SendBatch, SocketName, USUAL_HOP_LIMIT, hop_limit, source_address,
    traffic_class,
};
use converb_driver::Sent;
use converb_engine::{Address, AddressVector, PacketSink};
use converb_wire::{Qpn, icrc};
use rustix::io::Errno;
use std::sync::Arc;

/// What all outgoing batches of a port share.
pub(crate) struct Departure {
    pub(crate) senders: Senders,
    pub(crate) destinations: Destinations,
    pub(crate) counters: Arc<Counters>,
    pub(crate) destination_port: u16,
    /// Never let the kernel cut up sends.
    pub(crate) is_plain: bool,
    /// What happens to packets on purpose.
    pub(crate) faults: Option<DepartingFaults>,
    /// What is written down of packets.
    pub(crate) recorder: Recorder,
    pub(crate) waker: Arc<Waker>,
}

/// Packets on their way out.
pub struct Outgoing {
    departure: Arc<Departure>,
    buffer: Box<[u8]>,
    used: usize,
    /// The runs; those from `live` on are of earlier batches and only kept for their ways.
    runs: Vec<Run>,
    live: usize,
    /// The first run that has not left.
    first: usize,
    /// The length of the packet that was begun and not finished, without its CRC.
    begun: Option<usize>,
}

impl PacketSink for Outgoing {
    fn begin(
        &mut self,
        path: &AddressVector,
        destination: Qpn,
        length: usize,
    ) -> Option<&mut [u8]> {
        self.abandon();
        let bytes = length + icrc::LENGTH;
        let end = self.used + bytes;
        if end > self.buffer.len() || bytes > DATAGRAM_BYTES_MAX {
            return None;
        }
        let slot = slot_of(destination);
        let joins = self.live > self.first && {
            let run = &self.runs[self.live - 1];
            run.takes(bytes, self.departure.packets_max(run)) && run.way.leads_to(path, slot)
        };
        if !joins {
            if self.live == RUNS_MAX {
                return None;
            }
            self.start_run(path, slot);
        }
        self.begun = Some(length);
        Some(&mut self.buffer[self.used..self.used + length])
    }

    fn finish(&mut self) {
        let length = self.begun.take().expect("a packet was begun");
        let end = self.used + length + icrc::LENGTH;
        self.runs[self.live - 1].append(&mut self.buffer[self.used..end]);
        self.used = end;
    }

    fn abandon(&mut self) {
        if self.begun.take().is_some() && self.runs[self.live - 1].packets == 0 {
            self.live -= 1;
        }
    }
}

impl Outgoing {
    pub(crate) fn new(departure: Arc<Departure>) -> Self {
        Self {
            departure,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            used: 0,
            runs: Vec::with_capacity(RUNS_MAX),
            live: 0,
            first: 0,
            begun: None,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Starts a run to `slot` behind `path`.
    fn start_run(&mut self, path: &AddressVector, slot: u16) {
        let index = self.live;
        // Batches mostly go where the last one went, and their runs to one place.
        let known = [self.runs.get(index), index.checked_sub(1).map(|before| &self.runs[before])]
            .into_iter()
            .flatten()
            .find(|run| run.way.leads_to(path, slot));
        let way = match known {
            Some(run) => run.way,
            None => self.departure.way(path, slot),
        };
        let run = Run::new(way, self.used);
        match self.runs.get_mut(index) {
            Some(place) => *place = run,
            None => self.runs.push(run),
        }
        self.live += 1;
    }

    /// Sends the batch; see [`converb_driver::Port::send`].
    pub(crate) fn send(&mut self) -> Sent {
        self.abandon();
        if self.departure.faults.is_some() {
            self.send_through_faults();
        }
        let mut may_reopen = true;
        while self.first < self.live {
            let run = &self.runs[self.first];
            if run.way.open.is_none() {
                self.departure.counters.dropped_unreachable.add(run.packets as u64);
                self.first += 1;
                continue;
            }
            let sender = run.way.sender;
            let result = match self.departure.senders.socket(sender) {
                Ok((socket, _)) => {
                    self.departure.counters.send_calls.add(1);
                    gather(&self.runs[self.first..self.live], &self.buffer).send(socket)
                }
                Err(error) => Err(error),
            };
            match result {
                Ok(messages) => {
                    self.departure.senders.set_blocked(sender, false);
                    self.count_sent(messages);
                }
                Err(Errno::AGAIN) => {
                    self.departure.senders.set_blocked(sender, true);
                    self.departure.counters.send_full.add(1);
                    return Sent::Full;
                }
                // The program has closed it: nothing is lost if it can be had again. Once, that
                // nobody spins.
                Err(Errno::BADF | Errno::NOTSOCK) if may_reopen => {
                    may_reopen = false;
                    self.departure.counters.descriptors_lost.add(1);
                    self.departure.senders.reopen(sender);
                }
                Err(error) => self.handle_refusal(error),
            }
        }
        self.used = 0;
        self.live = 0;
        self.first = 0;
        self.departure.recorder.flush();
        Sent::All
    }

    /// Hands the packets to the faults, and sends what those let through now.
    fn send_through_faults(&mut self) {
        let Some(faults) = &self.departure.faults else { return };
        for run in &self.runs[self.first..self.live] {
            if run.way.open.is_none() {
                self.departure.counters.dropped_unreachable.add(run.packets as u64);
                continue;
            }
            for index in 0..run.packets {
                faults.take(&run.way, &self.buffer[run.packet(index)], &self.departure);
            }
        }
        self.first = self.live;
        if faults.flush(&self.departure) {
            // Who sleeps did not know that there is something to send then.
            self.departure.waker.wake();
        }
    }

    /// The kernel took `messages` of those that `gather` made of the first runs.
    fn count_sent(&mut self, mut messages: usize) {
        let counters = &self.departure.counters;
        while messages > 0 {
            let run = &mut self.runs[self.first];
            let before = run.sent;
            if run.way.is_plain {
                let count = messages.min(run.packets - run.sent);
                let bytes = run.packet(run.sent + count - 1).end - run.packet(run.sent).start;
                counters.sent_packets.add(count as u64);
                counters.sent_bytes.add(bytes as u64);
                if run.was_refused && run.sent == 0 {
                    // Alone the same packet goes, so it was the cutting up that was refused.
                    run.was_refused = false;
                    if self.departure.destinations.refused_segmentation(run.way.path.remote) {
                        counters.segmentation_refused.add(1);
                    }
                }
                run.sent += count;
                messages -= count;
            } else {
                counters.sent_packets.add(run.packets as u64);
                counters.sent_bytes.add(run.bytes as u64);
                counters.sent_super_packets.add(u64::from(run.packets > 1));
                run.sent = run.packets;
                messages -= 1;
            }
            self.departure.record(run, before..run.sent, &self.buffer, None);
            if run.sent == run.packets {
                self.first += 1;
            }
        }
    }

    /// The kernel refused the first message: try its packets one by one, or drop it.
    fn handle_refusal(&mut self, error: Errno) {
        let run = &mut self.runs[self.first];
        // No checksum offload: EIO. Segments above the device's MTU: EINVAL, on newer kernels
        // EMSGSIZE. A kernel without the option: EINVAL, or one of the other two.
        let is_about_segments = matches!(
            error,
            Errno::IO | Errno::INVAL | Errno::MSGSIZE | Errno::OPNOTSUPP | Errno::NOPROTOOPT
        );
        if is_about_segments && !run.way.is_plain && run.packets > 1 {
            run.make_plain(&mut self.buffer);
            return;
        }
        let counter = counter_of_refusal(error, &self.departure.counters);
        let count = if run.way.is_plain { 1 } else { run.packets };
        counter.add(count as u64);
        self.departure.record(run, run.sent..run.sent + count, &self.buffer, Some(REFUSED));
        // The first packet of a refused run is as refused alone: not for its segments.
        run.was_refused = false;
        run.sent += count;
        if run.sent == run.packets {
            self.first += 1;
        }
    }
}

/// Where a packet is counted that the kernel refused for good.
pub(crate) const fn counter_of_refusal(error: Errno, counters: &Counters) -> &Counter {
    match error {
        Errno::MSGSIZE => &counters.dropped_too_big,
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN => {
            &counters.dropped_unreachable
        }
        Errno::PERM | Errno::ACCESS | Errno::CONNREFUSED => &counters.dropped_refused,
        Errno::NOBUFS | Errno::NOMEM => &counters.dropped_queue_full,
        Errno::BADF | Errno::NOTSOCK => &counters.descriptors_lost,
        _ => &counters.dropped_send_error,
    }
}

impl Departure {
    /// Sends one packet by itself.
    ///
    /// # Errors
    /// The kernel's; `AGAIN` if the network takes no more for now.
    pub(crate) fn send_one(&self, way: &Way, packet: &[u8]) -> Result<(), Errno> {
        let Some(open) = &way.open else { return Err(Errno::NETUNREACH) };
        let (socket, _) = self.senders.socket(way.sender)?;
        let mut batch = SendBatch::new();
        batch.push(&open.name, open.control_plain(), packet);
        self.counters.send_calls.add(1);
        batch.send(socket).map(|_| ())
    }

    /// Writes down packets of a run.
    #[inline]
    fn record(
        &self,
        run: &Run,
        packets: core::ops::Range<usize>,
        buffer: &[u8],
        comment: Option<&'static str>,
    ) {
        if self.recorder.is_on() {
            for index in packets {
                let packet = &buffer[run.packet(index)];
                self.record_one(&run.way, run.identification(index), packet, comment);
            }
        }
    }

    /// Writes down a packet.
    pub(crate) fn record_one(
        &self,
        way: &Way,
        identification: u16,
        packet: &[u8],
        comment: Option<&'static str>,
    ) {
        let Some(open) = &way.open else { return };
        let seen = Seen {
            direction: Direction::Sent,
            traffic_class: way.path.traffic_class,
            hop_limit: way.path.hop_limit,
            identification,
        };
        self.recorder.record(&open.flow, seen, packet, comment);
    }

    /// Sends what was delayed on purpose and is due.
    pub(crate) fn flush_if_due(&self) {
        if let Some(faults) = &self.faults {
            faults.flush_if_due(self);
        }
    }

    /// How many packets `run` may have.
    fn packets_max(&self, run: &Run) -> usize {
        if run.way.is_plain { PLAIN_PACKETS_MAX } else { self.senders.segments_max() }
    }

    /// The way to `slot` behind `path`.
    #[cold]
    fn way(&self, path: &AddressVector, slot: u16) -> Way {
        let mut way = Way { path: *path, slot, sender: 0, is_plain: self.is_plain, open: None };
        let (Address::Udp { ip: local, scope: local_scope }, Address::Udp { ip, scope }) =
            (path.local, path.remote)
        else {
            return way;
        };
        let route = self.destinations.route(path.remote, slot);
        debug_assert!(route.sender < SENDERS_MAX);
        let Ok((_, source_port)) = self.senders.socket(route.sender) else { return way };
        way.sender = route.sender;
        way.is_plain |= route.is_plain || self.senders.segments_max() < 2;
        let endpoint = Endpoint { ip, scope, port: self.destination_port };
        let flow = Flow::new((local, source_port), (ip, self.destination_port));
        let name = SocketName::new(endpoint, self.senders.family());
        if let (Some(flow), Some(name)) = (flow, name) {
            let mut control = Control::new();
            source_address(&mut control, local, local_scope);
            if path.traffic_class != 0 {
                traffic_class(&mut control, flow.is_ipv4(), path.traffic_class);
            }
            if path.hop_limit != 0 && path.hop_limit != USUAL_HOP_LIMIT {
                hop_limit(&mut control, flow.is_ipv4(), path.hop_limit);
            }
            way.open = Some(Open::new(flow, name, control));
        }
        way
    }
}

/// The messages of the first runs, as many as leave from one socket and fit into a call.
fn gather<'a>(runs: &'a [Run], buffer: &'a [u8]) -> SendBatch<'a> {
    let mut batch = SendBatch::new();
    for run in runs {
        let Some(open) = &run.way.open else { break };
        if run.way.sender != runs[0].way.sender {
            break;
        }
        if run.way.is_plain || run.packets == 1 {
            for index in run.sent..run.packets {
                let bytes = &buffer[run.packet(index)];
                if !batch.push(&open.name, open.control_plain(), bytes) {
                    return batch;
                }
            }
        } else {
            let bytes = &buffer[run.start..run.start + run.bytes];
            if !batch.push(&open.name, open.control_segmented(), bytes) {
                return batch;
            }
        }
    }
    batch
}

/// The slot that a queue pair number belongs to: its high 10 bits.
pub(crate) const fn slot_of(qpn: Qpn) -> u16 {
    (qpn.value() >> 14) as u16
}

/// What is said of a packet that the kernel did not take.
pub(crate) const REFUSED: &str = "not sent: the system refused it";

/// A super-packet, the longer first packet of its message, and some.
const BUFFER_BYTES: usize = 96 << 10;
const RUNS_MAX: usize = 16;
const PLAIN_PACKETS_MAX: usize = 128;

#[cfg(test)]
mod tests;
