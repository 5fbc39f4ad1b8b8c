//! What connection management promises to programs, slow and obvious: a list of conversations, each
//! with what its program knows of it, and checks of everything that is told, sent and left.
//!
//! - Each attempt to connect ends in one of established, rejected, unreachable, or the program lets
//!   go. What a program is told comes in an order that the two state machines of IBA 12.9 allow,
//!   each thing once, nothing after the last one, nothing after letting go (`order.rs`).
//! - Who gives up has asked as often as it was allowed to, and no earlier than a peer that wants
//!   more time has said. Every wait for a peer ends in time (`patience.rs`).
//! - A program is asked once for one attempt, and only while its listener has room. What comes
//!   again is answered as the first time; nobody is left without an answer (`answers.rs`).
//! - Who is told that a connection is ended or refused has a peer that has ended it, and both sides
//!   name the same two queue pairs (`peers.rs`).
//! - Questions are answered with what was said, or end in time (`questions.rs`).

mod answers;
mod order;
mod patience;
mod peers;
mod questions;

pub use answers::{Delivery, number_out};
pub use order::Decision;
pub use patience::Waiting;

use super::process::Who;
use converb_cm::manager::Listener;
use questions::{Name, Question};
use std::collections::{BTreeMap, BTreeSet};

/// What a program knows of its end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has asked.
    Asking,
    /// The peer has accepted, and it has not decided.
    Answered,
    /// A peer has asked, and it has not decided.
    Undecided,
    /// It has accepted, and the peer is not ready yet.
    Accepted,
    /// There is a connection.
    Connected,
    /// It has ended the connection, and the peer has not agreed.
    Ending,
    /// The peer has ended it, and it has not agreed.
    PeerEnding,
    /// The connection has ended, and its packets may still be under way.
    Resting,
    /// Nothing more happens.
    Over,
    /// It has let go, and is told no more.
    Released,
    /// The process has died.
    Dead,
}

/// One end of a connection, from the first that its program knows of it.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// Whose end.
    pub who: Who,
    /// Its name there.
    pub id: u32,
    /// Whether this end has asked.
    pub is_active: bool,
    /// The host of the other end.
    pub peer_host: usize,
    /// The other end, as far as it is known.
    pub peer: Option<usize>,
    /// Its queue pair, 0 before it has one.
    pub qpn: u32,
    /// The queue pair of the other end, 0 before it is known.
    pub peer_qpn: u32,
    /// What its program knows.
    pub phase: Phase,
    /// Whether the peer has asked anew with a queue pair that this one is connected to: it has
    /// forgotten this connection, which ends by itself.
    pub is_stale: bool,
    /// Whether there has ever been a connection.
    pub was_connected: bool,
    /// Whether its queue pair has been given to others.
    pub is_freed: bool,
    /// Who was told of it.
    pub listener: Option<u32>,
    /// How long it waits.
    pub waiting: Waiting,
}

/// A listener, and who waits for a decision of its program.
#[derive(Debug)]
struct Open {
    listener: Listener,
    waiting: BTreeSet<usize>,
    questions: BTreeSet<Name>,
}

/// The model of one run.
#[derive(Debug, Default)]
pub struct Model {
    conversations: Vec<Conversation>,
    /// By who has given the name.
    names: BTreeMap<(Who, u32), usize>,
    listeners: BTreeMap<(Who, u32), Open>,
    /// REQs that must ask a program, by its process and the asking end: and which listener.
    must_ask: BTreeMap<(Who, usize), u32>,
    questions: BTreeMap<Name, Question>,
    /// Processes whose programs may not know the newest.
    behind: BTreeSet<Who>,
    /// Conversations with a new limit to their patience.
    limited: Vec<usize>,
    checked: u64,
}

impl Model {
    /// How many conversations and questions there were.
    pub fn checked(&self) -> u64 {
        self.checked
    }

    /// One end of a connection.
    pub fn conversation(&self, number: usize) -> &Conversation {
        &self.conversations[number]
    }

    /// Those of a process whose phase is one of these.
    pub fn of(&self, who: Who, phases: &[Phase]) -> Vec<usize> {
        let all = self.names.range((who, 0)..=(who, u32::MAX)).map(|(_, &number)| number);
        all.filter(|&number| phases.contains(&self.conversations[number].phase)).collect()
    }

    /// The conversation that a process has given this name.
    pub fn named(&self, who: Who, id: u32) -> Option<usize> {
        self.names.get(&(who, id)).copied()
    }

    /// Something has happened in a process that its program may not know yet.
    pub fn falls_behind(&mut self, who: Who) {
        self.behind.insert(who);
    }

    /// Its program has read all news: what had to be asked has been asked.
    ///
    /// # Errors
    /// A request has vanished.
    pub fn catches_up(&mut self, who: Who) -> Result<(), String> {
        self.behind.remove(&who);
        match self.must_ask.range((who, 0)..=(who, usize::MAX)).next() {
            None => Ok(()),
            Some(((_, number), _)) => Err(format!(
                "{who} was not asked for the connection of #{number}, although there is room"
            )),
        }
    }

    /// Whether a program may not know the newest.
    pub fn lags(&self, who: Who) -> bool {
        self.behind.contains(&who)
    }

    /// Whether the queue pair of what is over is free; said once.
    pub fn frees(&mut self, number: usize) -> bool {
        !core::mem::replace(&mut self.conversations[number].is_freed, true)
    }

    /// A program listens.
    pub fn listens(&mut self, who: Who, id: u32, listener: Listener) {
        let open = Open { listener, waiting: BTreeSet::new(), questions: BTreeSet::new() };
        self.listeners.insert((who, id), open);
    }

    /// A program listens no more.
    pub fn closes(&mut self, who: Who, id: u32) {
        self.listeners.remove(&(who, id));
    }

    /// A process has died, and with it what it knew.
    pub fn dies(&mut self, who: Who) {
        for conversation in self.conversations.iter_mut().filter(|it| it.who == who) {
            conversation.phase = Phase::Dead;
            conversation.waiting = Waiting::default();
        }
        self.questions.values_mut().for_each(|question| question.dies(who));
        self.listeners.retain(|&(of, _), _| of != who);
        self.must_ask.retain(|&(of, _), _| of != who);
        self.behind.remove(&who);
    }

    fn begin(&mut self, conversation: Conversation) -> usize {
        let number = self.conversations.len();
        self.names.insert((conversation.who, conversation.id), number);
        self.conversations.push(conversation);
        self.checked += 1;
        number
    }

    /// What is still open when all programs have let go and all patience is at its end.
    ///
    /// # Errors
    /// Something is.
    pub fn check_end(&self) -> Result<(), String> {
        let is_over = |phase| matches!(phase, Phase::Over | Phase::Released | Phase::Dead);
        let open = self.conversations.iter().position(|it| !is_over(it.phase));
        if let Some(number) = open {
            return Err(format!("#{number} never ends: {:?}", self.conversations[number]));
        }
        self.questions.values().try_for_each(Question::check_end)
    }
}
