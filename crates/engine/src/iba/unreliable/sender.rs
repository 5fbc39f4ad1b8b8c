//! Sends without waiting for anything but room: the queue of UC and UD queue pairs.

use crate::completion::{Completion, CompletionKind, Status};
use crate::execution::{ExecutionError, gather};
use crate::iba::cause::Cause;
use crate::iba::credit::{Admission, CreditMessage};
use crate::iba::environment::Environment;
use crate::iba::event::Side;
use crate::iba::local_error::local_error;
use crate::iba::outbox::Outbox;
use crate::iba::path::{PathWindow, truesize};
use crate::iba::queue_pair::{Identity, Transmit};
use crate::memory::{Access, Memory};
use crate::planted::{self, Planted};
use crate::time::Time;
use crate::transmit::PacketSink;
use crate::work::{DatagramDestination, Operation, SendRing, SendWork};
use crate::{Address, AddressVector};
use converb_wire::{Bth, Deth, ImmDt, Opcode, Position, Psn, Qpn, Reth};
use std::sync::Arc;

/// The sending half of an unreliable queue pair.
#[derive(Debug)]
pub(in crate::iba) struct UnreliableSender {
    queue: SendRing,
    psn: Psn,
    /// Packets of the oldest work request that are on their way.
    index: u32,
    /// When to try again after the path was full.
    wait_until: Option<Time>,
    /// The path of the last datagram: the next one mostly takes it, too.
    last_path: Option<(Address, u16, Arc<PathWindow>)>,
}

/// Where a packet goes.
struct Target {
    path: AddressVector,
    qpn: Qpn,
    deth: Option<Deth>,
}

impl UnreliableSender {
    pub(in crate::iba) fn new(queue: SendRing) -> Self {
        Self { queue, psn: Psn::default(), index: 0, wait_until: None, last_path: None }
    }

    pub(in crate::iba) fn start(&mut self, psn: Psn) {
        self.psn = psn;
    }

    /// The next datagram looks for its path again.
    pub(in crate::iba) fn forget_path(&mut self) {
        self.last_path = None;
    }

    pub(in crate::iba) fn take(&mut self, posted: &mut SendRing) -> usize {
        posted.move_to(&mut self.queue)
    }

    pub(in crate::iba) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a message is half sent.
    pub(in crate::iba) fn has_started_work(&self) -> bool {
        self.index != 0
    }

    pub(in crate::iba) fn deadline(&self) -> Time {
        self.wait_until.unwrap_or(Time::NEVER)
    }

    /// The time to try again may have come. It is not waited for a second time: whom the network
    /// keeps from sending now would be called again at once, for ever.
    pub(in crate::iba) fn handle_timer(&mut self, now: Time) {
        self.wait_until = self.wait_until.filter(|&until| until > now);
    }

