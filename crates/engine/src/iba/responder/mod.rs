//! The responder: executes the peer's requests in order and answers them (IBA 9.7.4, 9.7.5).
//!
//! Requests are executed when their turn comes; answers are queued in the same order and written
//! by [`Responder::poll_transmit`], so that an ACK never overtakes an earlier READ's response.

mod atomic;
mod duplicate;
mod execute;
mod reply;

use super::cause::Cause;
use super::environment::Environment;
use super::event::Event;
use super::outbox::Outbox;
use super::queue_pair::Identity;
use super::stash::Stash;
use crate::completion::Status;
use crate::counters::Counters;
use crate::execution::RemotePlan;
use crate::memory::Memory;
use crate::work::ReceiveWork;
use converb_wire::{NakCode, Packet, Psn, Syndrome};
use reply::Reply;
use std::collections::VecDeque;

/// The message whose packets are coming in.
#[derive(Clone, Copy, Debug)]
enum Message {
    /// A SEND, this many bytes of which have come.
    Send { received: u32 },
    /// A WRITE, this many bytes of which have come.
    Write { plan: RemotePlan, received: u32 },
}

/// What was told about the expected packet, until it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    #[default]
    Nothing,
    /// That it is missing.
    Missing,
    /// That there is no receive for it.
    NotReady,
}

/// How far the execution of a request got.
enum Executed {
    /// It is done; the next number is expected.
    Yes,
    /// Not now: the peer has to send it again.
    NotReady,
    /// It cannot be: the queue pair ends.
    /// The cause is `None` if a completion has told it.
    Refused(NakCode, Option<Cause>),
}

/// The responder's half of a queue pair.
#[derive(Debug, Default)]
pub(super) struct Responder {
    expected: Psn,
    /// Completed messages, 24 bits.
    messages: u32,
    message: Option<Message>,
    receive: ReceiveWork,
    told: Told,
    stash: Stash,
    replies: VecDeque<Reply>,
    /// The results of the last atomics, for those that are asked for again.
    results: VecDeque<(Psn, u64)>,
    established: bool,
    /// Packets were lost: some came early, or twice.
    has_met_loss: bool,
}

/// Packets further ahead than this are not kept: they are no part of what is in flight.
const AHEAD_MAX: u32 = 1 << 14;
/// No more answers than this are queued; the peer asks again for the rest.
const REPLIES_MAX: usize = 512;

impl Responder {
    /// Expects `psn` next (the change to ready-to-receive).
    pub(super) fn start(&mut self, psn: Psn) {
        self.forget();
        self.expected = psn;
        self.messages = 0;
        self.established = false;
        self.has_met_loss = false;
    }

    /// Forgets everything that is under way (reset, destroy).
    pub(super) fn forget(&mut self) {
        self.message = None;
        self.told = Told::Nothing;
        self.stash.clear();
        self.replies.clear();
        self.results.clear();
    }

    /// The receive that a message has begun to fill, if any: it is flushed with the others.
    pub(super) fn take_open_receive(&mut self) -> Option<u64> {
        let open = matches!(self.message, Some(Message::Send { .. }));
        self.message = None;
        open.then_some(self.receive.wr_id)
    }

    /// A request packet, whose bytes from the BTH to the pad are `bytes`.
    pub(super) fn handle_request<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        packet: &Packet<'_>,
        bytes: &[u8],
    ) {
        if !self.established {
            self.established = true;
            outbox.event_before_ready_to_send(Event::CommunicationEstablished);
        }
        let psn = packet.bth().psn;
        if psn.is_before(self.expected) {
            self.handle_duplicate(identity, env, packet);
            return;
        }
        if psn != self.expected {
            self.handle_early(env, packet, bytes);
            return;
        }
        if !self.execute_in_turn(identity, env, outbox, packet) {
            return;
        }
        while let Some(kept) = self.stash.take(self.expected) {
            let Ok(packet) = Packet::parse(&kept) else { break };
            if !self.execute_in_turn(identity, env, outbox, &packet) {
                return;
            }
        }
        if !self.stash.is_empty() {
            self.report_missing(env);
        }
    }

    /// A packet ahead of its turn: kept, and the missing one reported once.
    fn handle_early<M: Memory>(
        &mut self,
        env: &mut Environment<'_, M>,
        packet: &Packet<'_>,
        bytes: &[u8],
    ) {
        Counters::count(&env.counters.out_of_sequence_requests);
        self.has_met_loss = true;
        let psn = packet.bth().psn;
        let near = psn.since(self.expected) < AHEAD_MAX;
        let new = near && self.stash.keep(self.expected, psn, bytes);
        // A packet that comes early a second time and asks for an answer is the peer's probe: the
        // first report was lost.
        let probed = !new && packet.bth().ack_request && self.told == Told::Missing;
        if self.told == Told::Nothing || probed {
            self.report_missing(env);
        }
    }

    fn report_missing<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        self.told = Told::Missing;
        Counters::count(&env.counters.sequence_naks_sent);
        self.queue_nak(Syndrome::Nak(NakCode::SequenceError));
    }

    /// Executes the expected request; false if the next one cannot follow.
    fn execute_in_turn<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        packet: &Packet<'_>,
    ) -> bool {
        match self.execute(identity, env, outbox, packet) {
            Executed::Yes => {
                self.told = Told::Nothing;
                true
            }
            Executed::NotReady => {
                self.told = Told::NotReady;
                Counters::count(&env.counters.rnr_naks_sent);
                self.queue_nak(Syndrome::RnrNak { timer: identity.min_rnr_timer });
                false
            }
            Executed::Refused(code, cause) => {
                let (counter, event) = if code == NakCode::RemoteAccessError {
                    (&env.counters.access_errors, Event::AccessError)
                } else {
                    (&env.counters.invalid_requests, Event::RequestError)
                };
                Counters::count(counter);
                self.queue_nak(Syndrome::Nak(code));
                if let Some(cause) = cause {
                    outbox.record(identity.refused(status_at_peer(code), cause, packet));
                }
                outbox.failed = true;
                outbox.events.push_back(event);
                false
            }
        }
    }
}

/// How the peer's work ends that is refused like this (IBA 9.7.5.2.4).
fn status_at_peer(code: NakCode) -> Status {
    match code {
        NakCode::RemoteAccessError => Status::RemoteAccessError,
        NakCode::RemoteOperationalError => Status::RemoteOperationError,
        _ => Status::RemoteInvalidRequest,
    }
}
