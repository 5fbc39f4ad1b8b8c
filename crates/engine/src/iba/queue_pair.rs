//! The queue pair: a value that is given packets, work requests and the time, and gives back
//! packets, completions, events and its next deadline.
//!
//! A driver calls [`take_posted`](QueuePair::take_posted) and
//! [`poll_transmit`](QueuePair::poll_transmit) after posting;
//! [`handle_packet`](QueuePair::handle_packet) for each packet and `poll_transmit` after the last
//! of a batch; [`handle_timer`](QueuePair::handle_timer) when
//! [`deadline`](QueuePair::deadline) has passed; and after each of these drains
//! [`next_completion`](QueuePair::next_completion) and [`next_event`](QueuePair::next_event).

mod transmit;

pub use transmit::Transmit;

use super::arrival::Arrival;
use super::attributes::{AttributeMask, Attributes, ModifyError, Mtu};
use super::cause::{Cause, Failure};
use super::environment::Environment;
use super::event::{Event, Side};
use super::outbox::Outbox;
use super::path::PathWindow;
use super::read_budget::ReadBudget;
use super::requester::Requester;
use super::responder::Responder;
use super::state::{Service, State, transition};
use super::timers::Timers;
use super::unreliable::{ConnectedReceiver, DatagramReceiver, UnreliableSender};
use crate::address::{Address, AddressVector};
use crate::completion::{Completion, CompletionKind, Status};
use crate::counters::Counters;
use crate::memory::{Access, Memory};
use crate::time::Time;
use crate::work::{Operation, ReceiveWork, SendRing};
use converb_wire::{Bth, Opcode, OpcodeKind, Packet, Psn, Qpn, Transport};
use core::sync::atomic::AtomicU64;

/// What a queue pair is created with.
#[derive(Clone, Copy, Debug)]
pub struct QueuePairSpec {
    /// Its number.
    pub qpn: Qpn,
    /// The service it gives.
    pub service: Service,
    /// Whether every send work request asks for a completion (`sq_sig_all`).
    pub signal_all: bool,
    /// Send work requests that fit.
    pub send_capacity: usize,
    /// Scatter-gather entries of each.
    pub send_entries_max: usize,
    /// Inline bytes of each.
    pub inline_max: usize,
    /// The largest payload of a datagram, in bytes.
    pub port_mtu: u32,
}

/// What the packets of a queue pair have in common.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) qpn: Qpn,
    pub(super) destination: Qpn,
    pub(super) path: AddressVector,
    pub(super) mtu: u32,
    pub(super) access: Access,
    pub(super) max_reads: u8,
    pub(super) max_destination_reads: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) signal_all: bool,
    pub(super) queue_key: u32,
    pub(super) port_mtu: u32,
    pub(super) is_datagram: bool,
    /// The slot to which the answers to credit questions come.
    pub(super) credit_slot: u16,
}

impl Identity {
    /// How much of a message one packet carries.
    pub(super) fn packet_payload_max(&self) -> u32 {
        if self.is_datagram { self.port_mtu } else { self.mtu }
    }

    /// A failure with `cause` of this queue pair, which the caller completes.
    pub(super) fn failure(&self, status: Status, cause: Cause) -> Failure {
        Failure {
            has_completion: false,
            wr_id: 0,
            status,
            kind: CompletionKind::default(),
            side: Side::Receive,
            cause,
            psn: None,
            opcode: None,
            peer: self.destination,
            address: self.path.remote,
            count: 1,
        }
    }

    /// The refusal of a peer's request: the packet decides, and no completion tells it.
    pub(super) fn refused(&self, status: Status, cause: Cause, packet: &Packet<'_>) -> Failure {
        let bth = packet.bth();
        Failure { psn: Some(bth.psn), opcode: Some(bth.opcode), ..self.failure(status, cause) }
    }

    pub(super) fn bth(&self, opcode: Opcode, psn: Psn) -> Bth {
        Bth::new(opcode, self.destination, psn)
    }
}

/// The half that sends.
#[derive(Debug)]
enum Sending {
    Reliable(Box<Requester>),
    Unreliable(Box<UnreliableSender>),
}

