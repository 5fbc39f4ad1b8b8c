//! The requester: turns work requests into request packets and answers into completions
//! (IBA 9.7.3, 9.7.5).
//!
//! Packets are numbered as a work starts; three marks move through the numbers:
//! `unacknowledged` (the oldest packet without its answer), `cursor` (the next to send) and
//! `sent_end` (one past the last ever sent). Going back is moving the cursor.

mod answers;
mod build;
mod complete;
mod received;

use super::cause::Ending;
use super::environment::Environment;
use super::outbox::Outbox;
use super::path::truesize;
use super::queue_pair::{Identity, Transmit};
use super::recovery::{Recovery, Verdict};
use super::timers::{Due, Timers};
use crate::completion::Status;
use crate::counters::Counters;
use crate::memory::Memory;
use crate::planted::{self, Planted};
use crate::time::Time;
use crate::transmit::PacketSink;
use crate::work::{Operation, SendRing};
use build::Built;
use converb_wire::Psn;
use received::Received;
use std::collections::VecDeque;

/// What a started work request has come to.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    first: Psn,
    packets: u32,
}

impl Progress {
    fn end(&self) -> Psn {
        self.first.plus(self.packets)
    }
}

/// A READ request in flight: the numbers of its responses, and what it took from the budget.
#[derive(Clone, Copy, Debug)]
struct ReadInFlight {
    start: Psn,
    end: Psn,
    budget: u32,
}

/// A work request that cannot go on, and how it will complete once those before it have.
#[derive(Clone, Copy, Debug)]
struct Stuck {
    work: u64,
    ending: Ending,
}

/// The requester's half of a queue pair.
#[derive(Debug)]
pub(super) struct Requester {
    queue: SendRing,
    progress: Vec<Progress>,
    /// The first work that has no packet numbers yet.
    unstarted: u64,
    /// The work that the cursor is in.
    cursor_work: u64,
    /// The number of the first packet of the next work.
    next: Psn,
    unacknowledged: Psn,
    cursor: Psn,
    sent_end: Psn,
    reads: VecDeque<ReadInFlight>,
    received: Received,
    recovery: Recovery,
    timers: Timers,
    /// What our packets take of the path's window.
    charged: u32,
    since_ack_request: u32,
    round_trip_sample: Option<(Psn, Time)>,
    /// Messages started, and how many the peer's credits allow (IBA 9.7.7.2).
    messages: u32,
    message_limit: Option<u32>,
    stuck: Option<Stuck>,
    /// The gap in READ responses that was asked for again.
    gap: Option<Psn>,
    /// What is sent again before anything else is a probe of the tail.
    probing: bool,
}

/// An ACK is asked for at least once in this much (`truesize`), so that windows move on.
const ACK_REQUEST_EVERY: u32 = 64 << 10;
/// READ responses may come this far out of order.
const READ_PACKETS_MAX: u32 = received::CAPACITY;

impl Requester {
    /// A requester with a queue of its own limits.
    pub(super) fn new(queue: SendRing) -> Self {
        let capacity = queue.capacity();
        Self {
            queue,
            progress: vec![Progress::default(); capacity],
            unstarted: 0,
            cursor_work: 0,
            next: Psn::default(),
            unacknowledged: Psn::default(),
            cursor: Psn::default(),
            sent_end: Psn::default(),
            reads: VecDeque::new(),
            received: Received::default(),
            recovery: Recovery::default(),
            timers: Timers::new(0, 0, 0),
            charged: 0,
            since_ack_request: 0,
            round_trip_sample: None,
            messages: 0,
            message_limit: None,
            stuck: None,
            gap: None,
            probing: false,
        }
    }

    /// Starts numbering at `psn`, with these clocks (the change to ready-to-send).
    pub(super) fn start(&mut self, psn: Psn, timers: Timers) {
        self.next = psn;
        self.unacknowledged = psn;
        self.cursor = psn;
        self.sent_end = psn;
        self.timers = timers;
        self.messages = 0;
        self.message_limit = None;
        self.recovery = Recovery::default();
        self.gap = None;
    }

    /// Takes posted work requests into the queue.
    pub(super) fn take(&mut self, posted: &mut SendRing) -> usize {
        posted.move_to(&mut self.queue)
    }

    /// Whether packets wait for answers.
    fn is_outstanding(&self) -> bool {
        self.sent_end != self.unacknowledged
    }

