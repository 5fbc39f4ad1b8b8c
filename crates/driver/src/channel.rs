//! Completion channels: the queue of events behind a descriptor that a program waits on.

use crate::facade::{Facade, Mutex};
use crate::port::Signal;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A completion channel (`ibv_create_comp_channel`). For each event the signal is raised once;
/// whoever sees it raised takes one event.
pub struct Channel<G: Signal, S: Facade> {
    signal: G,
    /// The cookies of the completion queues whose events wait.
    events: S::Mutex<VecDeque<u64>>,
    destroyed: AtomicBool,
}

impl<G: Signal, S: Facade> Channel<G, S> {
    /// A channel that raises `signal`.
    pub fn new(signal: G) -> Self {
        let events = S::Mutex::new(VecDeque::with_capacity(16));
        Self { signal, events, destroyed: AtomicBool::new(false) }
    }

    /// What it raises.
    pub fn signal(&self) -> &G {
        &self.signal
    }

    /// Takes the oldest event: the cookie of its completion queue. Call it once for each time
    /// the signal was seen raised.
    pub fn take_event(&self) -> Option<u64> {
        self.events.lock().pop_front()
    }

    /// Forgets the events of a completion queue that is destroyed; returns how many there were.
    /// Their signals stay raised; a waiter that finds no event waits again.
    pub fn forget(&self, cookie: u64) -> usize {
        let mut events = self.events.lock();
        let before = events.len();
        events.retain(|event| *event != cookie);
        before - events.len()
    }

    /// No more signals, for the descriptor is about to be closed.
    pub fn destroy(&self) {
        self.destroyed.store(true, Relaxed);
    }

    /// The lock, if it is free.
    pub(crate) fn try_hold(&self) -> Option<impl Sized + '_> {
        self.events.try_lock()
    }

    pub(crate) fn raise(&self, cookie: u64) {
        self.events.lock().push_back(cookie);
        if !self.destroyed.load(Relaxed) {
            self.signal.raise();
        }
    }
}
