//! What a runtime knows of the processes that it was forked from, and has ready for its children.

use super::Runtime;
use converb_driver::{Journal, Port};
use converb_link::SharedJournal;
use converb_wire::Qpn;
use std::os::fd::OwnedFd;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};

/// So much may a process note for its children, and so much room it begins with at each fork.
const JOURNAL_BYTES: usize = 32 << 20;
const JOURNAL_ROOM: usize = 8 << 20;

impl Runtime {
    /// Those of the processes that it was forked from, the nearest first.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = &'static Self> {
        core::iter::successors(self.inherited, |runtime| runtime.inherited)
    }

    /// Whether the runtime with this number is among them.
    pub(crate) fn inherits_from(&self, number: u32) -> bool {
        self.ancestors().any(|runtime| runtime.number == number)
    }

    /// Whether a slot does not belong to that owner any more.
    pub(crate) fn is_gone(&self, slot: u16, generation: u64) -> bool {
        self.membership.generation(slot).is_some_and(|current| current != generation)
    }

    /// Whether the process that made this copied runtime seems to be alive.
    pub(crate) fn has_living(&self, maker: &Self) -> bool {
        let slots = maker.driver.port().slots();
        slots.iter().any(|&slot| {
            !self.driver.port().receives_by(slot) && self.membership.generation(slot) != Some(0)
        })
    }

    /// Where to note for the child of a fork that is about to happen; `None` if there is nothing to
    /// note, or no memory for it.
    pub(crate) fn journal_for_fork(&self) -> Option<Arc<dyn Journal>> {
        if self.driver.queue_pairs() == 0 {
            return None;
        }
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = journal.as_ref().filter(|current| current.room() >= JOURNAL_ROOM) {
            return Some(Arc::<SharedJournal>::clone(current));
        }
        if let Some(last) = journal.take() {
            // Older children that have used nothing yet come too late.
            last.cut();
        }
        *journal = SharedJournal::new(JOURNAL_BYTES).ok().map(Arc::new);
        Some(Arc::<SharedJournal>::clone(journal.as_ref()?))
    }

    /// The owner of that slot, `process`, passes on to us what comes for a queue pair.
    pub(crate) fn rely_on(&self, slot: u16, process: Option<OwnedFd>, qpn: Qpn) {
        self.reliances.add(slot, self.membership.generation(slot), process, qpn);
        // The thread that stands by watches that process from now on, and not in a second.
        self.membership.wake();
    }

    /// One thread at a time takes over; `None` if another one is at it.
    pub(crate) fn try_taking_over(&self) -> Option<MutexGuard<'_, ()>> {
        match self.taking_over.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// One thread at a time takes over.
    pub(crate) fn taking_over(&self) -> MutexGuard<'_, ()> {
        self.taking_over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
