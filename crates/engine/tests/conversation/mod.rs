//! Two queue pairs and everything that they say to each other, one line a step: a test reads like
//! a trace of packets. Packets go where the test sends them, and time is what the test says.

#![allow(dead_code, reason = "each conversation uses its part")]

use converb_engine::iba::{
    Arrival, AttributeMask, Attributes, Cause, CreditMessage, Environment, Failure, Mtu,
    PathFinder, PathWindow, QueuePair, QueuePairSpec, ReadBudget, ReceiveSource, Service,
    Side as Queue, State, Transmit,
};
use converb_engine::memory::{Access, KeyTable, ProtectionDomain, RegionSpec};
use converb_engine::work::{
    DatagramDestination, Operation, Payload, ReceiveRequest, ReceiveRing, ReceiveWork,
    RemoteAddress, ScatterGather, SendFlags, SendRequest, SendRing,
};
use converb_engine::{Address, AddressVector, Counters, Fault, Memory, PacketSink, Status, Time};
use converb_wire::{Packet, Psn, Qpn, Rkey, Syndrome};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Where each side's memory begins; it is one region.
pub const BASE: u64 = 0x1000;
/// How much there is.
pub const SIZE: usize = 64 << 10;
/// The path MTU, if a test does not say otherwise.
pub const MTU: u32 = 1024;
/// The Q_Key of both sides, if they exchange datagrams.
pub const QUEUE_KEY: u32 = 0x1111_1111;
const DOMAIN: ProtectionDomain = ProtectionDomain(1);

/// What a test may want otherwise.
#[derive(Clone, Copy)]
pub struct Terms {
    pub mtu: Mtu,
    pub timeout: u8,
    pub retry_count: u8,
    pub rnr_retry: u8,
    pub max_reads: u8,
    pub service: Service,
    pub atomics: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            mtu: Mtu::Bytes1024,
            timeout: 1,
            retry_count: 7,
            rnr_retry: 7,
            max_reads: 4,
            service: Service::ReliableConnection,
            atomics: false,
        }
    }
}

/// The bytes, and how often somebody wanted others.
struct Bytes(RefCell<Vec<u8>>, Cell<u32>);

impl Bytes {
    fn at(&self, address: u64, length: usize) -> Result<std::ops::Range<usize>, Fault> {
        let start = address.checked_sub(BASE).map(|start| start as usize);
        let start = start.filter(|start| start.checked_add(length).is_some_and(|end| end <= SIZE));
        let Some(start) = start else {
            self.1.set(self.1.get() + 1);
            return Err(Fault { address });
        };
        Ok(start..start + length)
    }

    /// Changes a number in one step; the one before.
    fn change(&self, address: u64, new: impl FnOnce(u64) -> u64) -> Result<u64, Fault> {
        let range = self.at(address, 8)?;
        let mut bytes = self.0.borrow_mut();
        let place = bytes[range].first_chunk_mut().expect("eight bytes");
        let before = u64::from_ne_bytes(*place);
        *place = new(before).to_ne_bytes();
        Ok(before)
    }
}

impl Memory for Bytes {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(&self.0.borrow()[self.at(address, into.len())?]);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        self.0.borrow_mut()[self.at(address, from.len())?].copy_from_slice(from);
        Ok(())
    }

    fn compare_and_swap(&self, address: u64, compare: u64, swap: u64) -> Result<u64, Fault> {
        self.change(address, |before| if before == compare { swap } else { before })
    }

    fn fetch_and_add(&self, address: u64, add: u64) -> Result<u64, Fault> {
        self.change(address, |before| before.wrapping_add(add))
    }
}

struct Receives(ReceiveRing);

impl ReceiveSource for Receives {
    fn take(&mut self, work: &mut ReceiveWork) -> bool {
        self.0.take(work)
    }

    fn credits(&self) -> Option<usize> {
        Some(self.0.len())
    }

    fn is_shared(&self) -> bool {
        false
    }
}

struct NoPaths;

impl PathFinder for NoPaths {
    fn find(&self, _: Address, _: Qpn) -> Arc<PathWindow> {
        Arc::default()
    }
}

#[derive(Default)]
struct Sink(Vec<Vec<u8>>);

impl PacketSink for Sink {
    fn begin(&mut self, _: &AddressVector, _: Qpn, length: usize) -> Option<&mut [u8]> {
        self.0.push(vec![0xee; length]);
        self.0.last_mut().map(Vec::as_mut_slice)
    }

    fn finish(&mut self) {}

    fn abandon(&mut self) {
        self.0.pop();
    }
}