/// The half that receives.
#[derive(Debug)]
enum Receiving {
    Reliable(Box<Responder>),
    Connected(Box<ConnectedReceiver>),
    Datagram(Box<DatagramReceiver>),
}

/// A queue pair.
#[derive(Debug)]
pub struct QueuePair {
    service: Service,
    attributes: Attributes,
    drain_notify: bool,
    identity: Identity,
    sending: Sending,
    receiving: Receiving,
    outbox: Outbox,
    /// Requests went past an ACK and filled the sink.
    ack_comes_next: bool,
}

const NO_PATH: AddressVector = AddressVector {
    local: Address::Lid(0),
    remote: Address::Lid(0),
    traffic_class: 0,
    hop_limit: 0,
    flow_label: 0,
    service_level: 0,
};

impl QueuePair {
    /// A queue pair in the reset state.
    pub fn new(spec: &QueuePairSpec) -> Self {
        let queue = SendRing::new(spec.send_capacity, spec.send_entries_max, spec.inline_max);
        let (sending, receiving) = match spec.service {
            Service::ReliableConnection => (
                Sending::Reliable(Box::new(Requester::new(queue))),
                Receiving::Reliable(Box::default()),
            ),
            Service::UnreliableConnection => (
                Sending::Unreliable(Box::new(UnreliableSender::new(queue))),
                Receiving::Connected(Box::default()),
            ),
            Service::UnreliableDatagram => (
                Sending::Unreliable(Box::new(UnreliableSender::new(queue))),
                Receiving::Datagram(Box::default()),
            ),
        };
        Self {
            service: spec.service,
            attributes: Attributes::default(),
            drain_notify: false,
            identity: Identity {
                qpn: spec.qpn,
                destination: Qpn::default(),
                path: NO_PATH,
                mtu: Mtu::default().bytes(),
                access: Access::default(),
                max_reads: 0,
                max_destination_reads: 0,
                min_rnr_timer: 0,
                signal_all: spec.signal_all,
                queue_key: 0,
                port_mtu: spec.port_mtu,
                is_datagram: spec.service == Service::UnreliableDatagram,
                credit_slot: (spec.qpn.value() >> 14) as u16,
            },
            sending,
            receiving,
            outbox: Outbox::default(),
            ack_comes_next: false,
        }
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.identity.qpn
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.attributes.state
    }

    /// All attributes, as `ibv_query_qp` tells them.
    pub fn attributes(&self) -> Attributes {
        let state = self.attributes.state;
        let draining = state == State::SendQueueDrain && self.has_started_work();
        Attributes { current_state: state, draining, ..self.attributes }
    }

    /// Changes state and attributes (`ibv_modify_qp`, IBA 11.2.5.3). Nothing changes on an error.
    ///
    /// # Errors
    /// Which rule the arguments break.
    pub fn modify<M: Memory>(
        &mut self,
        new: &Attributes,
        mask: AttributeMask,
        env: &mut Environment<'_, M>,
    ) -> Result<(), ModifyError> {
        let from = self.attributes.state;
        if mask.contains(AttributeMask::CURRENT_STATE) && new.current_state != from {
            return Err(ModifyError::OtherState(from));
        }
        let to = if mask.contains(AttributeMask::STATE) { new.state } else { from };
        let change =
            transition(self.service, from, to).ok_or(ModifyError::NoSuchTransition { from, to })?;
        let missing = change.required.without(mask);
        if missing != AttributeMask::NONE {
            return Err(ModifyError::Missing(missing));
        }
        let known = change.required.with(change.optional).with(AttributeMask::STATE);
        let unexpected = mask.without(known);
        if unexpected != AttributeMask::NONE && !matches!(to, State::Reset | State::Error) {
            return Err(ModifyError::Unexpected(unexpected));
        }
        Self::check_values(new, mask)?;
        self.attributes.set(new, mask);
        self.attributes.state = to;
        self.enter(from, to, new, mask, env);
        Ok(())
    }

