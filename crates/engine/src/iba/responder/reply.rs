//! The answers that wait to be sent, in the order of the requests.

use super::execute::refusal;
use super::{Responder, status_at_peer};
use crate::counters::Counters;
use crate::execution::RemotePlan;
use crate::iba::cause::{Cause, Failure};
use crate::iba::environment::Environment;
use crate::iba::event::Event;
use crate::iba::outbox::Outbox;
use crate::iba::queue_pair::{Identity, Transmit};
use crate::memory::{Access, Memory};
use crate::transmit::PacketSink;
use converb_wire::{Aeth, AtomicAckEth, Bth, NakCode, Opcode, Psn, Syndrome, credit};

/// An answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    /// Everything up to `psn` was executed.
    Ack { psn: Psn },
    /// Something else about `psn`.
    Nak { psn: Psn, syndrome: Syndrome },
    /// What an atomic found.
    Atomic { psn: Psn, original: u64, message: u32 },
    /// The data of a READ: `packets` responses from `first` on, `sent` of them sent.
    Read { plan: RemotePlan, first: Psn, packets: u32, sent: u32, message: u32, again: bool },
}

impl Reply {
    pub(super) fn atomic(psn: Psn, original: u64, message: u32) -> Self {
        Self::Atomic { psn, original, message }
    }

    pub(super) fn read(plan: RemotePlan, first: Psn, packets: u32, message: u32) -> Self {
        Self::Read { plan, first, packets, sent: 0, message, again: false }
    }

    /// The same for a READ that was executed before.
    pub(super) fn read_again(plan: RemotePlan, first: Psn, packets: u32, message: u32) -> Self {
        Self::Read { plan, first, packets, sent: 0, message, again: true }
    }
}

impl Responder {
    /// Acknowledges everything executed so far; with what is queued already, if nothing else came
    /// in between.
    pub(super) fn queue_ack(&mut self) {
        let psn = self.expected.minus(1);
        match self.replies.back_mut() {
            Some(Reply::Ack { psn: queued }) => *queued = psn,
            _ => self.replies.push_back(Reply::Ack { psn }),
        }
    }

    /// Says something else about the expected packet, and so acknowledges those before it: an
    /// ACK just in front of it would only look as if there were nothing more to come.
    pub(super) fn queue_nak(&mut self, syndrome: Syndrome) {
        let nak = Reply::Nak { psn: self.expected, syndrome };
        match self.replies.back_mut() {
            Some(last @ Reply::Ack { .. }) => *last = nak,
            _ => self.replies.push_back(nak),
        }
    }

    /// Whether an ACK is the only answer that waits.
    pub(in crate::iba) fn owes_lone_ack(&self) -> bool {
        self.replies.len() == 1 && matches!(self.replies.front(), Some(Reply::Ack { .. }))
    }

    /// Whether the peer may miss the ACK of something that was executed.
    pub(in crate::iba) fn needs_farewell(&self, is_lossy: bool) -> bool {
        self.messages > 0 && (is_lossy || self.has_met_loss)
    }

    /// Acknowledges everything executed so far, several times.
    pub(in crate::iba) fn write_farewell(&self, identity: &Identity, sink: &mut impl PacketSink) {
        let syndrome = Syndrome::Ack { credit: credit::NONE };
        for _ in 0..FAREWELLS {
            self.write_aeth(identity, sink, self.expected.minus(1), syndrome);
        }
    }

    /// READs of the peer that are not answered in full. Those that it asked for a second time do
    /// not count: it may have got the first answer meanwhile, and gone on.
    pub(super) fn reads_pending(&self) -> usize {
        let is_new = |reply: &&Reply| matches!(reply, Reply::Read { again: false, .. });
        self.replies.iter().filter(is_new).count()
    }

