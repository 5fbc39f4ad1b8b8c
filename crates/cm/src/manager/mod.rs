//! All connections of a process: whose message is whose, what is due next, who is asked.
//!
//! `arrivals.rs` takes messages in, `identifiers.rs` gives names, `resolution.rs` is what programs
//! that speak by datagrams ask each other; here are a program's wishes and what comes of them.
//! Messages leave by [`Manager::take_message`], news by [`Manager::take_news`]; both are to be asked
//! after every other call. Who answers for processes that are not there, or no longer, finds
//! [`refuse_request`], [`answer_question`] and [`Manager::last_words`].

mod arrivals;
mod identifiers;
mod listener;
mod resolution;
#[cfg(test)]
mod tests;

pub use arrivals::refuse_request;
pub use identifiers::{IDENTIFIER_BITS, slot_of};
pub use listener::{Listener, Place};
pub use resolution::answer_question;

use crate::connection::{Connection, Event, Outbox, Testament, WrongState};
use crate::mad::MAD_SIZE;
use crate::message::{Request, ServiceReply, ServiceRequest};
use crate::planted::{self, Planted};
use converb_engine::{Address, AddressVector, Time};
use identifiers::Identifiers;
use listener::Listening;
use resolution::Resolution;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The connections and the listeners of a process.
#[derive(Debug)]
pub struct Manager {
    identifiers: Identifiers,
    /// By our communication ID.
    connections: BTreeMap<u32, Entry>,
    listeners: BTreeMap<u32, Listening>,
    next_listener: u32,
    /// What peers have asked for: by their address and communication ID.
    asked: BTreeMap<(Address, u32), u32>,
    /// Ours and those of peers.
    resolutions: BTreeMap<u32, Resolution>,
    /// Those of peers: by their address and request ID.
    questions: BTreeMap<(Address, u32), u32>,
    /// The peers' queue pairs that take part in connections, and in which. A peer that has forgotten
    /// one may have accepted another one with the same queue pair.
    queue_pairs: BTreeSet<(Address, u32, u32)>,
    /// When something is due, and for which connection.
    deadlines: BTreeSet<(Time, u32)>,
    /// The connections whose last words have changed.
    testaments: BTreeSet<u32>,
    messages: VecDeque<(AddressVector, Mad)>,
    news: VecDeque<News>,
    counters: Counters,
}

#[derive(Debug)]
struct Entry {
    connection: Connection,
    /// The way to the peer.
    path: AddressVector,
    /// As it is in the list of deadlines.
    deadline: Time,
    /// Whose backlog it counts in, until the program has decided.
    listener: Option<u32>,
    testament: Testament,
}

impl Entry {
    fn new(connection: Connection, path: AddressVector, listener: Option<u32>) -> Self {
        let (deadline, testament) = (Time::NEVER, Testament::None);
        Self { connection, path, deadline, listener, testament }
    }
}

/// A management datagram.
type Mad = [u8; MAD_SIZE];

/// What the program has to know.
#[derive(Debug)]
pub enum News {
    /// A peer asks for a connection.
    Requested {
        /// The listener.
        listener: u32,
        /// The connection's name, to decide about it.
        id: u32,
        /// What the peer says.
        request: Box<Request>,
        /// The way back to it.
        path: AddressVector,
    },
    /// A peer asks which queue pair serves by datagrams.
    Asked {
        /// The listener.
        listener: u32,
        /// The question's name, to answer it.
        id: u32,
        /// What the peer says.
        request: Box<ServiceRequest>,
        /// The way back to it.
        path: AddressVector,
    },
    /// What we have asked is answered, or the peer is silent.
    Resolved {
        /// The question.
        id: u32,
        /// The answer, if there is one.
        reply: Option<Box<ServiceReply>>,
    },
    /// Something has happened to a connection.
    Happened {
        /// The connection.
        id: u32,
        /// What.
        event: Event,
    },
}

impl News {
    /// The question that it is about, if it is about one.
    fn resolution(&self) -> Option<u32> {
        match self {
            Self::Asked { id, .. } | Self::Resolved { id, .. } => Some(*id),
            Self::Requested { .. } | Self::Happened { .. } => None,
        }
    }
}

/// What was made of the messages that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// All.
    pub messages: u64,
    /// Dropped: no messages that are known.
    pub malformed: u64,
    /// Dropped or refused: they name no connection.
    pub unknown: u64,
    /// Dropped: the listener's backlog was full.
    pub backlogged: u64,
    /// Refused: nobody listens.
    pub unserved: u64,
}

