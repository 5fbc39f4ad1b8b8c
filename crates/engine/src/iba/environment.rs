//! What a queue pair is handed for the length of one call: the time, memory, and what it shares.

use super::path::PathWindow;
use super::read_budget::ReadBudget;
use crate::Address;
use crate::counters::Counters;
use crate::memory::{KeyTable, Memory, ProtectionDomain};
use crate::time::Time;
use crate::work::ReceiveWork;
use converb_wire::Qpn;
use std::sync::Arc;

/// Where a responder finds posted receives: its own ring, or a shared one.
pub trait ReceiveSource {
    /// Takes the oldest receive into `work`; false if there is none.
    fn take(&mut self, work: &mut ReceiveWork) -> bool;

    /// How many receives this queue pair can count on, for end-to-end credits; `None` if they are
    /// shared.
    fn credits(&self) -> Option<usize>;

    /// Whether other queue pairs use them too.
    fn is_shared(&self) -> bool;
}

/// Finds the windows of paths, which queue pairs share.
pub trait PathFinder {
    /// The window of the path to the slot of queue pair `destination` at `remote`.
    fn find(&self, remote: Address, destination: Qpn) -> Arc<PathWindow>;
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
    /// The window of the path to the peer of a connection.
    pub path: &'a PathWindow,
    /// The windows of the paths that datagrams take.
    pub paths: &'a dyn PathFinder,
    /// How much READ data may be on its way to us.
    pub reads: &'a ReadBudget,
    /// What happened, in numbers.
    pub counters: &'a Counters,
    /// The queue pair's protection domain.
    pub domain: ProtectionDomain,
}