    fn check_values(new: &Attributes, mask: AttributeMask) -> Result<(), ModifyError> {
        use AttributeMask as A;
        let limits = [
            (A::PORT, new.port == 1),
            (A::PARTITION_KEY_INDEX, new.partition_key_index == 0),
            (A::PATH, new.path.is_some()),
            (A::TIMEOUT, new.timeout < 32),
            (A::RETRY_COUNT, new.retry_count < 8),
            (A::RNR_RETRY, new.rnr_retry < 8),
            (A::MIN_RNR_TIMER, new.min_rnr_timer < 32),
        ];
        match limits.into_iter().find(|(bit, right)| mask.contains(*bit) && !right) {
            Some((bit, _)) => Err(ModifyError::BadValue(bit)),
            None => Ok(()),
        }
    }

    fn enter<M: Memory>(
        &mut self,
        from: State,
        to: State,
        new: &Attributes,
        mask: AttributeMask,
        env: &mut Environment<'_, M>,
    ) {
        let attributes = &self.attributes;
        self.identity.destination = attributes.destination;
        self.identity.path = attributes.path.unwrap_or(NO_PATH);
        self.identity.mtu = attributes.path_mtu.bytes();
        self.identity.access = attributes.access;
        self.identity.max_reads = attributes.max_reads;
        self.identity.max_destination_reads = attributes.max_destination_reads;
        self.identity.min_rnr_timer = attributes.min_rnr_timer;
        self.identity.queue_key = attributes.queue_key;
        self.outbox.ready_to_send = matches!(to, State::ReadyToSend | State::SendQueueDrain);
        match (from, to) {
            (_, State::Reset) => self.reset(env.path, env.reads),
            (State::Error, State::Error) => {}
            (_, State::Error) => {
                self.outbox.failed = true;
                self.fail_if_asked(env);
            }
            (State::Init, State::ReadyToReceive) => match &mut self.receiving {
                Receiving::Reliable(responder) => responder.start(attributes.receive_psn),
                Receiving::Connected(receiver) => receiver.start(attributes.receive_psn),
                Receiving::Datagram(_) => {}
            },
            (State::ReadyToReceive, State::ReadyToSend) => match &mut self.sending {
                Sending::Reliable(requester) => {
                    let (timeout, retry) = (attributes.timeout, attributes.retry_count);
                    let timers = Timers::new(timeout, retry, attributes.rnr_retry);
                    requester.start(attributes.send_psn, timers);
                }
                Sending::Unreliable(sender) => sender.start(attributes.send_psn),
            },
            (State::SendQueueError, State::ReadyToSend) => self.outbox.forget_root(),
            (State::ReadyToSend, State::SendQueueDrain) => {
                self.drain_notify = mask.contains(AttributeMask::DRAIN_NOTIFY) && new.draining;
                self.report_drained();
            }
            _ => {}
        }
    }

    /// Forgets all that is under way, without completions (reset and destroy).
    pub fn reset(&mut self, path: &PathWindow, reads: &ReadBudget) {
        match &mut self.sending {
            Sending::Reliable(requester) => requester.forget(path, reads),
            Sending::Unreliable(sender) => sender.forget(),
        }
        self.attributes = Attributes::default();
        self.close_receive();
        self.outbox = Outbox::default();
    }

    /// Gets ready to go over to another process, whose own slot is `slot`: what is on its way counts
    /// as lost and will be sent again, so that nothing is left that `env` has to get back.
    pub fn move_over<M: Memory>(&mut self, slot: u16, env: &mut Environment<'_, M>) {
        self.identity.credit_slot = slot;
        match &mut self.sending {
            Sending::Reliable(requester) => requester.rewind(env),
            Sending::Unreliable(sender) => sender.forget_path(),
        }
    }

    /// Takes posted send work requests, oldest first, as far as there is room; in an error state
    /// they are flushed at once. Returns how many were taken.
    pub fn take_posted<M: Memory>(
        &mut self,
        posted: &mut SendRing,
        env: &Environment<'_, M>,
    ) -> usize {
        let count = match &mut self.sending {
            Sending::Reliable(requester) => requester.take(posted),
            Sending::Unreliable(sender) => sender.take(posted),
        };
        if matches!(self.state(), State::Error | State::SendQueueError) && count != 0 {
            self.flush_sends(env);
        }
        count
    }

    fn flush_sends<M: Memory>(&mut self, env: &Environment<'_, M>) {
        match &mut self.sending {
            Sending::Reliable(requester) => {
                requester.flush(&self.identity, env.path, env.reads, &mut self.outbox);
            }
            Sending::Unreliable(sender) => sender.flush(&self.identity, &mut self.outbox),
        }
    }

