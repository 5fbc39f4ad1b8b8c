//! The asynchronous events of a run: which may come, how often, and which must have come.

use crate::world::World;
use converb_driver::{AsyncEvent, Listener};
use converb_engine::iba::Event;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Listens to all drivers of a run.
pub struct Events {
    world: Arc<World>,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Of shared receive queues, by owner.
    limits: BTreeMap<u64, Limit>,
    /// Which queue pairs told that they take no more receives, and how often.
    last_receives: BTreeMap<u64, u32>,
}

#[derive(Clone, Copy, Default)]
struct Limit {
    armed: u32,
    raised: u32,
    /// Receives that had been posted when it was armed last.
    posted_before: usize,
}

/// How a shared receive queue was left.
pub struct Left {
    /// Its owner.
    pub owner: usize,
    /// The limit that was armed each time.
    pub limit: usize,
    /// Receives that were posted.
    pub posted: usize,
    /// Those that completed.
    pub done: usize,
    /// Those that may have been taken besides, at most.
    pub kept: usize,
    /// Whether all had been posted before the first was taken.
    pub is_ready_early: bool,
}

impl Events {
    /// A listener that ends the run when an event comes that should not.
    pub fn new(world: &Arc<World>) -> Self {
        Self { world: Arc::clone(world), counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit of a shared queue, into which so many receives were posted, is about to be armed.
    pub fn arm(&self, owner: usize, posted: usize) {
        let mut counts = self.counts();
        let limit = counts.limits.entry(owner as u64).or_default();
        limit.armed += 1;
        limit.posted_before = posted;
    }

    /// Whether the event of the last arming has come.
    pub fn has_come(&self, owner: usize) -> bool {
        let limit = self.counts().limits.get(&(owner as u64)).copied().unwrap_or_default();
        limit.armed == limit.raised
    }

    /// Checks that the limit event of a shared queue came if it had to, and only if it could.
    ///
    /// # Errors
    /// When that is not so.
    pub fn check_limit(&self, left: &Left) -> Result<(), String> {
        let Some(limit) = self.counts().limits.get(&(left.owner as u64)).copied() else {
            return Ok(());
        };
        // One that was posted after the arming was taken, so one was taken after it; and no take
        // left more than there are now.
        let was_taken = left.done > limit.posted_before;
        let is_low = left.posted - left.done < left.limit;
        if limit.raised < limit.armed && was_taken && is_low {
            return Err(format!(
                "the shared queue of end {} has {} receives, but its limit event at {} never came",
                left.owner,
                left.posted - left.done,
                left.limit
            ));
        }
        let was_never_low =
            left.is_ready_early && left.posted.saturating_sub(left.done + left.kept) >= left.limit;
        if limit.raised != 0 && was_never_low {
            return Err(format!(
                "the shared queue of end {} never had fewer than {} receives, but its limit event \
                 came",
                left.owner, left.limit
            ));
        }
        Ok(())
    }

    /// Whether a queue pair told of its last receive.
    pub fn has_failed(&self, end: usize) -> bool {
        self.counts().last_receives.contains_key(&(end as u64))
    }

    /// Checks that a queue pair told of its last receive just if it takes from a shared queue and
    /// has failed.
    ///
    /// # Errors
    /// When it did not.
    pub fn check_last_receive(&self, end: usize, must: bool) -> Result<(), String> {
        let count = self.counts().last_receives.get(&(end as u64)).copied().unwrap_or(0);
        if count == u32::from(must) {
            return Ok(());
        }
        Err(format!("end {end} told {count} times of its last receive, not {}", u32::from(must)))
    }
}

impl Listener for Events {
    fn raise(&self, event: AsyncEvent) {
        self.world.log(|| format!("{event:?}"));
        match event {
            AsyncEvent::CompletionQueueError { .. } => {
                self.world.fail("a completion queue with room for everything overran".into());
            }
            AsyncEvent::ReceiveLimitReached { cookie } => {
                let limit = {
                    let mut counts = self.counts();
                    let limit = counts.limits.entry(cookie).or_default();
                    limit.raised += 1;
                    *limit
                };
                if limit.raised > limit.armed {
                    self.world.fail(format!(
                        "the limit event of the shared queue of end {cookie} came {} times, but \
                         it was armed {} times",
                        limit.raised, limit.armed
                    ));
                }
            }
            AsyncEvent::QueuePair { cookie, event: Event::LastReceiveReached } => {
                *self.counts().last_receives.entry(cookie).or_default() += 1;
            }
            AsyncEvent::QueuePair { .. } => {}
        }
    }
}
