//! Batches on their way out: a pool of them, and the backlog that waits while the network is
//! full.

use crate::facade::{Facade, Flag, Mutex};
use crate::port::{Port, Sent};
use crate::queue_pair::QueuePairHandle;
use std::collections::VecDeque;
use std::sync::Arc;

/// Where packets leave the driver.
pub(crate) struct Outlet<P: Port, S: Facade> {
    pool: S::Mutex<Vec<P::Outgoing>>,
    backlog: S::Mutex<Backlog<P, S>>,
    /// There is a backlog: nobody sends past it.
    blocked: S::Flag,
}

struct Backlog<P: Port, S: Facade> {
    batches: VecDeque<P::Outgoing>,
    /// Queue pairs that have more to send when the backlog is gone.
    starved: Vec<Arc<QueuePairHandle<P::Signal, S>>>,
}

/// No more idle batches than this are kept.
const POOL_MAX: usize = 8;

impl<P: Port, S: Facade> Outlet<P, S> {
    pub(crate) fn new() -> Self {
        Self {
            pool: S::Mutex::new(Vec::with_capacity(POOL_MAX)),
            backlog: S::Mutex::new(Backlog { batches: VecDeque::new(), starved: Vec::new() }),
            blocked: S::Flag::new(),
        }
    }

    /// An empty batch.
    pub(crate) fn batch(&self, port: &P) -> P::Outgoing {
        let pooled = self.pool.lock().pop();
        pooled.unwrap_or_else(|| port.new_outgoing())
    }

    /// Gives an empty batch back.
    pub(crate) fn give_back(&self, batch: P::Outgoing) {
        let mut pool = self.pool.lock();
        if pool.len() < POOL_MAX {
            pool.push(batch);
        }
    }

    /// Whether nothing may be sent now.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.is_up()
    }

    /// Sends a batch, which is empty afterwards; what the network does not take now waits. False
    /// if something waits.
    pub(crate) fn send(&self, port: &P, batch: &mut P::Outgoing) -> bool {
        if port.is_empty(batch) {
            return !self.is_blocked();
        }
        if !self.is_blocked() && port.send(batch) == Sent::All {
            return true;
        }
        let rest = core::mem::replace(batch, self.batch(port));
        let begins = {
            let mut backlog = self.backlog.lock();
            backlog.batches.push_back(rest);
            let begins = !self.blocked.is_up();
            self.blocked.raise();
            begins
        };
        if begins {
            // Who sleeps until packets come has to wait for room as well now.
            port.wake();
        }
        false
    }

    /// Remembers a queue pair that has more to send. False if the backlog has gone meanwhile: it
    /// can send now, and nobody would come back to it.
    pub(crate) fn starve(&self, queue_pair: &Arc<QueuePairHandle<P::Signal, S>>) -> bool {
        let mut backlog = self.backlog.lock();
        if !self.blocked.is_up() {
            return false;
        }
        let known = backlog.starved.iter().any(|other| Arc::ptr_eq(other, queue_pair));
        if !known {
            backlog.starved.push(Arc::clone(queue_pair));
        }
        true
    }

    /// Tries to send the backlog. When it is gone, returns who has more to send.
    pub(crate) fn unblock(&self, port: &P) -> Vec<Arc<QueuePairHandle<P::Signal, S>>> {
        if !self.is_blocked() {
            return Vec::new();
        }
        let mut backlog = self.backlog.lock();
        while let Some(batch) = backlog.batches.front_mut() {
            if port.send(batch) == Sent::Full {
                return Vec::new();
            }
            if let Some(batch) = backlog.batches.pop_front() {
                self.give_back(batch);
            }
        }
        self.blocked.take();
        core::mem::take(&mut backlog.starved)
    }
}
