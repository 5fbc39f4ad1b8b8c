//! What the peer answers: ACKs, NAKs and READ responses.

use super::Requester;
use crate::completion::Status;
use crate::counters::Counters;
use crate::execution::scatter;
use crate::iba::cause::{Cause, Ending};
use crate::iba::environment::Environment;
use crate::iba::local_error::local_error;
use crate::iba::outbox::Outbox;
use crate::iba::queue_pair::Identity;
use crate::memory::{Access, Memory};
use crate::work::Operation;
use converb_wire::{Aeth, NakCode, Packet, Psn, Syndrome, credit, rnr_timer};

impl Requester {
    /// An acknowledge packet.
    pub(in crate::iba) fn handle_acknowledge<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        psn: Psn,
        aeth: Aeth,
    ) {
        let is_ack = matches!(aeth.syndrome, Syndrome::Ack { .. });
        // It may be of anything ever sent, and everything before it was executed in any case.
        let limit = if is_ack { psn.plus(1) } else { psn };
        let distance = limit.since(self.unacknowledged);
        if distance > self.sent_end.since(self.unacknowledged) {
            Counters::count(&env.counters.dropped_stale_response);
            return;
        }
        // What a NAK says of its packet is about what is in flight now: after going back, one for
        // a packet that was not sent again yet is an old one.
        let is_old = !is_ack && distance >= self.cursor.since(self.unacknowledged);
        let complete = self.advance(identity, env, outbox, limit);
        if outbox.failed {
            return;
        }
        if is_old {
            Counters::count(&env.counters.dropped_stale_response);
            return;
        }
        match aeth.syndrome {
            Syndrome::Ack { credit } => {
                self.take_credit(aeth.msn, credit);
                if let Some(verdict) = self.recovery.acknowledged(limit) {
                    self.follow(verdict, env);
                }
                if !complete {
                    self.ask_for_gap(env);
                }
            }
            Syndrome::RnrNak { timer } => {
                Counters::count(&env.counters.rnr_naks_received);
                if self.timers.is_held_back() {
                    return;
                }
                let delay = rnr_timer(timer);
                if self.timers.receiver_not_ready(env.now, psn, delay) {
                    self.go_back(psn, env);
                } else {
                    let status = Status::RnrRetryExceeded;
                    let cause = self.timers.never_ready(delay);
                    let ending = Ending { status, cause, psn: Some(psn) };
                    self.fail(identity, env, outbox, self.work_of(psn), ending);
                }
            }
            Syndrome::Nak(NakCode::SequenceError) => {
                Counters::count(&env.counters.sequence_naks_received);
                env.path.lost(env.now);
                let verdict = self.recovery.sequence_error(psn, self.cursor);
                if self.recovery.resend.is_some() {
                    self.resend_from(psn);
                }
                self.follow(verdict, env);
            }
            Syndrome::Nak(code) => {
                let number = self.work_of(psn);
                let work = self.queue.work(number);
                let (key, address) = work
                    .operation
                    .remote()
                    .map_or((0, 0), |remote| (remote.rkey.0.into(), remote.address));
                let length = work.length.into();
                let (status, cause) = match code {
                    NakCode::RemoteAccessError => {
                        (Status::RemoteAccessError, Cause::PeerAccess { key, address, length })
                    }
                    NakCode::RemoteOperationalError => {
                        let cause = Cause::PeerOperation { key, address, length };
                        (Status::RemoteOperationError, cause)
                    }
                    _ => {
                        let cause = Cause::PeerInvalidRequest { key, address, length };
                        (Status::RemoteInvalidRequest, cause)
                    }
                };
                let ending = Ending { status, cause, psn: Some(psn) };
                self.fail(identity, env, outbox, number, ending);
            }
            Syndrome::Reserved(_) => Counters::count(&env.counters.dropped_malformed),
        }
    }

    /// A READ response packet. It also says that everything before its READ was executed.
    pub(in crate::iba) fn handle_read_response<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        packet: &Packet<'_>,
    ) {
        let psn = packet.bth().psn;
        if psn.since(self.unacknowledged) >= self.sent_end.since(self.unacknowledged)
            || self.received.contains(psn)
        {
            Counters::count(&env.counters.dropped_stale_response);
            return;
        }
        let number = self.work_of(psn);
        let work = *self.queue.work(number);
        if !matches!(work.operation, Operation::Read(_)) {
            return self.answered_wrongly(identity, env, outbox, psn);
        }
        let index = psn.since(self.progress[self.queue.slot(number)].first);
        let offset = index * identity.mtu;
        let expected = (work.length - offset).min(identity.mtu) as usize;
        if packet.payload().len() != expected {
            let length = packet.payload().len() as u64;
            let cause = Cause::ResponseLength { length, expected: expected as u64 };
            let ending = Ending { status: Status::BadResponse, cause, psn: Some(psn) };
            self.fail(identity, env, outbox, number, ending);
            return;
        }
        let list = self.queue.entries(number);
        let placed =
            scatter(env.keys, env.memory, env.domain, list, u64::from(offset), packet.payload());
        if let Err(error) = placed {
            let part = (u64::from(offset), packet.payload().len());
            let needed = Access::LOCAL_WRITE;
            let cause = Cause::local(env.keys, env.domain, list, part, needed, error);
            let ending = Ending { status: local_error(error), cause, psn: Some(psn) };
            // Those before it may still be answered, and are not at fault.
            self.get_stuck(identity, env, outbox, number, ending);
            return;
        }
        self.data_arrived(identity, env, outbox, packet, psn);
    }

    /// The data that `psn` brought is in its place.
    fn data_arrived<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        packet: &Packet<'_>,
        psn: Psn,
    ) {
        self.received.insert(psn);
        let limit = psn.plus(1);
        let complete = self.advance(identity, env, outbox, limit);
        if outbox.failed {
            return;
        }
        if let Some(aeth) = packet.aeth()
            && let Syndrome::Ack { credit } = aeth.syndrome
        {
            self.take_credit(aeth.msn, credit);
        }
        if let Some(verdict) = self.recovery.acknowledged(self.unacknowledged) {
            self.follow(verdict, env);
        }
        if !complete {
            self.ask_for_gap(env);
        }
    }

    /// The result of an atomic operation. It also says that everything before it was executed.
    pub(in crate::iba) fn handle_atomic_acknowledge<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        packet: &Packet<'_>,
    ) {
        let psn = packet.bth().psn;
        let stale = psn.since(self.unacknowledged) >= self.sent_end.since(self.unacknowledged)
            || self.received.contains(psn);
        let result = packet.atomic_ack_eth().filter(|_| !stale);
        let (Some(result), false) = (result, stale) else {
            return Counters::count(&env.counters.dropped_stale_response);
        };
        let number = self.work_of(psn);
        let operation = self.queue.work(number).operation;
        if !matches!(operation, Operation::CompareAndSwap { .. } | Operation::FetchAndAdd { .. }) {
            return self.answered_wrongly(identity, env, outbox, psn);
        }
        let list = self.queue.entries(number);
        let bytes = result.original.to_ne_bytes();
        if let Err(error) = scatter(env.keys, env.memory, env.domain, list, 0, &bytes) {
            let part = (0, bytes.len());
            let needed = Access::LOCAL_WRITE;
            let cause = Cause::local(env.keys, env.domain, list, part, needed, error);
            let ending = Ending { status: local_error(error), cause, psn: Some(psn) };
            return self.get_stuck(identity, env, outbox, number, ending);
        }
        self.data_arrived(identity, env, outbox, packet, psn);
    }

    /// Data came for a request that returns none, or none of this kind. At the expected packet
    /// number that is a bad response (IBA 9.9.2.3); elsewhere it tells nothing.
    fn answered_wrongly<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        psn: Psn,
    ) {
        if psn == self.unacknowledged {
            let (status, cause) = (Status::BadResponse, Cause::ResponseKind {});
            let ending = Ending { status, cause, psn: Some(psn) };
            self.fail(identity, env, outbox, self.work_of(psn), ending);
        } else {
            Counters::count(&env.counters.dropped_stale_response);
        }
    }

    fn take_credit(&mut self, msn: u32, code: u8) {
        self.message_limit =
            credit::decode(code).map(|credits| msn.wrapping_add(credits) & 0x00ff_ffff);
    }

    /// Responses are missing in front of something that came: ask for them, once.
    fn ask_for_gap<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        let first_time = self.gap != Some(self.unacknowledged);
        if first_time && self.unacknowledged.is_before(self.cursor) {
            self.gap = Some(self.unacknowledged);
            env.path.lost(env.now);
            self.resend_from(self.unacknowledged);
        }
    }
}
