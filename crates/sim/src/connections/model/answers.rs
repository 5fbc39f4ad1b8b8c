//! What a message that comes must be answered with: each one that comes again as the first time,
//! and what means nobody so that nobody waits for it.

use super::{Conversation, Model, Phase};
use crate::connections::process::Who;
use crate::connections::text;
use converb_cm::message::{Message, Reply, Request};

/// What a process must answer a message with: the name of a message, if there must be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected(Option<&'static str>);

impl Expected {
    /// Looks at what the process has sent.
    ///
    /// # Errors
    /// The answer is not there.
    pub fn check(self, who: Who, message: &Message, said: &[&'static str]) -> Result<(), String> {
        let name = text::name(message);
        match self.0 {
            Some(answer) if !said.contains(&answer) => {
                Err(format!("{who} answers {name} with {said:?} instead of {answer}: {message:?}"))
            }
            _ => Ok(()),
        }
    }
}

/// Which end has asked, as its program writes into private data.
pub fn number_in(private_data: &[u8]) -> Option<usize> {
    let bytes = private_data.first_chunk()?;
    (u32::from_be_bytes(*bytes) as usize).checked_sub(1)
}

/// What a program writes into private data to say which end it is.
pub fn number_out(number: usize) -> [u8; 4] {
    (number as u32 + 1).to_be_bytes()
}

/// A message on its way to a process.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// To whom.
    pub who: Who,
    /// From which host.
    pub from: usize,
    /// What.
    pub message: &'a Message,
    /// Which of the process's listeners it concerns, if it asks for a service.
    pub listener: Option<u32>,
    /// When.
    pub now: u64,
}

impl Model {
    /// A message is about to be handed to a process.
    pub fn comes(&mut self, delivery: &Delivery<'_>) -> Expected {
        let Delivery { who, from, message, now, .. } = *delivery;
        let is_known = !self.behind.contains(&who);
        let answer = match message {
            Message::Request(request) => self.request_comes(delivery, request),
            Message::ServiceRequest(request) => {
                self.question_comes(who, delivery.listener, (from, request.request_id), now)
            }
            _ => message.communication_ids().and_then(|(theirs, ours)| {
                let number = self.named(who, ours)?;
                let is_peer = self.is_peer(number, from, theirs);
                if let (Message::ReceiptAcknowledgment(more_time), true) = (message, is_peer) {
                    self.is_asked_for_time(number, more_time.service_timeout, now);
                }
                answer_to(&self.conversations[number], message, is_peer)
            }),
        };
        Expected(answer.filter(|_| is_known))
    }

    /// Whether a message can be from the other end, which calls itself so.
    fn is_peer(&self, number: usize, from: usize, theirs: u32) -> bool {
        let conversation = &self.conversations[number];
        let is_named = |peer: usize| self.conversations[peer].id == theirs;
        conversation.peer_host == from && conversation.peer.is_none_or(is_named)
    }

    fn request_comes(
        &mut self,
        delivery: &Delivery<'_>,
        request: &Request,
    ) -> Option<&'static str> {
        let Delivery { who, from, .. } = *delivery;
        let asking = number_in(request.private_data.as_bytes())?;
        if let Some(before) = self.asked(who, asking) {
            return match self.conversations[before].phase {
                Phase::Undecided => Some("MRA"),
                Phase::Accepted => Some("REP"),
                _ => None,
            };
        }
        let qpn = request.local_qpn.value();
        let holds = |it: &&mut Conversation| {
            it.who == who && it.peer_host == from && it.peer_qpn == qpn && it.phase != Phase::Over
        };
        let mut is_held = false;
        let mut answer = None;
        for conversation in self.conversations.iter_mut().filter(holds) {
            conversation.is_stale = true;
            is_held |= conversation.phase != Phase::Resting;
            if !matches!(conversation.phase, Phase::Resting | Phase::Released | Phase::Dead) {
                answer = Some("REJ");
            }
        }
        self.listener_is_asked(delivery, asking, is_held);
        answer
    }

    /// A REQ that nothing stands in the way of must ask the program, if its listener has room.
    fn listener_is_asked(&mut self, delivery: &Delivery<'_>, asking: usize, is_held: bool) {
        let Delivery { who, listener, .. } = *delivery;
        let Some(listener) = listener else { return };
        let has_room = self.listeners.get(&(who, listener)).is_some_and(|open| open.has_room());
        if has_room && !is_held && !self.behind.contains(&who) {
            self.must_ask.insert((who, asking), listener);
        }
    }

    /// The last end of a process that the REQ of another end has made.
    pub(super) fn asked(&self, who: Who, asking: usize) -> Option<usize> {
        let is_it = |it: &Conversation| it.who == who && !it.is_active && it.peer == Some(asking);
        self.conversations.iter().rposition(is_it)
    }
}

impl super::Open {
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() + self.questions.len() < self.listener.backlog
    }
}

fn answer_to(it: &Conversation, message: &Message, is_peer: bool) -> Option<&'static str> {
    use Phase as P;
    match message {
        Message::Reply(reply) if is_peer => answer_to_reply(it, reply),
        Message::Reply(_) => Some("REJ"),
        Message::DisconnectRequest(request) => {
            let is_right = request.remote_qpn_or_eecn.value() == it.qpn || !is_peer;
            let has_ended = matches!(it.phase, P::Ending | P::Resting | P::Over | P::Released);
            (is_right && has_ended && it.qpn != 0).then_some("DREP")
        }
        _ => None,
    }
}

fn answer_to_reply(it: &Conversation, reply: &Reply) -> Option<&'static str> {
    let is_same = reply.local_qpn.value() == it.peer_qpn;
    match it.phase {
        Phase::Connected if it.is_active && is_same && !it.is_stale => Some("RTU"),
        Phase::Answered if is_same => Some("MRA"),
        Phase::Over => Some("REJ"),
        _ => None,
    }
}
