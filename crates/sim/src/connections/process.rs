//! What runs in a slot: a process's manager and what its program remembers.

use super::plan::SECOND;
use crate::dice::Dice;
use converb_cm::manager::{Listener, Manager, Place};
use converb_cm::message::ServiceId;
use converb_engine::Address;
use core::fmt;

/// A process: its host, its slot, and how many had been on that host before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    /// The host.
    pub host: usize,
    /// The slot.
    pub slot: u16,
    /// How many processes the host had before.
    pub life: u32,
}

impl fmt::Display for Who {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {} in slot {} of host {}", self.life, self.slot, self.host)
    }
}

/// A process.
#[derive(Debug)]
pub struct Process {
    /// Who it is.
    pub who: Who,
    /// Its connections, as they are.
    pub manager: Manager,
    /// What it does next.
    pub dice: Dice,
    /// The listeners that its program has.
    pub listeners: Vec<(u32, Listener)>,
    /// When it will look at its deadlines.
    pub expires_at: u64,
    /// Whether it is about to read its news.
    pub reads: bool,
    /// Queue pairs that are in no connection, as far as the program knows.
    idle: Vec<u32>,
    next: u32,
}

/// How many queue pairs a slot has before the next one's begin.
const QUEUE_PAIRS: u32 = 1 << 14;

impl Process {
    /// A process that begins. Its queue pairs have the numbers that its predecessor's had.
    pub fn new(who: Who, mut dice: Dice) -> Self {
        let random = dice.next() as u32;
        Self {
            who,
            manager: Manager::new(who.slot, random),
            dice,
            listeners: Vec::new(),
            expires_at: u64::MAX,
            reads: false,
            idle: Vec::new(),
            next: (u32::from(who.slot) + 1) * QUEUE_PAIRS,
        }
    }

    /// A queue pair for a new connection.
    pub fn take_queue_pair(&mut self) -> u32 {
        if let Some(number) = self.idle.pop() {
            return number;
        }
        self.next += 1;
        self.next
    }

    /// A connection has ended that had this queue pair.
    pub fn give_back(&mut self, number: u32) {
        if number != 0 {
            self.idle.insert(0, number);
        }
    }

    /// Whether it listens for a service at an address.
    pub fn serves(&self, service: ServiceId, address: Address) -> bool {
        self.listener(service, address).is_some()
    }

    /// The listener that is told: one for the address before one for all.
    pub fn listener(&self, service: ServiceId, address: Address) -> Option<u32> {
        let of = |wanted: Place| {
            let is_it =
                |listener: &Listener| listener.service_id == service && listener.place == wanted;
            self.listeners.iter().find(|(_, listener)| is_it(listener)).map(|&(id, _)| id)
        };
        of(Place::One(address)).or_else(|| of(Place::All))
    }

    /// A pause before a decision: none, a moment, or longer than a peer waits unasked.
    pub fn ponder(&mut self) -> u64 {
        match self.dice.below(10) {
            0..4 => 0,
            4..7 => self.dice.below(SECOND / 5),
            7..9 => self.dice.below(5 * SECOND),
            _ => self.dice.below(60 * SECOND),
        }
    }
}
