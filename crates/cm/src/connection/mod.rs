//! One end of a connection, from its first message to the end of TIMEWAIT (IBA 12.9).
//!
//! ```text
//!        active.rs                              passive.rs
//!   RequestSent      ------- REQ ------->   RequestReceived, until the program decides
//!   ReplyReceived    <------ REP --------   ReplySent
//!   Established      ------- RTU ------->   Established
//!
//!        ending.rs, either side
//!   DisconnectSent   ------- DREQ ------>   DisconnectReceived, until the program agrees
//!   TimeWait         <------ DREP -------   TimeWait
//!
//!        refusing.rs
//!   Closed           <------ REJ --------   Refused, while the REQ may come again
//! ```
//!
//! A connection is a value: it is given messages, the program's decisions and the time, and leaves
//! messages and events in an [`Outbox`]. What can happen twice, because a message got lost or came
//! twice, is answered as the first time.

mod active;
mod ending;
mod passive;
mod refusing;
#[cfg(test)]
mod tests;
mod timing;

use crate::exchange::{Due, Exchange};
use crate::mad::{Header, MAD_SIZE};
use crate::message::{
    AdditionalInformation, DisconnectReply, Message, MessageMraed, PrivateData, Reason,
    ReceiptAcknowledgment, Reject, Reply,
};
use crate::planted::{self, Planted};
use converb_engine::Time;
use converb_wire::{Qpn, ack_timeout};
use core::time::Duration;
use timing::Timing;

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Our name for it.
    local_id: u32,
    /// The peer's, 0 until it is known.
    remote_id: u32,
    /// Of the message that began it, which the answers repeat.
    transaction_id: u64,
    local_qpn: Qpn,
    remote_qpn: Qpn,
    timing: Timing,
    /// After how long the peer sends its REQ again; `None` if the REQ was ours.
    peer_interval: Option<Duration>,
    /// Whether the peer was told to wait longer, and asks again late if our answer is lost.
    has_asked_for_time: bool,
    /// When that answer is sent again unasked, and how often it was.
    repeat: Option<(Time, u32)>,
    state: State,
    /// The program has let go of it: it ends by itself, and nobody is told.
    is_released: bool,
}

#[derive(Clone, Debug)]
enum State {
    RequestSent(Exchange),
    RequestReceived,
    ReplyReceived,
    ReplySent(Exchange),
    /// With the RTU, if it was ours, for a peer that has not got it.
    Established(Option<Box<[u8; MAD_SIZE]>>),
    DisconnectSent(Exchange),
    DisconnectReceived {
        transaction_id: u64,
    },
    /// With the DREP, if it was ours.
    TimeWait {
        until: Time,
        answer: Option<Box<[u8; MAD_SIZE]>>,
    },
    /// There is no connection, but the REQ may come again: with the REJ to answer it.
    Refused {
        until: Time,
        answer: Box<[u8; MAD_SIZE]>,
    },
    Closed,
}

/// What a connection leaves to be done.
#[derive(Debug, Default)]
pub struct Outbox {
    /// To be sent to the peer, in this order.
    pub messages: Vec<[u8; MAD_SIZE]>,
    /// To be told to the program, in this order.
    pub events: Vec<Event>,
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer has accepted (REP): it waits for [`Connection::ready`].
    Replied(Reply),
    /// The peer is ready, too (RTU, or the first packet): there is a connection.
    Ready(PrivateData<224>),
    /// The peer has refused, or has given up (REJ): there is no connection.
    Rejected(Reject),
    /// The peer does not answer: there is no connection.
    Unreachable,
    /// The peer ends the connection (DREQ): it waits for [`Connection::confirm_disconnect`].
    DisconnectRequested(PrivateData<220>),
    /// The connection that we ended has ended for the peer, too, or that does not answer.
    Disconnected(PrivateData<224>),
    /// Packets of the connection are gone from the network: its queue pair may connect anew.
    TimeWaitOver,
}

/// A decision that does not fit the state of the connection, which something else has changed
/// meanwhile. `EINVAL` of rdma_cm's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongState;

/// What is to be said for a process that is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Testament {
    /// Nothing.
    None,
    /// REJ.
    Reject,
    /// DREQ.
    Disconnect,
}

