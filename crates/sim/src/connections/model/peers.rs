//! What two ends say of each other.

use super::answers::number_in;
use super::{Conversation, Model, Phase, Waiting};
use crate::connections::process::Who;
use converb_cm::connection::Event;
use converb_cm::message::{MessageRejected, Reason, Reject, Reply, Request};

impl Model {
    /// The number that the next end will have.
    pub fn next(&self) -> usize {
        self.conversations.len()
    }

    /// A program asks for a connection.
    pub fn connects(&mut self, who: Who, id: u32, peer_host: usize, request: &Request, now: u64) {
        let number = self.begin(Conversation {
            who,
            id,
            is_active: true,
            peer_host,
            peer: None,
            qpn: request.local_qpn.value(),
            peer_qpn: 0,
            phase: Phase::Asking,
            is_stale: false,
            was_connected: false,
            is_freed: false,
            listener: None,
            waiting: Waiting::new(request, true),
        });
        self.wait_in_phase(number, now);
    }

    /// A program is asked for a connection.
    ///
    /// # Errors
    /// It has been asked before, or its listener had no room.
    pub fn is_asked(
        &mut self,
        who: Who,
        (listener, id): (u32, u32),
        peer_host: usize,
        request: &Request,
    ) -> Result<usize, String> {
        let peer = number_in(request.private_data.as_bytes());
        let Some(peer) = peer.filter(|&peer| peer < self.conversations.len()) else {
            return Err(format!("{who} is asked for what nobody has asked: {request:?}"));
        };
        if let Some(before) = self.asked(who, peer)
            && !self.is_asked_elsewhere(who, peer)
        {
            return Err(format!("{who} is asked twice by #{peer}, first as #{before}"));
        }
        if self.must_ask.remove(&(who, peer)).is_some_and(|wanted| wanted != listener) {
            return Err(format!("{who} is asked by #{peer} at the wrong listener {listener}"));
        }
        let number = self.begin(Conversation {
            who,
            id,
            is_active: false,
            peer_host,
            peer: Some(peer),
            qpn: 0,
            peer_qpn: request.local_qpn.value(),
            phase: Phase::Undecided,
            is_stale: false,
            was_connected: false,
            is_freed: false,
            listener: Some(listener),
            waiting: Waiting::new(request, false),
        });
        if let Some(open) = self.listeners.get_mut(&(who, listener)) {
            if !open.has_room() {
                return Err(format!("#{number} is beyond the backlog of listener {listener}"));
            }
            open.waiting.insert(number);
        }
        Ok(number)
    }

    /// Whether a REQ has also come to another process, which listened meanwhile: its MRA prolongs the
    /// peer's patience beyond what this one can know.
    fn is_asked_elsewhere(&self, who: Who, peer: usize) -> bool {
        let mut passive = self.conversations.iter().filter(|it| !it.is_active);
        passive.any(|it| it.peer == Some(peer) && it.who != who)
    }

    /// A program has a queue pair for a connection that it accepts.
    pub fn has_queue_pair(&mut self, number: usize, qpn: u32) {
        self.conversations[number].qpn = qpn;
    }

    /// Whether the peer's program may have sent packets: it has said that it is ready.
    pub fn may_hear(&self, number: usize) -> bool {
        let peer = self.conversations[number].peer;
        peer.is_some_and(|peer| {
            self.conversations[peer].was_connected && self.conversations[peer].peer == Some(number)
        })
    }

    /// Whether what an end is told agrees with what the other one has said.
    pub(super) fn check_peer(&mut self, number: usize, event: &Event) -> Result<(), String> {
        match event {
            Event::Replied(reply) => self.check_reply(number, reply),
            Event::Ready(_) => self.check_ready(number),
            Event::Rejected(reject) => self.check_end_of_peer(number, is_of_nobody(reject)),
            Event::DisconnectRequested(_) => self.check_end_of_peer(number, false),
            Event::Unreachable | Event::Disconnected(_) | Event::TimeWaitOver => Ok(()),
        }
    }

    fn check_reply(&mut self, number: usize, reply: &Reply) -> Result<(), String> {
        let peer = number_in(reply.private_data.as_bytes());
        let says = peer.and_then(|peer| self.conversations.get(peer));
        let is_true = says.is_some_and(|it| {
            it.peer == Some(number) && it.qpn == reply.local_qpn.value() && it.qpn != 0
        });
        if !is_true {
            return Err(format!("#{number} is answered by {peer:?}, which is {says:?}"));
        }
        let conversation = &mut self.conversations[number];
        conversation.peer = peer;
        conversation.peer_qpn = reply.local_qpn.value();
        Ok(())
    }

    fn check_ready(&self, number: usize) -> Result<(), String> {
        let conversation = &self.conversations[number];
        let peer = conversation.peer.map(|peer| &self.conversations[peer]);
        let agrees = peer.is_some_and(|it| {
            it.was_connected
                && it.peer == Some(number)
                && (it.qpn, it.peer_qpn) == (conversation.peer_qpn, conversation.qpn)
        });
        if agrees { Ok(()) } else { Err(format!("#{number} is connected, its peer is {peer:?}")) }
    }

    /// Who is told of an end has a peer that has ended it, if both know each other.
    fn check_end_of_peer(&self, number: usize, is_of_nobody: bool) -> Result<(), String> {
        let conversation = &self.conversations[number];
        let Some(peer) = conversation.peer.map(|peer| &self.conversations[peer]) else {
            return Ok(());
        };
        let both_know = peer.peer == Some(number) && !self.is_behind(peer) && !peer.is_stale;
        let is_alive = matches!(
            peer.phase,
            Phase::Undecided | Phase::Answered | Phase::Accepted | Phase::Connected
        );
        let is_early = conversation.phase == Phase::Asking && is_of_nobody;
        if both_know && is_alive && !is_early {
            return Err(format!(
                "#{number} is told of an end that its peer does not know: {peer:?}"
            ));
        }
        Ok(())
    }
}

/// Whether it is a REJ of somebody who has nothing to do with the connection: a copy of the REQ has
/// come to a host where meanwhile nobody, or somebody else, listens.
fn is_of_nobody(reject: &Reject) -> bool {
    reject.message_rejected == MessageRejected::REQUEST
        && matches!(reject.reason, Reason::INVALID_SERVICE_ID | Reason::STALE_CONNECTION)
}