    pub(in crate::iba) fn poll_transmit<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        sink: &mut impl PacketSink,
        may_start: bool,
    ) -> Transmit {
        self.wait_until = None;
        while !self.queue.is_empty() && (may_start || self.index != 0) {
            let number = self.queue.first();
            let work = *self.queue.work(number);
            if identity.is_datagram && work.length > identity.port_mtu {
                let (length, limit) = (work.length.into(), identity.port_mtu.into());
                let cause = Cause::DatagramTooLong { length, limit };
                self.fail(identity, outbox, Status::LocalLengthError, cause);
                return Transmit::Idle;
            }
            let Some(target) = Self::target(identity, &work) else {
                let (status, cause) = (Status::LocalQpOperationError, Cause::NoDestination {});
                self.fail(identity, outbox, status, cause);
                return Transmit::Idle;
            };
            let path = self.path(identity, env, &target);
            let path = path.as_deref().unwrap_or(env.path);
            let payload = (work.length - self.index * identity.packet_payload_max())
                .min(identity.packet_payload_max());
            let size = truesize(payload as usize + 64);
            if let Admission::Wait(until) = path.credit().admit(size, env.now) {
                if !Self::ask(identity, env, path, sink, &target, true) {
                    return Transmit::SinkFull;
                }
                self.wait_until = Some(until);
                return Transmit::WindowFull;
            }
            // The question goes first: an answer then says that what is sent now had room.
            if !Self::ask(identity, env, path, sink, &target, false) {
                return Transmit::SinkFull;
            }
            match self.write_packet(identity, env, sink, &work, &target, payload as usize) {
                Ok(true) => path.credit().sent(size),
                Ok(false) => return Transmit::SinkFull,
                Err(error) => {
                    let list = self.queue.entries(number);
                    let part =
                        (u64::from(self.index * identity.packet_payload_max()), payload as usize);
                    let needed = Access::LOCAL_READ;
                    let cause = Cause::local(env.keys, env.domain, list, part, needed, error);
                    self.fail(identity, outbox, local_error(error), cause);
                    return Transmit::Idle;
                }
            }
            self.psn = self.psn.plus(1);
            self.index += 1;
            if self.index * identity.packet_payload_max() >= work.length {
                self.retire(identity, outbox, Status::Success, None);
            }
        }
        Transmit::Idle
    }

    /// Sends a credit question if one is due; false if the sink is full.
    fn ask<M: Memory>(
        identity: &Identity,
        env: &Environment<'_, M>,
        path: &PathWindow,
        sink: &mut impl PacketSink,
        target: &Target,
        waiting: bool,
    ) -> bool {
        let slot = |qpn: Qpn| (qpn.value() >> 14) as u16;
        // The room is taken first: a question that is noted as asked must be sent.
        let to = CreditMessage::destination(slot(target.qpn));
        if !path.credit().is_question_due(env.now, waiting) {
            return true;
        }
        let Some(bytes) = sink.begin(&target.path, to, CreditMessage::LENGTH) else {
            return false;
        };
        match path.credit().question(identity.credit_slot, env.now, waiting) {
            Some(question) => {
                question.emit(slot(target.qpn), bytes);
                sink.finish();
            }
            None => sink.abandon(),
        }
        true
    }

    fn target(identity: &Identity, work: &SendWork) -> Option<Target> {
        if !identity.is_datagram {
            return Some(Target { path: identity.path, qpn: identity.destination, deth: None });
        }
        let DatagramDestination { path, qpn, queue_key } = work.destination?;
        let queue_key = if queue_key >> 31 == 1 { identity.queue_key } else { queue_key };
        let deth = Deth { queue_key, source: identity.qpn, ..Deth::default() };
        Some(Target { path, qpn, deth: Some(deth) })
    }

    /// The window of a datagram's path; `None` for connected queue pairs, which have one.
    fn path<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &Environment<'_, M>,
        target: &Target,
    ) -> Option<Arc<PathWindow>> {
        if !identity.is_datagram {
            return None;
        }
        let (remote, slot) = (target.path.remote, (target.qpn.value() >> 14) as u16);
        match &self.last_path {
            Some((address, number, path)) if *address == remote && *number == slot => {
                Some(Arc::clone(path))
            }
            _ => {
                let path = env.paths.find(remote, target.qpn);
                self.last_path = Some((remote, slot, Arc::clone(&path)));
                Some(path)
            }
        }
    }

    fn write_packet<M: Memory>(
        &self,
        identity: &Identity,
        env: &Environment<'_, M>,
        sink: &mut impl PacketSink,
        work: &SendWork,
        target: &Target,
        payload: usize,
    ) -> Result<bool, ExecutionError> {
        let number = self.queue.first();
        let offset = self.index * identity.packet_payload_max();
        let ends = offset + payload as u32 >= work.length;
        let position = match (self.index == 0, ends) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, true) => Position::Last,
            (false, false) => Position::Middle,
        };
        let mut extension = [0; Reth::LENGTH + Deth::LENGTH + ImmDt::LENGTH];
        let mut length = 0;
        if let Some(deth) = target.deth {
            deth.emit(&mut extension);
            length += Deth::LENGTH;
        }
        if let (Some(reth), true) = (reth(work), position.begins()) {
            reth.emit(&mut extension[length..]);
            length += Reth::LENGTH;
        }
        if let (Some(value), true) = (immediate(work.operation), ends) {
            ImmDt(value).emit(&mut extension[length..]);
            length += ImmDt::LENGTH;
        }
        let pad = payload.wrapping_neg() & 3;
        let head = Bth::LENGTH + length;
        let Some(bytes) = sink.begin(&target.path, target.qpn, head + payload + pad) else {
            return Ok(false);
        };
        let opcode = opcode(work.operation, position, identity.is_datagram);
        let mut bth = Bth::new(opcode, target.qpn, self.psn);
        bth.pad = pad as u8;
        bth.solicited = work.flags.solicited && ends;
        bth.emit(bytes);
        bytes[Bth::LENGTH..head].copy_from_slice(&extension[..length]);
        let (body, filling) = bytes[head..].split_at_mut(payload);
        filling.fill(0);
        if work.inline {
            let start = offset as usize;
            body.copy_from_slice(&self.queue.inline_bytes(number)[start..start + payload]);
        } else {
            let list = self.queue.entries(number);
            let gathered = gather(env.keys, env.memory, env.domain, list, u64::from(offset), body);
            if let Err(error) = gathered {
                sink.abandon();
                return Err(error);
            }
        }
        sink.finish();
        Ok(true)
    }

    fn retire(
        &mut self,
        identity: &Identity,
        outbox: &mut Outbox,
        status: Status,
        cause: Option<Cause>,
    ) {
        let work = self.queue.work(self.queue.first());
        if status != Status::Success || work.flags.signaled || identity.signal_all {
            let kind = match work.operation {
                Operation::Write(_) | Operation::WriteWithImmediate(..) => CompletionKind::Write,
                _ => CompletionKind::Send,
            };
            let (wr_id, qpn) = (work.wr_id, identity.qpn);
            let completion = Completion { wr_id, status, kind, qpn, ..Completion::default() };
            match cause.filter(|_| status != Status::Success) {
                None => outbox.complete(Side::Send, completion),
                Some(cause) => {
                    let mut failure = identity.failure(status, cause);
                    if let Some(destination) = work.destination.filter(|_| identity.is_datagram) {
                        failure.peer = destination.qpn;
                        failure.address = destination.path.remote;
                    }
                    if !failure.is_flush() {
                        failure.psn = Some(self.psn);
                    }
                    outbox.complete_failed(Side::Send, completion, failure);
                }
            }
        }
        self.queue.pop();
        self.index = 0;
        outbox.retired += 1;
    }

    /// The oldest work request fails, and the send queue with it; receiving goes on.
    fn fail(&mut self, identity: &Identity, outbox: &mut Outbox, status: Status, cause: Cause) {
        self.retire(identity, outbox, status, Some(cause));
        outbox.send_failed = true;
    }

    /// Flushes every work request in the queue.
    pub(in crate::iba) fn flush(&mut self, identity: &Identity, outbox: &mut Outbox) {
        let lie = planted::is(Planted::FlushSucceeds);
        let status = if lie { Status::Success } else { Status::WorkRequestFlushed };
        while !self.queue.is_empty() {
            let cause = outbox.flush_cause();
            self.retire(identity, outbox, status, Some(cause));
        }
        self.wait_until = None;
    }

    /// Forgets all work requests (reset, destroy).
    pub(in crate::iba) fn forget(&mut self) {
        self.queue.clear();
        self.index = 0;
        self.wait_until = None;
        self.last_path = None;
    }
}

