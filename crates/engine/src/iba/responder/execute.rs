//! Executes a request whose turn it is (IBA 9.7.4.1: the checks in their order).

use super::reply::Reply;
use super::{Executed, Message, Responder};
use crate::completion::{Completion, CompletionKind, Extra, Status};
use crate::execution::{ExecutionError, RemotePlan, scatter};
use crate::iba::environment::Environment;
use crate::iba::event::{Reason, Side};
use crate::iba::local_error::local_error;
use crate::iba::outbox::Outbox;
use crate::iba::queue_pair::Identity;
use crate::memory::{Access, Memory};
use crate::planted::{self, Planted};
use converb_wire::{NakCode, OpcodeKind, Packet, Position};

impl Responder {
    pub(super) fn execute<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        packet: &Packet<'_>,
    ) -> Executed {
        let info = packet.info();
        let fits = match (info.operation, &self.message) {
            (OpcodeKind::Send, Some(Message::Send { .. }))
            | (OpcodeKind::Write, Some(Message::Write { .. })) => !info.position.begins(),
            (_, Some(_)) => false,
            (_, None) => info.position.begins(),
        };
        let payload = packet.payload().len() as u32;
        let sized = match info.position {
            Position::First | Position::Middle => payload == identity.mtu,
            Position::Last => (1..=identity.mtu).contains(&payload),
            Position::Only => payload <= identity.mtu,
        };
        if !fits || !sized {
            return Executed::Refused(NakCode::InvalidRequest);
        }
        match info.operation {
            OpcodeKind::Send => self.execute_send(identity, env, outbox, packet),
            OpcodeKind::Write => self.execute_write(identity, env, outbox, packet),
            OpcodeKind::ReadRequest => self.execute_read(identity, env, packet),
            OpcodeKind::CompareSwap | OpcodeKind::FetchAdd => {
                self.execute_atomic(identity, env, packet)
            }
            _ => Executed::Refused(NakCode::InvalidRequest),
        }
    }

    fn execute_send<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        packet: &Packet<'_>,
    ) -> Executed {
        let received = match self.message {
            Some(Message::Send { received }) => received,
            _ => {
                if !env.receives.take(&mut self.receive) {
                    return Executed::NotReady;
                }
                0
            }
        };
        self.message = Some(Message::Send { received });
        let payload = packet.payload();
        let list = &self.receive.scatter;
        let placed = scatter(env.keys, env.memory, env.domain, list, u64::from(received), payload);
        let total = received + payload.len() as u32;
        if let Err(error) = placed {
            let (status, reason) = local_error(error);
            let code = match error {
                ExecutionError::TooLong => NakCode::InvalidRequest,
                ExecutionError::Key(_) | ExecutionError::Fault(_) => {
                    NakCode::RemoteOperationalError
                }
            };
            self.complete_receive(identity, outbox, status, Some(reason), total, packet);
            return Executed::Refused(code);
        }
        self.message = Some(Message::Send { received: total });
        if packet.info().position.ends() {
            // No region of ours is a window that a peer may invalidate.
            if packet.invalidate().is_some() {
                let reason = Some(Reason::LocalKey);
                let status = Status::LocalAccessError;
                self.complete_receive(identity, outbox, status, reason, total, packet);
                return Executed::Refused(NakCode::RemoteAccessError);
            }
            self.complete_receive(identity, outbox, Status::Success, None, total, packet);
        }
        self.executed(packet)
    }

    fn execute_write<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        packet: &Packet<'_>,
    ) -> Executed {
        let (plan, received) = match (self.message, packet.reth()) {
            (Some(Message::Write { plan, received }), _) => (plan, received),
            (_, Some(reth)) => {
                let plan =
                    RemotePlan { rkey: reth.rkey, address: reth.address, length: reth.length };
                let allowed = identity.access.allows(Access::REMOTE_WRITE)
                    && plan.check(env.keys, env.domain, Access::REMOTE_WRITE).is_ok();
                if !allowed {
                    return Executed::Refused(NakCode::RemoteAccessError);
                }
                (plan, 0)
            }
            _ => return Executed::Refused(NakCode::InvalidRequest),
        };
        let payload = packet.payload();
        let total = received + payload.len() as u32;
        let ends = packet.info().position.ends();
        let right_length = if ends { total == plan.length } else { total < plan.length };
        if !right_length {
            return Executed::Refused(NakCode::InvalidRequest);
        }
        if packet.immediate().is_some()
            && !planted::is(Planted::ImmediateKeepsReceive)
            && !env.receives.take(&mut self.receive)
        {
            return Executed::NotReady;
        }
        if let Err(error) = plan.write(env.keys, env.memory, env.domain, received, payload) {
            if packet.immediate().is_some() {
                let (status, reason) = (Status::WorkRequestFlushed, Some(Reason::Flushed));
                self.complete_receive(identity, outbox, status, reason, 0, packet);
            }
            return Executed::Refused(refusal(error));
        }
        self.message = Some(Message::Write { plan, received: total });
        if packet.immediate().is_some() {
            self.complete_receive(identity, outbox, Status::Success, None, total, packet);
        }
        self.executed(packet)
    }

    fn execute_read<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        packet: &Packet<'_>,
    ) -> Executed {
        let Some(reth) = packet.reth() else {
            return Executed::Refused(NakCode::InvalidRequest);
        };
        let plan = RemotePlan { rkey: reth.rkey, address: reth.address, length: reth.length };
        if self.reads_pending() >= usize::from(identity.max_destination_reads)
            || u64::from(plan.length) > crate::work::MESSAGE_BYTES_MAX
        {
            return Executed::Refused(NakCode::InvalidRequest);
        }
        let allowed = identity.access.allows(Access::REMOTE_READ)
            && plan.check(env.keys, env.domain, Access::REMOTE_READ).is_ok();
        if !allowed {
            return Executed::Refused(NakCode::RemoteAccessError);
        }
        let packets = plan.length.div_ceil(identity.mtu).max(1);
        self.messages = (self.messages + 1) & 0x00ff_ffff;
        let first = self.expected;
        self.expected = self.expected.plus(packets);
        self.replies.push_back(Reply::read(plan, first, packets, self.messages));
        Executed::Yes
    }

    /// One packet of a SEND or WRITE is done.
    fn executed(&mut self, packet: &Packet<'_>) -> Executed {
        self.expected = self.expected.plus(1);
        if packet.info().position.ends() {
            self.message = None;
            self.messages = (self.messages + 1) & 0x00ff_ffff;
        }
        if packet.bth().ack_request {
            self.queue_ack();
        }
        Executed::Yes
    }

    fn complete_receive(
        &mut self,
        identity: &Identity,
        outbox: &mut Outbox,
        status: Status,
        reason: Option<Reason>,
        byte_length: u32,
        packet: &Packet<'_>,
    ) {
        let kind = if packet.info().operation == OpcodeKind::Write {
            CompletionKind::ReceiveWriteWithImmediate
        } else {
            CompletionKind::Receive
        };
        let extra = packet.immediate().map_or(Extra::None, |value| Extra::Immediate(value.0));
        outbox.complete(
            Side::Receive,
            Completion {
                wr_id: self.receive.wr_id,
                status,
                kind,
                vendor_error: reason.map_or(0, |reason| reason as u32),
                byte_length,
                extra,
                qpn: identity.qpn,
                source_qpn: identity.destination,
                solicited: packet.bth().solicited,
                ..Completion::default()
            },
        );
        self.message = None;
    }
}

/// What the peer is told when its operation on our memory fails.
pub(super) fn refusal(error: ExecutionError) -> NakCode {
    match error {
        ExecutionError::Key(_) | ExecutionError::TooLong => NakCode::RemoteAccessError,
        ExecutionError::Fault(_) => NakCode::RemoteOperationalError,
    }
}