/// What a peer is asked to wait while the program decides: 17 s (MRA).
const SERVICE_TIMEOUT: u8 = 22;
/// An answer to who was asked to wait is sent again after this, and four and sixteen times that.
const REPEAT_AFTER: Duration = Duration::from_millis(50);
const REPEATS_MAX: u32 = 3;
impl Connection {
    /// Our name for the connection.
    pub fn local_id(&self) -> u32 {
        self.local_id
    }

    /// The peer's name for it, 0 while that is not known.
    pub fn remote_id(&self) -> u32 {
        self.remote_id
    }

    /// The peer's queue pair, 0 while it is not known.
    pub fn remote_qpn(&self) -> Qpn {
        self.remote_qpn
    }

    /// Whether nothing more will happen.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Of the message that began it.
    pub fn transaction_id(&self) -> u64 {
        self.transaction_id
    }

    /// Whether the peer has asked, and the program has not decided.
    pub fn is_undecided(&self) -> bool {
        matches!(self.state, State::RequestReceived)
    }

    /// Whether the peer's queue pair takes part in it now.
    pub fn holds_queue_pair(&self) -> bool {
        !matches!(
            self.state,
            State::Closed | State::Refused { .. } | State::TimeWait { .. } | State::RequestSent(_)
        )
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn deadline(&self) -> Time {
        let repeat = self.repeat.map_or(Time::NEVER, |(time, _)| time);
        repeat.min(self.deadline_of_state())
    }

    fn deadline_of_state(&self) -> Time {
        match &self.state {
            State::RequestSent(exchange)
            | State::ReplySent(exchange)
            | State::DisconnectSent(exchange) => exchange.deadline(),
            State::TimeWait { until, .. } | State::Refused { until, .. } => *until,
            State::RequestReceived
            | State::ReplyReceived
            | State::Established(_)
            | State::DisconnectReceived { .. }
            | State::Closed => Time::NEVER,
        }
    }

    /// A message has come that names this connection, or a REQ that came before.
    pub fn handle(&mut self, header: &Header, message: &Message, now: Time, out: &mut Outbox) {
        match message {
            Message::Request(_) => self.handle_duplicate(out),
            Message::Reply(reply) => self.handle_reply(reply, out),
            Message::ReadyToUse(ready) => self.handle_ready(ready.private_data, out),
            Message::Reject(reject) => self.handle_reject(reject, now, out),
            Message::ReceiptAcknowledgment(more_time) => self.handle_more_time(more_time, now),
            Message::DisconnectRequest(request) => {
                self.handle_disconnect(header.transaction_id, request, now, out);
            }
            Message::DisconnectReply(reply) => self.handle_disconnected(reply, now, out),
            Message::ServiceRequest(_)
            | Message::ServiceReply(_)
            | Message::LoadAlternatePath(_)
            | Message::AlternatePathResponse(_) => {}
        }
    }

    /// Does what is due.
    pub fn expire(&mut self, now: Time, out: &mut Outbox) {
        self.repeat_answer(now, out);
        let (State::RequestSent(exchange)
        | State::ReplySent(exchange)
        | State::DisconnectSent(exchange)) = &mut self.state
        else {
            self.forget(now, out);
            return;
        };
        match exchange.due(now) {
            Due::Later(_) => {}
            Due::Again(mad) => out.messages.push(*mad),
            Due::GivenUp => self.give_up(now, out),
        }
    }

    /// Sends an answer again that the peer does not ask for, since it was told to wait.
    fn repeat_answer(&mut self, now: Time, out: &mut Outbox) {
        let Some((_, times)) = self.repeat.filter(|(due, _)| *due <= now) else { return };
        let (State::Established(Some(answer)) | State::Refused { answer, .. }) = &self.state else {
            self.repeat = None;
            return;
        };
        out.messages.push(**answer);
        self.repeat =
            (times < REPEATS_MAX).then(|| (now + REPEAT_AFTER * 4u32.pow(times), times + 1));
    }

    /// An answer is on its way whose loss the peer would notice late.
    fn begin_repeating(&mut self, now: Time) {
        if self.has_asked_for_time {
            self.repeat = Some((now + REPEAT_AFTER, 1));
        }
    }

    /// The end of TIMEWAIT, or of what is like it.
    fn forget(&mut self, now: Time, out: &mut Outbox) {
        match self.state {
            State::TimeWait { until, .. } if until <= now => {
                self.state = State::Closed;
                self.tell(Event::TimeWaitOver, out);
            }
            State::Refused { until, .. } if until <= now => self.state = State::Closed,
            _ => {}
        }
    }

    /// The peer does not answer.
    fn give_up(&mut self, now: Time, out: &mut Outbox) {
        if let State::DisconnectSent(_) = self.state {
            self.enter_time_wait(None, now);
            self.tell(Event::Disconnected(PrivateData::EMPTY), out);
            return;
        }
        // It may have got what we sent, and be waiting for us.
        self.send_reject(Reason::TIMEOUT, out);
        self.close(Reason::TIMEOUT, now);
        self.tell(Event::Unreachable, out);
    }

    /// MRA: the peer has got our message, and needs more time.
    fn handle_more_time(&mut self, message: &ReceiptAcknowledgment, now: Time) {
        let (State::RequestSent(exchange) | State::ReplySent(exchange)) = &mut self.state else {
            return;
        };
        exchange.prolong(ack_timeout(message.service_timeout).unwrap_or_default(), now);
    }

    /// The program lets go of the connection, whatever its state: the peer is told, and what there
    /// is to do is done without further events.
    pub fn release(&mut self, now: Time, out: &mut Outbox) {
        self.is_released = true;
        let reason = match self.state {
            State::RequestSent(_) => Reason::TIMEOUT,
            _ => Reason::CONSUMER_REJECT,
        };
        // In every other state one of these is nothing.
        let _ = self.reject(reason, AdditionalInformation::EMPTY, PrivateData::EMPTY, now, out);
        let _ = self.disconnect(PrivateData::EMPTY, now, out);
        let _ = self.confirm_disconnect(PrivateData::EMPTY, now, out);
    }

    /// What somebody else has to tell the peer if the process ends now, where the peer has no message
    /// to send again that would be answered: what it would have said itself on letting go, or has said
    /// already.
    pub fn last_words(&self, now: Time) -> Option<[u8; MAD_SIZE]> {
        match &self.state {
            State::DisconnectSent(exchange) => Some(*exchange.mad()),
            State::ReplySent(_) | State::Established(_) => {
                let mut out = Outbox::default();
                self.clone().release(now, &mut out);
                out.messages.pop()
            }
            _ => None,
        }
    }

    /// Of which kind [`last_words`](Self::last_words) would be: they change when this does.
    pub(crate) fn testament(&self) -> Testament {
        match &self.state {
            State::ReplySent(_) => Testament::Reject,
            State::DisconnectSent(_) | State::Established(_) => Testament::Disconnect,
            _ => Testament::None,
        }
    }

    fn ask_for_time(&self, message_mraed: MessageMraed, out: &mut Outbox) {
        let message = ReceiptAcknowledgment {
            local_communication_id: self.local_id,
            remote_communication_id: self.remote_id,
            message_mraed,
            service_timeout: SERVICE_TIMEOUT,
            private_data: PrivateData::EMPTY,
        };
        out.messages.push(Message::ReceiptAcknowledgment(message).datagram(self.transaction_id));
    }

    /// Sends a message until it is answered.
    fn exchange(&self, message: &Message, tid: u64, now: Time, out: &mut Outbox) -> Exchange {
        let mad = message.datagram(tid);
        out.messages.push(mad);
        Exchange::begin(Box::new(mad), self.timing.interval, self.timing.retries, now)
    }

    fn enter_time_wait(&mut self, answer: Option<[u8; MAD_SIZE]>, now: Time) {
        let until = now + self.timing.time_wait;
        self.state = State::TimeWait { until, answer: answer.map(Box::new) };
    }

    fn tell(&self, event: Event, out: &mut Outbox) {
        if !self.is_released || planted::is(Planted::ReleasedTells) {
            out.events.push(event);
        }
    }

    fn disconnect_reply(&self, private_data: PrivateData<224>, tid: u64) -> [u8; MAD_SIZE] {
        let reply = DisconnectReply {
            local_communication_id: self.local_id,
            remote_communication_id: self.remote_id,
            private_data,
        };
        Message::DisconnectReply(reply).datagram(tid)
    }
}
