//! The receiving half of an unreliable connection: what is complete is delivered, what has a gap
//! is dropped without a word (IBA 9.8.2.2).
//!
//! An InfiniBand fabric keeps the order of packets and doubles none. An IP network may do both, so
//! a packet from before the expected one is dropped: its message was delivered, or given up when
//! a later one came.

use crate::completion::{Completion, CompletionKind, Extra, Status};
use crate::counters::Counters;
use crate::execution::RemotePlan;
use crate::iba::cause::{Cause, permit};
use crate::iba::delivery::OpenReceive;
use crate::iba::environment::Environment;
use crate::iba::local_error::local_error;
use crate::iba::outbox::Outbox;
use crate::iba::queue_pair::Identity;
use crate::memory::{Access, Memory};
use converb_wire::{OpcodeKind, Packet, Position, Psn};

/// The message whose packets are coming in.
#[derive(Clone, Copy, Debug, Default)]
enum Message {
    /// None, or one of which a part is missing: wait for the next to begin.
    #[default]
    None,
    Send {
        received: u32,
    },
    Write {
        plan: RemotePlan,
        received: u32,
    },
}

/// The receiving half of an unreliable connection.
#[derive(Debug, Default)]
pub(in crate::iba) struct ConnectedReceiver {
    expected: Psn,
    /// Whether a packet has come: the first may have any number, as devices take it.
    started: bool,
    message: Message,
    receive: OpenReceive,
}

/// No packet comes late by more than this. One that seems to is of a peer that counts elsewhere
/// since millions of its packets were lost.
const LATE_MAX: u32 = 1 << 16;

impl ConnectedReceiver {
    pub(in crate::iba) fn start(&mut self, psn: Psn) {
        self.expected = psn;
        self.started = false;
        self.message = Message::None;
    }

    /// The receive that was taken and not completed, to be flushed.
    pub(in crate::iba) fn take_open_receive(&mut self) -> Option<u64> {
        self.message = Message::None;
        self.receive.close()
    }

    pub(in crate::iba) fn handle_packet<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        packet: &Packet<'_>,
    ) {
        let psn = packet.bth().psn;
        let position = packet.info().position;
        if self.is_late(psn) {
            return Counters::count(&env.counters.duplicate_requests);
        }
        self.started = true;
        if psn != self.expected && !self.ignores_gaps() {
            Counters::count(&env.counters.out_of_sequence_requests);
            self.message = Message::None;
        }
        self.expected = psn.plus(1);
        let payload = packet.payload().len() as u32;
        let sized = match position {
            Position::First | Position::Middle => payload == identity.mtu,
            Position::Last => (1..=identity.mtu).contains(&payload),
            Position::Only => payload <= identity.mtu,
        };
        if !sized {
            Counters::count(&env.counters.dropped_malformed);
            self.message = Message::None;
            return;
        }
        match packet.info().operation {
            OpcodeKind::Send => self.handle_send(identity, env, outbox, packet),
            OpcodeKind::Write => self.handle_write(identity, env, outbox, packet),
            _ => Counters::count(&env.counters.dropped_malformed),
        }
    }

    /// Whether a packet comes a second time, or after one that was sent later.
    fn is_late(&self, psn: Psn) -> bool {
        self.started && psn.is_before(self.expected) && self.expected.since(psn) <= LATE_MAX
    }

    fn ignores_gaps(&self) -> bool {
        crate::planted::is(crate::planted::Planted::UcGapUnnoticed)
    }

    fn handle_send<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        packet: &Packet<'_>,
    ) {
        let received = match (packet.info().position.begins(), self.message) {
            (true, _) => {
                if !self.receive.open(env) {
                    Counters::count(&env.counters.dropped_no_receive);
                    self.message = Message::None;
                    return;
                }
                0
            }
            (false, Message::Send { received }) => received,
            (false, _) => return Counters::count(&env.counters.dropped_incomplete_message),
        };
        let total = received + packet.payload().len() as u32;
        if let Err(error) = self.receive.place(env, received, packet.payload()) {
            let status = local_error(error);
            let cause = self.receive.explain(env, received, packet.payload().len(), error);
            let failed = completion(identity, packet, status, total);
            self.receive.fail(outbox, failed, identity.refused(status, cause, packet));
            self.message = Message::None;
            outbox.failed = true;
            return;
        }
        self.message = Message::Send { received: total };
        if packet.info().position.ends() {
            self.message = Message::None;
            let done = completion(identity, packet, Status::Success, total);
            self.receive.complete(outbox, done);
        }
    }

    fn handle_write<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        packet: &Packet<'_>,
    ) {
        let (plan, received) = match (packet.reth(), self.message) {
            (Some(reth), _) => {
                let plan =
                    RemotePlan { rkey: reth.rkey, address: reth.address, length: reth.length };
                let needed = Access::REMOTE_WRITE;
                if let Err(cause) = permit(identity.access, env.keys, env.domain, &plan, needed) {
                    outbox.note(identity.refused(Status::RemoteAccessError, cause, packet));
                    Counters::count(&env.counters.access_errors);
                    self.message = Message::None;
                    return;
                }
                (plan, 0)
            }
            (None, Message::Write { plan, received }) => (plan, received),
            (None, _) => return Counters::count(&env.counters.dropped_incomplete_message),
        };
        self.message = Message::None;
        let total = received + packet.payload().len() as u32;
        let ends = packet.info().position.ends();
        let right_length = if ends { total == plan.length } else { total < plan.length };
        if !right_length {
            return Counters::count(&env.counters.dropped_malformed);
        }
        let written = plan.write(env.keys, env.memory, env.domain, received, packet.payload());
        if let Err(error) = written {
            let cause = Cause::remote(env.keys, &plan, Access::REMOTE_WRITE, error);
            outbox.note(identity.refused(Status::RemoteAccessError, cause, packet));
            return Counters::count(&env.counters.access_errors);
        }
        if !ends {
            self.message = Message::Write { plan, received: total };
        } else if packet.immediate().is_some() {
            if self.receive.open(env) {
                let done = completion(identity, packet, Status::Success, total);
                self.receive.complete(outbox, done);
            } else {
                Counters::count(&env.counters.dropped_no_receive);
            }
        }
    }
}

fn completion(
    identity: &Identity,
    packet: &Packet<'_>,
    status: Status,
    byte_length: u32,
) -> Completion {
    let kind = if packet.info().operation == OpcodeKind::Write {
        CompletionKind::ReceiveWriteWithImmediate
    } else {
        CompletionKind::Receive
    };
    Completion {
        status,
        kind,
        byte_length,
        extra: packet.immediate().map_or(Extra::None, |value| Extra::Immediate(value.0)),
        qpn: identity.qpn,
        source_qpn: identity.destination,
        solicited: packet.bth().solicited,
        ..Completion::default()
    }
}