impl Manager {
    /// For the process with that slot. The same `random` gives the same names.
    pub fn new(slot: u16, random: u32) -> Self {
        Self {
            identifiers: Identifiers::new(slot, random),
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            next_listener: 0,
            asked: BTreeMap::new(),
            resolutions: BTreeMap::new(),
            questions: BTreeMap::new(),
            queue_pairs: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            testaments: BTreeSet::new(),
            messages: VecDeque::new(),
            news: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// A message to send, and the way; they are to leave in this order.
    pub fn take_message(&mut self) -> Option<(AddressVector, [u8; MAD_SIZE])> {
        self.messages.pop_front()
    }

    /// Something that the program has to know.
    pub fn take_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// What was made of the messages that came.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How many connections there are, in whatever state.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn deadline(&self) -> Time {
        self.deadlines.first().map_or(Time::NEVER, |&(deadline, _)| deadline)
    }

    /// Does what is due.
    pub fn expire(&mut self, now: Time) {
        while let Some(&(deadline, id)) = self.deadlines.first().filter(|(due, _)| *due <= now) {
            self.deadlines.remove(&(deadline, id));
            // It has another one afterwards, or none.
            if self.expire_resolution(id, now) {
                continue;
            }
            let _ = self.with(id, |connection, out| connection.expire(now, out));
        }
    }

    /// Tells of REQs from now on; the number is the listener's name.
    pub fn listen(&mut self, listener: Listener) -> u32 {
        self.next_listener = self.next_listener.wrapping_add(1);
        self.listeners.insert(self.next_listener, Listening { listener, waiting: 0 });
        self.next_listener
    }

    /// Tells no more. What it was told of stays.
    pub fn close_listener(&mut self, listener: u32) {
        self.listeners.remove(&listener);
        for entry in self.connections.values_mut() {
            entry.listener = entry.listener.filter(|&of| of != listener);
        }
    }

    /// Asks for a connection; the communication ID is filled in here, and is its name.
    ///
    /// # Errors
    /// `WrongState`: there are as many as there are names.
    pub fn connect(
        &mut self,
        request: Request,
        path: AddressVector,
        now: Time,
    ) -> Result<u32, WrongState> {
        let id = self.new_id()?;
        let request = Request { local_communication_id: id, ..request };
        let mut out = Outbox::default();
        let connection = Connection::request(request, transaction_id(id), now, &mut out);
        let entry = Entry::new(connection, path, None);
        self.connections.insert(id, entry);
        self.settle(id, out);
        Ok(id)
    }

    /// Does something with a connection: one of its own functions that decide something.
    ///
    /// # Errors
    /// There is no such connection (any more), or what the function says.
    pub fn decide(
        &mut self,
        id: u32,
        decision: impl FnOnce(&mut Connection, &mut Outbox) -> Result<(), WrongState>,
    ) -> Result<(), WrongState> {
        self.with(id, decision).ok_or(WrongState)?
    }

    /// The program lets go of a connection; see [`Connection::release`].
    pub fn release(&mut self, id: u32, now: Time) {
        let _ = self.with(id, |connection, out| connection.release(now, out));
        // Nobody is told of what has happened before, either.
        self.news.retain(|news| match news {
            News::Happened { id: of, .. } | News::Requested { id: of, .. } => *of != id,
            News::Asked { .. } | News::Resolved { .. } => true,
        });
    }

    /// What is to be said to peers in the name of a process that is no more, for each connection
    /// that it had made, or half made.
    pub fn last_words(&self, now: Time) -> Vec<(AddressVector, [u8; MAD_SIZE])> {
        let entries = self.connections.values();
        let words = |entry: &Entry| Some((entry.path, entry.connection.last_words(now)?));
        entries.filter_map(words).collect()
    }

    /// A connection whose [last words](Self::last_words) have changed, for who keeps them elsewhere, and
    /// what they are now.
    pub fn take_testament(&mut self, now: Time) -> Option<(u32, Option<(AddressVector, Mad)>)> {
        let id = self.testaments.pop_first()?;
        let entry = self.connections.get(&id);
        let words = entry.and_then(|it| Some((it.path, it.connection.last_words(now)?)));
        Some((id, words))
    }

    fn new_id(&mut self) -> Result<u32, WrongState> {
        let (connections, resolutions) = (&self.connections, &self.resolutions);
        let is_used = |id| connections.contains_key(&id) || resolutions.contains_key(&id);
        self.identifiers.take(is_used).ok_or(WrongState)
    }

    /// Takes a place in a listener's backlog, if there is one.
    fn take_place(&mut self, listener: u32) -> bool {
        let Some(listening) = self.listeners.get_mut(&listener) else { return false };
        if listening.waiting >= listening.listener.backlog {
            self.counters.backlogged += 1;
            return false;
        }
        listening.waiting += 1;
        true
    }

    fn with<T>(
        &mut self,
        id: u32,
        what: impl FnOnce(&mut Connection, &mut Outbox) -> T,
    ) -> Option<T> {
        let entry = self.connections.get_mut(&id)?;
        let mut out = Outbox::default();
        let result = what(&mut entry.connection, &mut out);
        self.settle(id, out);
        Some(result)
    }

    /// Takes over what a connection has left, and keeps all lists true to its state.
    fn settle(&mut self, id: u32, out: Outbox) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        self.messages.extend(out.messages.into_iter().map(|mad| (entry.path, mad)));
        self.news.extend(out.events.into_iter().map(|event| News::Happened { id, event }));
        let connection = &entry.connection;
        if !connection.is_undecided()
            && !planted::is(Planted::PlaceKept)
            && let Some(listening) =
                entry.listener.take().and_then(|listener| self.listeners.get_mut(&listener))
        {
            listening.waiting -= 1;
        }
        let deadline = connection.deadline();
        if entry.deadline != deadline || deadline < Time::NEVER {
            self.deadlines.remove(&(entry.deadline, id));
            entry.deadline = deadline;
            if deadline < Time::NEVER {
                self.deadlines.insert((deadline, id));
            }
        }
        let testament = connection.testament();
        if core::mem::replace(&mut entry.testament, testament) != testament {
            self.testaments.insert(id);
        }
        let (peer, number) = (entry.path.remote, entry.connection.remote_qpn().value());
        if entry.connection.holds_queue_pair() {
            self.queue_pairs.insert((peer, number, id));
        } else {
            self.queue_pairs.remove(&(peer, number, id));
        }
        if entry.connection.is_closed() {
            let asked = (entry.path.remote, entry.connection.remote_id());
            if self.asked.get(&asked) == Some(&id) {
                self.asked.remove(&asked);
            }
            self.connections.remove(&id);
        }
    }
}

/// The client of queue pair 1 that connection management is, in the high half of its transactions.
const CLIENT: u64 = 1;

pub(crate) fn transaction_id(id: u32) -> u64 {
    CLIENT << 32 | u64::from(id)
}