/// A queue pair and its world.
pub struct Side {
    index: u16,
    queue_pair: QueuePair,
    posted: SendRing,
    receives: Receives,
    keys: KeyTable,
    memory: Bytes,
    path: PathWindow,
    reads: ReadBudget,
    counters: Counters,
    now: Time,
    key: Rkey,
}

/// Two connected sides; the first sends from PSN 100 on, the second from 500 on.
pub fn pair(terms: Terms) -> [Side; 2] {
    [0, 1].map(|index| Side::new(index, terms))
}

impl Side {
    fn new(index: u16, terms: Terms) -> Self {
        use AttributeMask as A;
        let mut keys = KeyTable::new(7 + u64::from(index));
        let mut access = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE).with(Access::REMOTE_READ);
        if terms.atomics {
            access = access.with(Access::REMOTE_ATOMIC);
        }
        let spec = RegionSpec { address: BASE, length: SIZE as u64, iova: BASE, access };
        let key = keys.register(DOMAIN, spec, 3).unwrap().key;
        let queue_pair = QueuePair::new(&QueuePairSpec {
            qpn: Qpn::new(0x10 + u32::from(index)),
            service: terms.service,
            signal_all: true,
            send_capacity: 32,
            send_entries_max: 1,
            inline_max: 0,
            port_mtu: 4096,
        });
        let own = Address::Lid(index);
        let memory = (0..SIZE).map(|at| (at / 7) as u8 ^ at as u8 ^ (index as u8) << 7).collect();
        let mut side = Self {
            index,
            queue_pair,
            posted: SendRing::new(32, 1, 0),
            receives: Receives(ReceiveRing::new(32, 1)),
            keys,
            memory: Bytes(RefCell::new(memory), Cell::new(0)),
            path: PathWindow::default(),
            reads: ReadBudget::new(212_992),
            counters: Counters::default(),
            now: Time::from_nanoseconds(1_000_000),
            key,
        };
        let psn = |index: u16| Psn::new(100 + 400 * u32::from(index));
        let path = AddressVector {
            local: own,
            remote: Address::Lid(1 - index),
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            service_level: 0,
        };
        let attributes = Attributes {
            destination: Qpn::new(0x10 + u32::from(1 - index)),
            path: Some(path),
            path_mtu: terms.mtu,
            receive_psn: psn(1 - index),
            send_psn: psn(index),
            access,
            timeout: terms.timeout,
            retry_count: terms.retry_count,
            rnr_retry: terms.rnr_retry,
            min_rnr_timer: 12,
            max_reads: terms.max_reads,
            max_destination_reads: terms.max_reads,
            port: 1,
            queue_key: QUEUE_KEY,
            ..Attributes::default()
        };
        let receive = A::PATH.with(A::PATH_MTU).with(A::DESTINATION).with(A::RECEIVE_PSN);
        let send = A::TIMEOUT.with(A::RETRY_COUNT).with(A::RNR_RETRY).with(A::MAX_READS);
        let (receive, send) = match terms.service {
            Service::ReliableConnection => {
                (receive.with(A::MAX_DESTINATION_READS).with(A::MIN_RNR_TIMER), send)
            }
            Service::UnreliableConnection => (receive, A::NONE),
            Service::UnreliableDatagram => (A::NONE, A::NONE),
        };
        let is_datagram = terms.service == Service::UnreliableDatagram;
        let access_or_key = if is_datagram { A::QUEUE_KEY } else { A::ACCESS_FLAGS };
        let steps = [
            (State::Init, A::PARTITION_KEY_INDEX.with(A::PORT).with(access_or_key)),
            (State::ReadyToReceive, receive),
            (State::ReadyToSend, send.with(A::SEND_PSN)),
        ];
        for (state, mask) in steps {
            let new = Attributes { state, ..attributes };
            side.within(|queue_pair, env, _| queue_pair.modify(&new, mask.with(A::STATE), env))
                .unwrap();
        }
        side
    }

    fn within<R>(
        &mut self,
        action: impl FnOnce(&mut QueuePair, &mut Environment<'_, Bytes>, &mut SendRing) -> R,
    ) -> R {
        let mut env = Environment {
            now: self.now,
            keys: &self.keys,
            memory: &self.memory,
            receives: &mut self.receives,
            path: &self.path,
            paths: &NoPaths,
            reads: &self.reads,
            counters: &self.counters,
            domain: DOMAIN,
        };
        action(&mut self.queue_pair, &mut env, &mut self.posted)
    }

    /// Where this side's memory is for its peer, from `offset` on.
    pub fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { address: BASE + offset, rkey: self.key }
    }

    /// The same with a key that does not fit.
    pub fn wrong_remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { rkey: Rkey(self.key.0 ^ 4), ..self.remote(offset) }
    }

    /// Bytes of its memory.
    pub fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        self.memory.0.borrow()[offset..offset + length].to_vec()
    }

    /// Posts a work request about the first `length` bytes of its memory.
    pub fn posts(&mut self, wr_id: u64, operation: Operation, length: u32) {
        self.posts_with(wr_id, operation, length, SendFlags::default());
    }

    /// The same behind a fence.
    pub fn posts_fenced(&mut self, wr_id: u64, operation: Operation, length: u32) {
        self.posts_with(wr_id, operation, length, SendFlags { fence: true, ..Default::default() });
    }

    /// The same with a local key that does not fit.
    pub fn posts_with_wrong_key(&mut self, wr_id: u64, operation: Operation, length: u32) {
        let right = self.key;
        self.key = Rkey(right.0 ^ 4);
        self.posts(wr_id, operation, length);
        self.key = right;
    }

    fn posts_with(&mut self, wr_id: u64, operation: Operation, length: u32, flags: SendFlags) {
        let list = [ScatterGather { address: BASE, length, lkey: self.key.0 }];
        let payload = Payload::Gather(&list);
        let request = SendRequest { wr_id, operation, flags, payload, destination: None };
        self.posted.push(&request).unwrap();
    }

    /// Posts a receive of `length` bytes at the end of its memory.
    pub fn posts_receive(&mut self, wr_id: u64, length: u32) {
        let address = BASE + SIZE as u64 - u64::from(length);
        let scatter = [ScatterGather { address, length, lkey: self.key.0 }];
        self.receives.0.push(&ReceiveRequest { wr_id, scatter: &scatter }).unwrap();
    }

    /// Posts work, if there is room for it; datagrams go to the peer.
    pub fn tries(&mut self, wr_id: u64, operation: Operation, length: u32) {
        let list = [ScatterGather { address: BASE, length, lkey: self.key.0 }];
        let payload = Payload::Gather(&list);
        let flags = SendFlags::default();
        let path = AddressVector {
            local: Address::Lid(self.index),
            remote: Address::Lid(1 - self.index),
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            service_level: 0,
        };
        let qpn = Qpn::new(0x10 + u32::from(1 - self.index));
        let destination = Some(DatagramDestination { path, qpn, queue_key: QUEUE_KEY });
        let _ = self.posted.push(&SendRequest { wr_id, operation, flags, payload, destination });
    }

    /// Posts a receive, if there is room for it.
    pub fn tries_receive(&mut self, wr_id: u64, length: u32) {
        let address = BASE + SIZE as u64 - u64::from(length);
        let scatter = [ScatterGather { address, length, lkey: self.key.0 }];
        let _ = self.receives.0.push(&ReceiveRequest { wr_id, scatter: &scatter });
    }

    /// What it sends now, which must be these packets.
    #[track_caller]
    pub fn says(&mut self, expected: &[&str]) -> Vec<Vec<u8>> {
        let packets = self.speaks();
        let lines: Vec<String> = packets.iter().map(|packet| describe(packet)).collect();
        assert_eq!(lines, expected, "side {} says", self.index);
        packets
    }

    /// What it sends now, whatever it is.
    pub fn speaks(&mut self) -> Vec<Vec<u8>> {
        self.within(|queue_pair, env, posted| {
            let mut sink = Sink::default();
            queue_pair.take_posted(posted, env);
            while queue_pair.poll_transmit(env, &mut sink) == Transmit::SinkFull {}
            sink.0
        })
    }

    /// What it says when it leaves.
    pub fn parts(&mut self) -> Vec<Vec<u8>> {
        let mut sink = Sink::default();
        if self.queue_pair.needs_farewell(&self.path) {
            self.queue_pair.write_farewell(&mut sink);
        }
        sink.0
    }

    /// A packet arrives.
    pub fn hears(&mut self, packet: &[u8]) {
        self.hears_from(1 - self.index, &Packet::parse(packet).expect("we wrote it"), packet);
    }

    /// A packet arrives from somewhere.
    pub fn hears_from(&mut self, source: u16, parsed: &Packet<'_>, packet: &[u8]) {
        let arrival = Arrival {
            source: Address::Lid(source),
            local: Address::Lid(self.index),
            traffic_class: 0,
            hop_limit: 0,
        };
        self.within(|queue_pair, env, _| queue_pair.handle_packet(parsed, packet, &arrival, env));
    }

    /// How often memory was touched that is in no region.
    pub fn strayed(&self) -> u32 {
        self.memory.1.get()
    }

    /// Packets arrive in this order.
    pub fn hears_all<'a>(&mut self, packets: impl IntoIterator<Item = &'a Vec<u8>>) {
        for packet in packets {
            self.hears(packet);
        }
    }

    /// So many microseconds pass, and it looks at its clocks if they are due.
    pub fn waits(&mut self, microseconds: u64) {
        self.now = self.now + core::time::Duration::from_micros(microseconds);
        let now = self.now;
        self.within(|queue_pair, env, _| {
            if queue_pair.deadline(env) <= now {
                queue_pair.handle_timer(env);
            }
        });
    }

    /// How many microseconds from now it wants to look at its clocks; `None` for never.
    pub fn is_due_in(&mut self) -> Option<u64> {
        let now = self.now;
        let deadline = self.within(|queue_pair, env, _| queue_pair.deadline(env));
        (deadline < Time::NEVER).then(|| deadline.since(now).as_micros() as u64)
    }

    /// The completions since the last look, which must be these.
    #[track_caller]
    pub fn completes(&mut self, expected: &[&str]) {
        let mut lines = Vec::new();
        while let Some((queue, completion)) = self.queue_pair.next_completion() {
            let what = if queue == Queue::Send { "work" } else { "receive" };
            lines.push(format!("{what} {}: {:?}", completion.wr_id, completion.status));
        }
        assert_eq!(lines, expected, "side {} completes", self.index);
    }

    /// What failed since the last look. Each completion with an error tells the number of its
    /// cause.
    pub fn failures(&mut self) -> Vec<Failure> {
        let mut told = Vec::new();
        while let Some((_, completion)) = self.queue_pair.next_completion() {
            let is_good = completion.status == Status::Success;
            assert_eq!(completion.vendor_error == 0, is_good, "{completion:?}");
            told.extend((!is_good).then_some((completion.status, completion.vendor_error)));
        }
        let failures: Vec<Failure> =
            core::iter::from_fn(|| self.queue_pair.next_failure()).collect();
        let recorded: Vec<_> = failures
            .iter()
            .filter(|failure| failure.has_completion)
            .flat_map(|failure| {
                let one = (failure.status, failure.cause.number());
                core::iter::repeat_n(one, failure.count as usize)
            })
            .collect();
        assert_eq!(recorded, told, "side {}: what is recorded is what completed", self.index);
        failures
    }

    /// Why the one thing failed that did.
    #[track_caller]
    pub fn cause(&mut self) -> Cause {
        let failures = self.failures();
        assert_eq!(failures.len(), 1, "{failures:?}");
        failures[0].cause
    }

    /// Registers its memory anew, for the addresses from `BASE` on. There is nothing at other
    /// places.
    pub fn registers(&mut self, domain: u32, access: Access, address: u64, length: u64) {
        let spec = RegionSpec { address, length, iova: BASE, access };
        self.key = self.keys.register(ProtectionDomain(domain), spec, 9).unwrap().key;
    }

    /// The program puts it into the error state.
    pub fn gives_up(&mut self) {
        let new = Attributes { state: State::Error, ..Attributes::default() };
        self.within(|queue_pair, env, _| {
            queue_pair.modify(&new, AttributeMask::STATE, env).unwrap();
        });
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.queue_pair.qpn()
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.queue_pair.state()
    }
}

/// A packet in a few words: `WRITE_ONLY 100 +8 A` has PSN 100, 8 bytes, and asks for an ACK.
pub fn describe(bytes: &[u8]) -> String {
    if let Some(credit) = CreditMessage::parse(bytes) {
        return format!("CREDIT {:?} {}", credit.kind, credit.count);
    }
    let packet = Packet::parse(bytes).expect("we wrote it");
    let bth = packet.bth();
    let name = bth.opcode.name().unwrap_or("?").trim_start_matches("RC_").to_owned();
    let mut line = match packet.aeth().map(|aeth| aeth.syndrome) {
        Some(Syndrome::Nak(code)) => format!("NAK {code:?} {}", bth.psn.value()),
        Some(Syndrome::RnrNak { .. }) => format!("RNR NAK {}", bth.psn.value()),
        Some(Syndrome::Ack { .. }) if name == "ACKNOWLEDGE" => format!("ACK {}", bth.psn.value()),
        _ => format!("{name} {}", bth.psn.value()),
    };
    if let Some(reth) = packet.reth() {
        line += &format!(" of {}", reth.length);
    } else if packet.info().has_payload() {
        line += &format!(" +{}", packet.payload().len());
    }
    if bth.ack_request {
        line += " A";
    }
    line
}