    /// Writes answers into `sink` until none is left or the sink is full.
    pub(in crate::iba) fn poll_transmit<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        sink: &mut impl PacketSink,
    ) -> Transmit {
        while let Some(reply) = self.replies.front().copied() {
            let written = match reply {
                Reply::Ack { psn } => {
                    let syndrome = Syndrome::Ack { credit: credit_code(env) };
                    self.write_acknowledge(identity, sink, psn, syndrome)
                }
                Reply::Nak { psn, syndrome } => {
                    self.write_acknowledge(identity, sink, psn, syndrome)
                }
                Reply::Atomic { psn, original, message } => {
                    self.write_atomic_acknowledge(identity, env, sink, psn, original, message)
                }
                Reply::Read { .. } => self.write_response(identity, env, outbox, sink, reply),
            };
            if !written {
                return Transmit::SinkFull;
            }
        }
        Transmit::Idle
    }

    fn write_acknowledge(
        &mut self,
        identity: &Identity,
        sink: &mut impl PacketSink,
        psn: Psn,
        syndrome: Syndrome,
    ) -> bool {
        let is_written = self.write_aeth(identity, sink, psn, syndrome);
        if is_written {
            self.replies.pop_front();
        }
        is_written
    }

    fn write_aeth(
        &self,
        identity: &Identity,
        sink: &mut impl PacketSink,
        psn: Psn,
        syndrome: Syndrome,
    ) -> bool {
        let length = Bth::LENGTH + Aeth::LENGTH;
        let Some(bytes) = sink.begin(&identity.path, identity.destination, length) else {
            return false;
        };
        identity.bth(Opcode::RC_ACKNOWLEDGE, psn).emit(bytes);
        Aeth { syndrome, msn: self.messages }.emit(&mut bytes[Bth::LENGTH..]);
        sink.finish();
        true
    }

    fn write_atomic_acknowledge<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &Environment<'_, M>,
        sink: &mut impl PacketSink,
        psn: Psn,
        original: u64,
        message: u32,
    ) -> bool {
        let length = Bth::LENGTH + Aeth::LENGTH + AtomicAckEth::LENGTH;
        let Some(bytes) = sink.begin(&identity.path, identity.destination, length) else {
            return false;
        };
        identity.bth(Opcode::RC_ATOMIC_ACKNOWLEDGE, psn).emit(bytes);
        let syndrome = Syndrome::Ack { credit: credit_code(env) };
        Aeth { syndrome, msn: message }.emit(&mut bytes[Bth::LENGTH..]);
        AtomicAckEth { original }.emit(&mut bytes[Bth::LENGTH + Aeth::LENGTH..]);
        sink.finish();
        self.replies.pop_front();
        true
    }

    /// Writes the next response of the READ in front; false if the sink is full.
    fn write_response<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        sink: &mut impl PacketSink,
        reply: Reply,
    ) -> bool {
        let Reply::Read { plan, first, packets, sent, message, .. } = reply else { return true };
        let opcode = match (sent == 0, sent + 1 == packets) {
            (true, true) => Opcode::RC_READ_RESPONSE_ONLY,
            (true, false) => Opcode::RC_READ_RESPONSE_FIRST,
            (false, true) => Opcode::RC_READ_RESPONSE_LAST,
            (false, false) => Opcode::RC_READ_RESPONSE_MIDDLE,
        };
        let with_aeth = opcode != Opcode::RC_READ_RESPONSE_MIDDLE;
        let offset = sent * identity.mtu;
        let payload = (plan.length - offset).min(identity.mtu) as usize;
        let pad = payload.wrapping_neg() & 3;
        let head = Bth::LENGTH + if with_aeth { Aeth::LENGTH } else { 0 };
        let Some(bytes) = sink.begin(&identity.path, identity.destination, head + payload + pad)
        else {
            return false;
        };
        let psn = first.plus(sent);
        let mut bth = identity.bth(opcode, psn);
        bth.pad = pad as u8;
        bth.emit(bytes);
        if with_aeth {
            let syndrome = Syndrome::Ack { credit: credit_code(env) };
            Aeth { syndrome, msn: message }.emit(&mut bytes[Bth::LENGTH..]);
        }
        let (body, filling) = bytes[head..].split_at_mut(payload);
        filling.fill(0);
        if let Err(error) = plan.read(env.keys, env.memory, env.domain, offset, body) {
            sink.abandon();
            let code = refusal(error);
            let (counter, event) = if code == NakCode::RemoteAccessError {
                (&env.counters.access_errors, Event::AccessError)
            } else {
                (&env.counters.invalid_requests, Event::RequestError)
            };
            Counters::count(counter);
            let cause = Cause::remote(env.keys, &plan, Access::REMOTE_READ, error);
            let failure = identity.failure(status_at_peer(code), cause);
            let request = Some(Opcode::RC_READ_REQUEST);
            outbox.record(Failure { psn: Some(psn), opcode: request, ..failure });
            // What was queued behind it never happened, as far as the peer is concerned.
            self.replies.clear();
            self.replies.push_back(Reply::Nak { psn, syndrome: Syndrome::Nak(code) });
            outbox.failed = true;
            outbox.events.push_back(event);
            return true;
        }
        sink.finish();
        if sent + 1 == packets {
            self.replies.pop_front();
        } else if let Some(Reply::Read { sent, .. }) = self.replies.front_mut() {
            *sent += 1;
        }
        true
    }
}

/// So often a last ACK is said where packets get lost. If a packet of a hundred does, a peer
/// misses all of them once in a hundred million times.
const FAREWELLS: usize = 4;

fn credit_code<M: Memory>(env: &Environment<'_, M>) -> u8 {
    let credits = env.receives.credits();
    credits.map_or(credit::NONE, |count| credit::encode(u32::try_from(count).unwrap_or(u32::MAX)))
}
