//! Writes request packets.

use super::{ACK_REQUEST_EVERY, ReadInFlight, Requester};
use crate::completion::Status;
use crate::execution::gather;
use crate::iba::cause::{Cause, Ending};
use crate::iba::environment::Environment;
use crate::iba::local_error::local_error;
use crate::iba::path::truesize;
use crate::iba::queue_pair::Identity;
use crate::memory::{Access, Memory};
use crate::transmit::PacketSink;
use crate::work::{Operation, SendWork};
use converb_wire::{AtomicEth, Bth, Ieth, ImmDt, Opcode, Position, Psn, Reth};

/// What became of a packet.
pub(super) enum Built {
    /// It is in the sink.
    Done,
    /// The sink takes no more.
    SinkFull,
    /// It has to wait for an answer to something else.
    Wait,
    /// Its payload could not be read: the work request ends with this.
    Failed(Ending),
}

/// The headers behind the BTH.
struct Extension {
    bytes: [u8; AtomicEth::LENGTH],
    length: usize,
}

impl Requester {
    /// Writes the packet under the cursor, `index` in its work, and moves the cursor on.
    pub(super) fn build<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        sink: &mut impl PacketSink,
        index: u32,
        size: u32,
        may_start: bool,
    ) -> Built {
        let number = self.cursor_work;
        let work = *self.queue.work(number);
        if work.operation.returns_data() && identity.max_reads == 0 {
            return Built::Failed(Ending {
                status: Status::LocalQpOperationError,
                cause: Cause::NoReadDepth {},
                psn: Some(self.cursor),
            });
        }
        match work.operation {
            Operation::Read(_) => return self.build_read(identity, env, sink, number, index),
            Operation::CompareAndSwap { .. } | Operation::FetchAndAdd { .. } => {
                return self.build_atomic(identity, env, sink, number);
            }
            _ => {}
        }
        let packets = self.progress[self.queue.slot(number)].packets;
        let ends = index + 1 == packets;
        let more = !ends || (may_start && self.follows_at_once(number));
        let since = self.since_ack_request + size;
        // The next packet may not fit: then nobody else would ask for the ACK that makes room.
        let window_ends = !env.path.has_room(2 * size);
        let ack_request = !more || since >= ACK_REQUEST_EVERY || window_ends;
        let built = self.write_packet(identity, env, sink, number, index, ack_request);
        if let Built::Done = built {
            self.after_packet(env, size, ack_request, 1);
        }
        built
    }

    /// Writes a packet, or the part of a READ, that is sent a second time out of turn.
    pub(super) fn build_again<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        sink: &mut impl PacketSink,
        start: Psn,
        end: Psn,
    ) -> Built {
        // It may have been answered since it was asked for.
        if !start.is_within(self.unacknowledged, self.sent_end.since(self.unacknowledged)) {
            return Built::Done;
        }
        let number = self.work_of(start);
        let index = start.since(self.progress[self.queue.slot(number)].first);
        match self.queue.work(number).operation {
            Operation::Read(_) => self.write_read(identity, sink, number, index, end.since(start)),
            _ => self.write_packet(identity, env, sink, number, index, true),
        }
    }

    /// Whether another packet can follow work `number` without waiting for anything.
    fn follows_at_once(&self, number: u64) -> bool {
        number + 1 < self.unstarted || self.may_start_next()
    }

    fn after_packet<M: Memory>(
        &mut self,
        env: &mut Environment<'_, M>,
        size: u32,
        ack_request: bool,
        packets: u32,
    ) {
        if !self.is_outstanding() {
            self.timers.started(env.now);
        }
        env.path.sent(size);
        self.charged += size;
        let new = self.cursor == self.sent_end;
        self.cursor = self.cursor.plus(packets);
        if self.sent_end.is_before(self.cursor) {
            self.sent_end = self.cursor;
        }
        if ack_request {
            self.since_ack_request = 0;
            if new && self.round_trip_sample.is_none() {
                self.round_trip_sample = Some((self.cursor, env.now));
            }
        } else {
            self.since_ack_request += size;
        }
    }

    fn build_read<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        sink: &mut impl PacketSink,
        number: u64,
        index: u32,
    ) -> Built {
        // Requests end at fixed places of the message, so that one sent again ends where the
        // first did.
        let step = (env.reads.request_bytes() / identity.mtu).max(1);
        let all = self.progress[self.queue.slot(number)].packets;
        let packets = (step - index % step).min(all - index);
        let length = self.queue.work(number).length;
        let bytes = (packets * identity.mtu).min(length - index * identity.mtu);
        let budget = packets * truesize(bytes.min(identity.mtu) as usize + 64);
        if !env.reads.take(budget, self.reads.is_empty()) {
            return Built::Wait;
        }
        let start = self.cursor;
        let built = self.write_read(identity, sink, number, index, packets);
        match built {
            Built::Done => {
                self.reads.push_back(ReadInFlight { start, end: start.plus(packets), budget });
                self.after_packet(env, truesize(64), true, packets);
            }
            _ => env.reads.give(budget),
        }
        built
    }

    fn build_atomic<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        sink: &mut impl PacketSink,
        number: u64,
    ) -> Built {
        let budget = truesize(64);
        if !env.reads.take(budget, self.reads.is_empty()) {
            return Built::Wait;
        }
        let start = self.cursor;
        let built = self.write_packet(identity, env, sink, number, 0, true);
        match built {
            Built::Done => {
                self.reads.push_back(ReadInFlight { start, end: start.plus(1), budget });
                self.after_packet(env, budget, true, 1);
            }
            _ => env.reads.give(budget),
        }
        built
    }

    fn write_read(
        &self,
        identity: &Identity,
        sink: &mut impl PacketSink,
        number: u64,
        index: u32,
        packets: u32,
    ) -> Built {
        let work = self.queue.work(number);
        let Operation::Read(remote) = work.operation else { return Built::Done };
        let psn = self.progress[self.queue.slot(number)].first.plus(index);
        let offset = index * identity.mtu;
        let length = (packets * identity.mtu).min(work.length - offset);
        let total = Bth::LENGTH + Reth::LENGTH;
        let Some(bytes) = sink.begin(&identity.path, identity.destination, total) else {
            return Built::SinkFull;
        };
        let mut bth = identity.bth(Opcode::RC_READ_REQUEST, psn);
        bth.ack_request = true;
        bth.emit(bytes);
        let address = remote.address.wrapping_add(u64::from(offset));
        Reth { address, rkey: remote.rkey, length }.emit(&mut bytes[Bth::LENGTH..]);
        sink.finish();
        Built::Done
    }

    fn write_packet<M: Memory>(
        &self,
        identity: &Identity,
        env: &Environment<'_, M>,
        sink: &mut impl PacketSink,
        number: u64,
        index: u32,
        ack_request: bool,
    ) -> Built {
        let work = self.queue.work(number);
        let progress = self.progress[self.queue.slot(number)];
        let position = match (index == 0, index + 1 == progress.packets) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, true) => Position::Last,
            (false, false) => Position::Middle,
        };
        let offset = index * identity.mtu;
        let returns_data = work.operation.returns_data();
        let payload =
            if returns_data { 0 } else { (work.length - offset).min(identity.mtu) as usize };
        let pad = payload.wrapping_neg() & 3;
        let extension = Self::extension(work, position);
        let head = Bth::LENGTH + extension.length;
        let total = head + payload + pad;
        let Some(bytes) = sink.begin(&identity.path, identity.destination, total) else {
            return Built::SinkFull;
        };
        let mut bth =
            identity.bth(Self::opcode(work.operation, position), progress.first.plus(index));
        bth.pad = pad as u8;
        bth.ack_request = ack_request;
        bth.solicited = work.flags.solicited && position.ends();
        bth.emit(bytes);
        bytes[Bth::LENGTH..head].copy_from_slice(&extension.bytes[..extension.length]);
        let (body, filling) = bytes[head..].split_at_mut(payload);
        filling.fill(0);
        let copied = if work.inline {
            let start = offset as usize;
            body.copy_from_slice(&self.queue.inline_bytes(number)[start..start + payload]);
            Ok(())
        } else {
            let list = self.queue.entries(number);
            gather(env.keys, env.memory, env.domain, list, u64::from(offset), body)
        };
        match copied {
            Ok(()) => {
                sink.finish();
                Built::Done
            }
            Err(error) => {
                sink.abandon();
                let part = (u64::from(offset), payload);
                let (list, needed) = (self.queue.entries(number), Access::LOCAL_READ);
                let cause = Cause::local(env.keys, env.domain, list, part, needed, error);
                let psn = Some(progress.first.plus(index));
                Built::Failed(Ending { status: local_error(error), cause, psn })
            }
        }
    }

    fn extension(work: &SendWork, position: Position) -> Extension {
        let mut extension = Extension { bytes: [0; AtomicEth::LENGTH], length: 0 };
        let remote = match work.operation {
            Operation::Write(remote) | Operation::WriteWithImmediate(remote, _) => Some(remote),
            _ => None,
        };
        if let (Some(remote), true) = (remote, position.begins()) {
            Reth { address: remote.address, rkey: remote.rkey, length: work.length }
                .emit(&mut extension.bytes);
            extension.length += Reth::LENGTH;
        }
        if let Some(atomic) = atomic_eth(work.operation) {
            atomic.emit(&mut extension.bytes);
            extension.length += AtomicEth::LENGTH;
        }
        if position.ends() {
            match work.operation {
                Operation::SendWithImmediate(value) | Operation::WriteWithImmediate(_, value) => {
                    ImmDt(value).emit(&mut extension.bytes[extension.length..]);
                    extension.length += ImmDt::LENGTH;
                }
                Operation::SendWithInvalidate(rkey) => {
                    Ieth(rkey).emit(&mut extension.bytes[extension.length..]);
                    extension.length += Ieth::LENGTH;
                }
                _ => {}
            }
        }
        extension
    }

    fn opcode(operation: Operation, position: Position) -> Opcode {
        use Operation as O;
        match (operation, position) {
            (O::Write(_) | O::WriteWithImmediate(..), Position::First) => Opcode::RC_WRITE_FIRST,
            (O::Write(_) | O::WriteWithImmediate(..), Position::Middle) => Opcode::RC_WRITE_MIDDLE,
            (O::Write(_), Position::Last) => Opcode::RC_WRITE_LAST,
            (O::Write(_), Position::Only) => Opcode::RC_WRITE_ONLY,
            (O::WriteWithImmediate(..), Position::Last) => Opcode::RC_WRITE_LAST_IMMEDIATE,
            (O::WriteWithImmediate(..), Position::Only) => Opcode::RC_WRITE_ONLY_IMMEDIATE,
            (O::SendWithImmediate(_), Position::Last) => Opcode::RC_SEND_LAST_IMMEDIATE,
            (O::SendWithImmediate(_), Position::Only) => Opcode::RC_SEND_ONLY_IMMEDIATE,
            (O::SendWithInvalidate(_), Position::Last) => Opcode::RC_SEND_LAST_INVALIDATE,
            (O::SendWithInvalidate(_), Position::Only) => Opcode::RC_SEND_ONLY_INVALIDATE,
            (O::Read(_), _) => Opcode::RC_READ_REQUEST,
            (O::CompareAndSwap { .. }, _) => Opcode::RC_COMPARE_SWAP,
            (O::FetchAndAdd { .. }, _) => Opcode::RC_FETCH_ADD,
            (_, Position::First) => Opcode::RC_SEND_FIRST,
            (_, Position::Middle) => Opcode::RC_SEND_MIDDLE,
            (_, Position::Last) => Opcode::RC_SEND_LAST,
            (_, Position::Only) => Opcode::RC_SEND_ONLY,
        }
    }
}

fn atomic_eth(operation: Operation) -> Option<AtomicEth> {
    let (remote, swap_or_add, compare) = match operation {
        Operation::CompareAndSwap { remote, compare, swap } => (remote, swap, compare),
        Operation::FetchAndAdd { remote, add } => (remote, add, 0),
        _ => return None,
    };
    Some(AtomicEth { address: remote.address, rkey: remote.rkey, swap_or_add, compare })
}
