//! What a queue pair is handed for the length of one call: the time, memory, and what it shares.

use super::path::PathWindow;
use super::read_budget::ReadBudget;
use crate::counters::Counters;
use crate::memory::{KeyTable, Memory, ProtectionDomain};
use crate::time::Time;
use crate::work::ReceiveWork;

/// Where a responder finds posted receives: its own ring, or a shared one.
pub trait ReceiveSource {
    /// Takes the oldest receive into `work`; false if there is none.
    fn take(&mut self, work: &mut ReceiveWork) -> bool;

    /// How many receives this queue pair can count on, for end-to-end credits; `None` if they are
    /// shared.
    fn credits(&self) -> Option<usize>;
}

/// The world of one call. A borrow of `keys` is the guard that keeps regions alive.
pub struct Environment<'a, M: Memory> {
    /// Now.
    pub now: Time,
    /// Registered regions.
    pub keys: &'a KeyTable,
    /// The program's memory.
    pub memory: &'a M,
    /// Posted receives.
    pub receives: &'a mut dyn ReceiveSource,
    /// The window of the path to the peer.
    pub path: &'a PathWindow,
    /// How much READ data may be on its way to us.
    pub reads: &'a ReadBudget,
    /// What happened, in numbers.
    pub counters: &'a Counters,
    /// The queue pair's protection domain.
    pub domain: ProtectionDomain,
}