    /// Whether every work request has completed.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a started work request has not completed.
    pub(super) fn has_started_work(&self) -> bool {
        self.unstarted != self.queue.first()
    }

    /// When [`handle_timer`](Self::handle_timer) wants to be called.
    pub(super) fn deadline<M: Memory>(&self, env: &Environment<'_, M>) -> Time {
        self.timers.deadline(self.is_outstanding(), env.path.patience())
    }

    /// Writes packets into `sink` until there is nothing to send, the sink is full or the path's
    /// window is. `may_start` is false while the send queue drains.
    pub(super) fn poll_transmit<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        sink: &mut impl PacketSink,
        may_start: bool,
    ) -> Transmit {
        if self.timers.is_held_back() {
            return Transmit::Idle;
        }
        if let Some((start, end)) = self.recovery.resend {
            match self.build_again(identity, env, sink, start, end) {
                Built::SinkFull => return Transmit::SinkFull,
                Built::Failed(ending) => {
                    self.get_stuck(identity, env, outbox, self.work_of(start), ending);
                }
                Built::Done => {
                    // A probe asks; it does not say that something was lost.
                    if !self.probing {
                        Counters::count(&env.counters.retransmitted_packets);
                    }
                    // The answer may be to either: measured as one it would delay the next probe
                    // by as much as this loss took.
                    self.round_trip_sample = None;
                }
                Built::Wait => {}
            }
            self.recovery.resend = None;
            self.probing = false;
        }
        loop {
            let Some(index) = self.locate_cursor(identity, env, may_start) else {
                return Transmit::Idle;
            };
            let work = self.cursor_work;
            let size = self.truesize_at(identity, work, index);
            if !env.path.has_room(size) && self.charged != 0 {
                return Transmit::WindowFull;
            }
            let again = self.cursor != self.sent_end;
            match self.build(identity, env, sink, index, size, may_start) {
                Built::SinkFull => return Transmit::SinkFull,
                Built::Failed(ending) => {
                    self.get_stuck(identity, env, outbox, work, ending);
                    return Transmit::Idle;
                }
                Built::Wait => return Transmit::Idle,
                Built::Done => {}
            }
            if again {
                Counters::count(&env.counters.retransmitted_packets);
            }
        }
    }

    /// Makes the cursor stand on a packet that may be sent now, starting works as needed; returns
    /// its index in its work, or `None` if nothing may be sent.
    fn locate_cursor<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &Environment<'_, M>,
        may_start: bool,
    ) -> Option<u32> {
        loop {
            if self.stuck.is_some_and(|stuck| stuck.work <= self.cursor_work) {
                return None;
            }
            if self.cursor_work == self.unstarted {
                if !may_start || !self.may_start_next() {
                    return None;
                }
                self.start_next(identity);
            }
            let progress = self.progress[self.queue.slot(self.cursor_work)];
            let index = self.cursor.since(progress.first);
            if index >= progress.packets {
                self.cursor_work += 1;
                continue;
            }
            let operation = self.queue.work(self.cursor_work).operation;
            if operation.returns_data() && !self.may_read(identity, env) {
                return None;
            }
            return Some(index);
        }
    }

    /// Whether the next work request may begin: it is there, its fence is open, and the peer's
    /// credits allow its receive.
    fn may_start_next(&self) -> bool {
        if self.unstarted == self.queue.end() {
            return false;
        }
        let work = self.queue.work(self.unstarted);
        if work.flags.fence && self.has_data_outstanding() && !planted::is(Planted::FenceIgnored) {
            return false;
        }
        let consumes_receive =
            !matches!(work.operation, Operation::Write(_)) && !work.operation.returns_data();
        match self.message_limit {
            // Beyond the credits one message is tried when all before it are done, so that its
            // answer brings the new count (IBA 9.7.7.2.5).
            Some(limit) if consumes_receive => {
                let number = (self.messages + 1) & 0x00ff_ffff;
                let beyond = number.wrapping_sub(limit) & 0x00ff_ffff;
                beyond == 0 || beyond >= 0x0080_0000 || self.unacknowledged == self.next
            }
            _ => true,
        }
    }

    fn has_data_outstanding(&self) -> bool {
        (self.queue.first()..self.unstarted)
            .any(|number| self.queue.work(number).operation.returns_data())
    }

    fn start_next(&mut self, identity: &Identity) {
        let work = self.queue.work(self.unstarted);
        let packets = work.length.div_ceil(identity.mtu).max(1);
        let slot = self.queue.slot(self.unstarted);
        self.progress[slot] = Progress { first: self.next, packets };
        self.next = self.next.plus(packets);
        self.messages = (self.messages + 1) & 0x00ff_ffff;
        self.unstarted += 1;
    }

    /// Whether one more READ request may be in flight: the depth agreed with the peer, and the
    /// window in which responses are told apart.
    fn may_read<M: Memory>(&self, identity: &Identity, env: &Environment<'_, M>) -> bool {
        if identity.max_reads == 0 {
            // Waiting would be for ever: it fails when it is its turn.
            return true;
        }
        let request_packets = env.reads.request_bytes().div_ceil(identity.mtu);
        self.reads.len() < usize::from(identity.max_reads)
            && self.cursor.since(self.unacknowledged) + request_packets <= READ_PACKETS_MAX
    }

    fn truesize_at(&self, identity: &Identity, work: u64, index: u32) -> u32 {
        let work = self.queue.work(work);
        if work.operation.returns_data() {
            return truesize(64);
        }
        let payload = (work.length - index * identity.mtu).min(identity.mtu);
        truesize(payload as usize + 64)
    }

    /// The work request that a packet number in flight belongs to.
    fn work_of(&self, psn: Psn) -> u64 {
        let distance = psn.since(self.unacknowledged);
        let (mut low, mut high) = (self.queue.first(), self.unstarted);
        // The last started work whose first packet is not after `psn`.
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let first = self.progress[self.queue.slot(middle)].first;
            if first.since(self.unacknowledged) <= distance {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Sends everything from `psn` on again.
    fn go_back<M: Memory>(&mut self, psn: Psn, env: &mut Environment<'_, M>) {
        let in_flight = self.cursor.since(self.unacknowledged);
        let kept = psn.since(self.unacknowledged);
        if kept >= in_flight {
            return;
        }
        let kept_charge = (u64::from(self.charged) * u64::from(kept) / u64::from(in_flight)) as u32;
        env.path.left(self.charged - kept_charge);
        self.charged = kept_charge;
        self.cursor = psn;
        self.cursor_work = self.work_of(psn);
        while self.reads.back().is_some_and(|read| psn.is_before(read.end)) {
            let read = self.reads.pop_back().expect("it was just looked at");
            env.reads.give(read.budget);
        }
        self.round_trip_sample = None;
        self.recovery.start_over();
    }

    /// Takes all that is in flight for lost.
    pub(super) fn rewind<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        self.go_back(self.unacknowledged, env);
    }

    fn follow<M: Memory>(&mut self, verdict: Verdict, env: &mut Environment<'_, M>) {
        if let Verdict::GoBack(psn) = verdict {
            self.go_back(psn, env);
        }
    }

    /// Looks at the clocks.
    pub(super) fn handle_timer<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
    ) {
        let outstanding = self.is_outstanding();
        match self.timers.due(env.now, outstanding, env.path.patience()) {
            Due::Nothing | Due::RnrOver => {}
            Due::Probe { count } => {
                Counters::count(&env.counters.tail_probes);
                // What was sent again may be lost again; else the last packet tells the most.
                let last = self.sent_end.minus(1);
                let last_is_data = self.queue.work(self.work_of(last)).operation.returns_data();
                let oldest = self.recovery.is_waiting() || last_is_data || count % 2 == 1;
                let psn = if oldest { self.unacknowledged } else { last };
                self.resend_from(psn);
                self.probing = true;
            }
            Due::Retry => {
                Counters::count(&env.counters.ack_timeouts);
                env.path.lost(env.now);
                self.go_back(self.unacknowledged, env);
            }
            Due::GiveUp => {
                let work = self.queue.first();
                let ending = Ending {
                    status: Status::RetryExceeded,
                    cause: self.timers.gave_up(),
                    psn: Some(self.unacknowledged),
                };
                self.fail(identity, env, outbox, work, ending);
            }
        }
    }

    /// Sends the packet `psn` again before anything else; of a READ, the part that is missing.
    fn resend_from(&mut self, psn: Psn) {
        self.probing = false;
        let read =
            self.reads.iter().find(|read| !psn.is_before(read.start) && psn.is_before(read.end));
        let end = read.map_or(psn.plus(1), |read| {
            let missing = (1..read.end.since(psn)).find(|&n| self.received.contains(psn.plus(n)));
            missing.map_or(read.end, |count| psn.plus(count))
        });
        self.recovery.resend = Some((psn, end));
    }
}
