//! In which order a program is told, and what it may decide when: the state machines of IBA 12.9 as
//! a program sees them.

use super::{Conversation, Model, Phase};
use crate::connections::process::Who;
use converb_cm::connection::Event;

/// What a program decides about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// To accept, with REP.
    Accept,
    /// To refuse, with REJ.
    Refuse,
    /// To be ready, with RTU.
    Ready,
    /// To end it, with DREQ.
    End,
    /// To agree that it ends, with DREP.
    Agree,
}

impl Phase {
    /// What the connection becomes by a decision; `None` if that decision is none to take.
    pub fn after(self, decision: Decision) -> Option<Self> {
        use Phase as P;
        match (self, decision) {
            (P::Undecided, Decision::Accept) => Some(P::Accepted),
            (P::Asking | P::Answered | P::Undecided | P::Accepted, Decision::Refuse) => {
                Some(P::Over)
            }
            (P::Answered, Decision::Ready) => Some(P::Connected),
            (P::Connected, Decision::End) => Some(P::Ending),
            (P::PeerEnding, Decision::Agree) => Some(P::Resting),
            _ => None,
        }
    }

    /// What it becomes by what the program is told; `None` if that must not come now.
    fn told(self, event: &Event, is_stale: bool) -> Option<Self> {
        use Phase as P;
        match (self, event) {
            (P::Asking, Event::Replied(_)) => Some(P::Answered),
            (P::Asking | P::Answered | P::Undecided | P::Accepted, Event::Rejected(_)) => {
                Some(P::Over)
            }
            // Only who has sent something waits for an answer.
            (P::Asking | P::Accepted, Event::Unreachable) => Some(P::Over),
            (P::Accepted, Event::Ready(_)) => Some(P::Connected),
            // Who ends a connection had one, so its RTU got lost.
            (P::Accepted | P::Connected, Event::DisconnectRequested(_)) => Some(P::PeerEnding),
            // One that was ready too early is refused with all that belongs to an end.
            (P::Connected | P::PeerEnding, Event::Rejected(_)) => Some(P::Resting),
            (P::Ending, Event::Disconnected(_)) => Some(P::Resting),
            (P::Connected, Event::Disconnected(_)) if is_stale => Some(P::Resting),
            (P::Resting, Event::TimeWaitOver) => Some(P::Over),
            _ => None,
        }
    }
}

impl Model {
    /// A program has decided, and was told whether that fits.
    ///
    /// # Errors
    /// It was told the wrong thing.
    pub fn decided(
        &mut self,
        number: usize,
        decision: Decision,
        is_done: bool,
        now: u64,
    ) -> Result<(), String> {
        let conversation = &self.conversations[number];
        let next = conversation.phase.after(decision);
        // What has happened meanwhile may forbid it, which the program does not know yet.
        let is_unknown = self.is_behind(conversation) || conversation.is_stale;
        if next.is_some() != is_done && !(next.is_some() && is_unknown) {
            let said = if is_done { "done" } else { "not done" };
            return Err(format!("{decision:?} about #{number} is {said}: {conversation:?}"));
        }
        if let (Some(next), true) = (next, is_done) {
            self.turn(number, next, now);
        }
        Ok(())
    }

    /// A program lets go of a connection.
    pub fn releases(&mut self, number: usize, now: u64) {
        self.turn(number, Phase::Released, now);
    }

    /// A program is told of a connection.
    ///
    /// # Errors
    /// It must not be told that, or not now.
    pub fn happens(&mut self, who: Who, id: u32, event: &Event, now: u64) -> Result<usize, String> {
        let Some(number) = self.named(who, id) else {
            return Err(format!("{who} is told of a connection that it does not know: {event:?}"));
        };
        let conversation = &self.conversations[number];
        let Some(next) = conversation.phase.told(event, conversation.is_stale) else {
            return Err(format!("#{number} is told {event:?}, but it is {conversation:?}"));
        };
        self.check_patience(number, event, now)?;
        self.check_peer(number, event)?;
        self.turn(number, next, now);
        Ok(number)
    }

    /// A connection enters its next phase.
    pub(super) fn turn(&mut self, number: usize, next: Phase, now: u64) {
        let conversation = &mut self.conversations[number];
        conversation.phase = next;
        conversation.was_connected |= next == Phase::Connected;
        if let Some(open) = conversation
            .listener
            .filter(|_| next != Phase::Undecided)
            .and_then(|listener| self.listeners.get_mut(&(conversation.who, listener)))
        {
            open.waiting.remove(&number);
        }
        self.wait_in_phase(number, now);
    }

    pub(super) fn is_behind(&self, conversation: &Conversation) -> bool {
        self.behind.contains(&conversation.who)
    }
}
