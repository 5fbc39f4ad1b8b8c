//! Executes a request whose turn it is (IBA 9.7.4.1: the checks in their order).

use super::reply::Reply;
use super::{Executed, Message, Responder, status_at_peer};
use crate::completion::{Completion, CompletionKind, Extra, Status};
use crate::execution::{ExecutionError, RemotePlan, scatter};
use crate::iba::cause::{Cause, permit};
use crate::iba::environment::Environment;
use crate::iba::event::Side;
use crate::iba::local_error::local_error;
use crate::iba::outbox::Outbox;
use crate::iba::queue_pair::Identity;
use crate::memory::{Access, Memory};
use crate::planted::{self, Planted};
use crate::work::MESSAGE_BYTES_MAX;
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
        if !fits {
            return invalid(Cause::PacketOutOfPlace {});
        }
        if !sized {
            let (length, mtu) = (payload.into(), identity.mtu.into());
            return invalid(Cause::PacketSize { length, mtu });
        }
        match info.operation {
            OpcodeKind::Send => self.execute_send(identity, env, outbox, packet),
            OpcodeKind::Write => self.execute_write(identity, env, outbox, packet),
            OpcodeKind::ReadRequest => self.execute_read(identity, env, packet),
            OpcodeKind::CompareSwap | OpcodeKind::FetchAdd => {
                self.execute_atomic(identity, env, packet)
            }
            _ => invalid(Cause::NoRequest {}),
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
            let part = (u64::from(received), payload.len());
            let needed = Access::LOCAL_WRITE;
            let cause = Cause::local(env.keys, env.domain, list, part, needed, error);
            let code = match error {
                ExecutionError::TooLong => NakCode::InvalidRequest,
                ExecutionError::Key(_) | ExecutionError::Fault(_) => {
                    NakCode::RemoteOperationalError
                }
            };
            let status = local_error(error);
            self.complete_receive(identity, outbox, status, Some(cause), total, packet);
            return Executed::Refused(code, None);
        }
        self.message = Some(Message::Send { received: total });
        if packet.info().position.ends() {
            // No region of ours is a window that a peer may invalidate.
            if let Some(key) = packet.invalidate() {
                let cause = Some(Cause::InvalidateRefused { key: key.0.0.into() });
                let status = Status::LocalAccessError;
                self.complete_receive(identity, outbox, status, cause, total, packet);
                return Executed::Refused(NakCode::RemoteAccessError, None);
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
                let needed = Access::REMOTE_WRITE;
                if let Err(cause) = permit(identity.access, env.keys, env.domain, &plan, needed) {
                    return Executed::Refused(NakCode::RemoteAccessError, Some(cause));
                }
                (plan, 0)
            }
            _ => return invalid(Cause::NoRequest {}),
        };
        let payload = packet.payload();
        let total = received + payload.len() as u32;
        let ends = packet.info().position.ends();
        let right_length = if ends { total == plan.length } else { total < plan.length };
        if !right_length {
            let (length, announced) = (total.into(), plan.length.into());
            return invalid(Cause::WriteLength { length, announced });
        }
        if packet.immediate().is_some()
            && !planted::is(Planted::ImmediateKeepsReceive)
            && !env.receives.take(&mut self.receive)
        {
            return Executed::NotReady;
        }
        if let Err(error) = plan.write(env.keys, env.memory, env.domain, received, payload) {
            let code = refusal(error);
            let cause = Cause::remote(env.keys, &plan, Access::REMOTE_WRITE, error);
            outbox.record(identity.refused(status_at_peer(code), cause, packet));
            if packet.immediate().is_some() {
                let (status, cause) = (Status::WorkRequestFlushed, Some(outbox.flush_cause()));
                self.complete_receive(identity, outbox, status, cause, 0, packet);
            }
            return Executed::Refused(code, None);
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
            return invalid(Cause::NoRequest {});
        };
        let plan = RemotePlan { rkey: reth.rkey, address: reth.address, length: reth.length };
        if self.reads_pending() >= usize::from(identity.max_destination_reads) {
            return invalid(Cause::TooManyReads { limit: identity.max_destination_reads.into() });
        }
        if u64::from(plan.length) > MESSAGE_BYTES_MAX {
            let length = plan.length.into();
            return invalid(Cause::ReadTooLong { length, limit: MESSAGE_BYTES_MAX });
        }
        let needed = Access::REMOTE_READ;
        if let Err(cause) = permit(identity.access, env.keys, env.domain, &plan, needed) {
            return Executed::Refused(NakCode::RemoteAccessError, Some(cause));
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
        cause: Option<Cause>,
        byte_length: u32,
        packet: &Packet<'_>,
    ) {
        let kind = if packet.info().operation == OpcodeKind::Write {
            CompletionKind::ReceiveWriteWithImmediate
        } else {
            CompletionKind::Receive
        };
        let extra = packet.immediate().map_or(Extra::None, |value| Extra::Immediate(value.0));
        let completion = Completion {
            wr_id: self.receive.wr_id,
            status,
            kind,
            byte_length,
            extra,
            qpn: identity.qpn,
            source_qpn: identity.destination,
            solicited: packet.bth().solicited,
            ..Completion::default()
        };
        match cause {
            None => outbox.complete(Side::Receive, completion),
            Some(cause) => {
                let failure = identity.refused(status, cause, packet);
                outbox.complete_failed(Side::Receive, completion, failure);
            }
        }
        self.message = None;
    }
}

/// A request that makes no sense here.
pub(super) fn invalid(cause: Cause) -> Executed {
    Executed::Refused(NakCode::InvalidRequest, Some(cause))
}

/// What the peer is told when its operation on our memory fails.
pub(super) fn refusal(error: ExecutionError) -> NakCode {
    match error {
        ExecutionError::Key(_) | ExecutionError::TooLong => NakCode::RemoteAccessError,
        ExecutionError::Fault(_) => NakCode::RemoteOperationalError,
    }
}
