//! The processes that pass on to us what comes for queue pairs which we have taken over from them.

use converb_link::Kept;
use converb_wire::Qpn;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All of them.
#[derive(Default)]
pub(super) struct Reliances(Mutex<Vec<Reliance>>);

/// A process that passes packets on to us.
struct Reliance {
    /// The slot that it owns, and which owner of the slot it is.
    slot: u16,
    generation: Option<u64>,
    /// Readable when it has ended.
    process: Arc<Kept>,
    numbers: Vec<Qpn>,
}

/// How many of those processes are watched all the time, and not only once a second.
const WATCHED_MAX: usize = 8;

impl Reliances {
    /// That owner of the slot, `process`, passes on to us what comes for a queue pair.
    pub(super) fn add(
        &self,
        slot: u16,
        generation: Option<u64>,
        process: Option<OwnedFd>,
        qpn: Qpn,
    ) {
        let mut reliances = self.lock();
        let is_same = |one: &&mut Reliance| one.slot == slot && one.generation == generation;
        if let Some(known) = reliances.iter_mut().find(is_same) {
            known.numbers.push(qpn);
            return;
        }
        let process = Arc::new(process.map_or(Kept::none(), Kept::new));
        reliances.push(Reliance { slot, generation, process, numbers: vec![qpn] });
    }

    /// The numbers for which nobody passes packets on any more, for those who did have ended, and
    /// which owner of its slot that was; `generation` tells which owner a slot has now.
    pub(super) fn take_orphaned(
        &self,
        generation: impl Fn(u16) -> Option<u64>,
    ) -> Vec<(Qpn, Option<u64>)> {
        let has_ended = |one: &mut Reliance| {
            let is_other = one.generation != generation(one.slot);
            let process = one.process.get().filter(|_| one.process.is_open());
            is_other || process.is_some_and(|process| is_readable(process))
        };
        let ended = self.lock().extract_if(.., has_ended).collect::<Vec<_>>();
        ended
            .into_iter()
            .flat_map(|one| one.numbers.into_iter().map(move |qpn| (qpn, one.generation)))
            .collect()
    }

    /// The processes to watch.
    pub(super) fn processes(&self) -> Vec<Arc<Kept>> {
        let reliances = self.lock();
        let open = reliances.iter().filter(|one| one.process.is_open());
        open.take(WATCHED_MAX).map(|one| Arc::clone(&one.process)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Reliance>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let mut entries = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    poll(&mut entries, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}