    /// Forgets what is coming in; returns the receive that it was going into.
    fn close_receive(&mut self) -> Option<u64> {
        match &mut self.receiving {
            Receiving::Reliable(responder) => {
                let open = responder.take_open_receive();
                if self.attributes.state != State::Error {
                    responder.forget();
                }
                open
            }
            Receiving::Connected(receiver) => receiver.take_open_receive(),
            Receiving::Datagram(receiver) => receiver.take_open_receive(),
        }
    }

    /// Flushes the receives that wait, in the error state.
    pub fn flush_receives<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        let mut work = ReceiveWork::default();
        while env.receives.take(&mut work) {
            self.flush_receive(work.wr_id);
        }
    }

    fn flush_receive(&mut self, wr_id: u64) {
        let status = Status::WorkRequestFlushed;
        let cause = self.outbox.flush_cause();
        let (qpn, kind) = (self.identity.qpn, CompletionKind::Receive);
        self.outbox.complete_failed(
            Side::Receive,
            Completion { wr_id, status, kind, qpn, ..Completion::default() },
            self.identity.failure(status, cause),
        );
    }

    /// A packet for this queue pair, whose bytes from the BTH to the pad are `bytes`.
    pub fn handle_packet<M: Memory>(
        &mut self,
        packet: &Packet<'_>,
        bytes: &[u8],
        arrival: &Arrival,
        env: &mut Environment<'_, M>,
    ) {
        if let Some(counter) = self.refusal(packet, arrival, env.counters) {
            return Counters::count(counter);
        }
        let (identity, outbox) = (&self.identity, &mut self.outbox);
        match (&mut self.receiving, &mut self.sending) {
            (Receiving::Reliable(responder), Sending::Reliable(requester)) => {
                match packet.info().operation {
                    OpcodeKind::Acknowledge => {
                        if let (Some(aeth), true) = (packet.aeth(), outbox.ready_to_send) {
                            let psn = packet.bth().psn;
                            requester.handle_acknowledge(identity, env, outbox, psn, aeth);
                        }
                    }
                    OpcodeKind::ReadResponse => {
                        if outbox.ready_to_send {
                            requester.handle_read_response(identity, env, outbox, packet);
                        }
                    }
                    OpcodeKind::AtomicAcknowledge => {
                        if outbox.ready_to_send {
                            requester.handle_atomic_acknowledge(identity, env, outbox, packet);
                        }
                    }
                    _ => responder.handle_request(identity, env, outbox, packet, bytes),
                }
            }
            (Receiving::Connected(receiver), _) => {
                receiver.handle_packet(identity, env, outbox, packet);
            }
            (Receiving::Datagram(receiver), _) => {
                receiver.handle_packet(identity, env, outbox, packet, bytes.len(), arrival);
            }
            (Receiving::Reliable(_), Sending::Unreliable(_)) => {
                unreachable!("both halves are made for one service")
            }
        }
        self.fail_if_asked(env);
        self.report_drained();
    }

    /// The counter of the reason why a packet is dropped unseen, if it is.
    fn refusal<'a>(
        &self,
        packet: &Packet<'_>,
        arrival: &Arrival,
        counters: &'a Counters,
    ) -> Option<&'a AtomicU64> {
        if !self.state().receives_packets() {
            return Some(&counters.dropped_wrong_state);
        }
        let transport = packet.info().transport;
        if transport == Transport::Cnp {
            return Some(&counters.congestion_notifications);
        }
        let service = match self.service {
            Service::ReliableConnection => Transport::Rc,
            Service::UnreliableConnection => Transport::Uc,
            Service::UnreliableDatagram => Transport::Ud,
        };
        if transport != service {
            return Some(&counters.dropped_wrong_service);
        }
        if packet.bth().partition_key & 0x7fff != Bth::DEFAULT_PARTITION_KEY & 0x7fff {
            return Some(&counters.dropped_wrong_partition);
        }
        if !self.identity.is_datagram && arrival.source != self.identity.path.remote {
            return Some(&counters.dropped_wrong_source);
        }
        None
    }

    /// Looks at the clocks; call `poll_transmit` after it.
    pub fn handle_timer<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        if !matches!(self.attributes.state, State::ReadyToSend | State::SendQueueDrain) {
            return;
        }
        match &mut self.sending {
            Sending::Reliable(requester) => {
                requester.handle_timer(&self.identity, env, &mut self.outbox);
                self.fail_if_asked(env);
            }
            Sending::Unreliable(sender) => sender.handle_timer(env.now),
        }
    }

    /// When to call [`handle_timer`](Self::handle_timer).
    pub fn deadline<M: Memory>(&self, env: &Environment<'_, M>) -> Time {
        match self.state() {
            State::ReadyToSend | State::SendQueueDrain => match &self.sending {
                Sending::Reliable(requester) => requester.deadline(env),
                Sending::Unreliable(sender) => sender.deadline(),
            },
            _ => Time::NEVER,
        }
    }

    /// Goes to the error state if something asked for it: everything that waits is flushed.
    fn fail_if_asked<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        if core::mem::take(&mut self.outbox.send_failed) && !self.outbox.failed {
            self.attributes.state = State::SendQueueError;
            self.outbox.ready_to_send = false;
            self.flush_sends(env);
        }
        if !core::mem::take(&mut self.outbox.failed) {
            return;
        }
        self.attributes.state = State::Error;
        self.outbox.ready_to_send = false;
        self.flush_sends(env);
        if let Some(wr_id) = self.close_receive() {
            self.flush_receive(wr_id);
        }
        if env.receives.is_shared() {
            self.outbox.events.push_back(Event::LastReceiveReached);
        } else {
            self.flush_receives(env);
        }
    }

    /// A completion could not be reported, for its queue was overrun: the queue pair goes to the
    /// error state and says so (IBA 11.6.3.2, a catastrophic error of a work queue).
    pub fn fail<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        if self.state() != State::Error {
            self.outbox.failed = true;
            let cause = Cause::CompletionQueueFull {};
            let failure = self.identity.failure(Status::Fatal, cause);
            self.outbox.record(Failure { side: Side::Send, ..failure });
            self.outbox.events.push_back(Event::Fatal);
            self.fail_if_asked(env);
        }
    }

    fn has_started_work(&self) -> bool {
        match &self.sending {
            Sending::Reliable(requester) => requester.has_started_work(),
            Sending::Unreliable(sender) => sender.has_started_work(),
        }
    }

    fn report_drained(&mut self) {
        if self.state() == State::SendQueueDrain && self.drain_notify && !self.has_started_work() {
            self.drain_notify = false;
            self.outbox.events.push_back(Event::SendQueueDrained);
        }
    }

    /// Whether an operation is one that a service has (IBA table 27).
    pub fn supports(service: Service, operation: Operation) -> bool {
        use Operation as O;
        match (service, operation) {
            (_, O::Send | O::SendWithImmediate(_)) => true,
            (Service::UnreliableDatagram, _) => false,
            (_, O::Write(_) | O::WriteWithImmediate(..)) => true,
            (service, _) => service == Service::ReliableConnection,
        }
    }

    /// The oldest completion that was not fetched.
    pub fn next_completion(&mut self) -> Option<(Side, Completion)> {
        self.outbox.completions.pop_front()
    }

    /// The oldest failure that was not fetched: the same as the completions with errors, with
    /// their causes, and what was refused to the peer.
    pub fn next_failure(&mut self) -> Option<Failure> {
        self.outbox.failures.pop_front()
    }

    /// The oldest event that was not fetched.
    pub fn next_event(&mut self) -> Option<Event> {
        self.outbox.events.pop_front()
    }

    /// How many send work requests have left the queue since the last call.
    pub fn take_retired(&mut self) -> u32 {
        core::mem::take(&mut self.outbox.retired)
    }

    /// The path to the peer.
    pub fn path(&self) -> &AddressVector {
        &self.identity.path
    }

    /// The peer's queue pair number.
    pub fn destination(&self) -> Qpn {
        self.identity.destination
    }

    /// Whether all send work requests have completed.
    pub fn is_idle(&self) -> bool {
        match &self.sending {
            Sending::Reliable(requester) => requester.is_idle(),
            Sending::Unreliable(sender) => sender.is_idle(),
        }
    }
}