fn reth(work: &SendWork) -> Option<Reth> {
    match work.operation {
        Operation::Write(remote) | Operation::WriteWithImmediate(remote, _) => {
            Some(Reth { address: remote.address, rkey: remote.rkey, length: work.length })
        }
        _ => None,
    }
}

fn immediate(operation: Operation) -> Option<u32> {
    match operation {
        Operation::SendWithImmediate(value) | Operation::WriteWithImmediate(_, value) => {
            Some(value)
        }
        _ => None,
    }
}

fn opcode(operation: Operation, position: Position, is_datagram: bool) -> Opcode {
    use Position::{First, Last, Middle, Only};
    let with_immediate = immediate(operation).is_some();
    if is_datagram {
        return if with_immediate { Opcode::UD_SEND_ONLY_IMMEDIATE } else { Opcode::UD_SEND_ONLY };
    }
    let is_write = matches!(operation, Operation::Write(_) | Operation::WriteWithImmediate(..));
    match (is_write, position, with_immediate) {
        (false, First, _) => Opcode::UC_SEND_FIRST,
        (false, Middle, _) => Opcode::UC_SEND_MIDDLE,
        (false, Last, false) => Opcode::UC_SEND_LAST,
        (false, Last, true) => Opcode::UC_SEND_LAST_IMMEDIATE,
        (false, Only, false) => Opcode::UC_SEND_ONLY,
        (false, Only, true) => Opcode::UC_SEND_ONLY_IMMEDIATE,
        (true, First, _) => Opcode::UC_WRITE_FIRST,
        (true, Middle, _) => Opcode::UC_WRITE_MIDDLE,
        (true, Last, false) => Opcode::UC_WRITE_LAST,
        (true, Last, true) => Opcode::UC_WRITE_LAST_IMMEDIATE,
        (true, Only, false) => Opcode::UC_WRITE_ONLY,
        (true, Only, true) => Opcode::UC_WRITE_ONLY_IMMEDIATE,
    }
}
