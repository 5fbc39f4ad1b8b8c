//! What a fork child has of its parent's: queue pairs that only the child uses go over to it.
//!
//! The child finds copies of all objects in its memory. The first time that it uses one of them its
//! own runtime is made, with the parent's keys. For a queue pair it asks the process that has it
//! (`letters.rs`), or takes that one's slot if it has ended, be it long before or after. The driver
//! does the rest (`converb_driver::Driver::adopt`).

use crate::completion_queue::CompletionQueue;
use crate::error::Error;
use crate::letters::{self, Answer, Letter, NoAnswer, Wish, exchange};
use crate::runtime::{Driver, QueuePairHandle, Runtime};
use converb_driver::{Heir, Kept, Port};
use converb_wire::Qpn;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Why something that was made before a fork is of no use in the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Another thread, or this one, was in the middle of something when the process forked.
    NotWhole,
    /// The process that made it, or another child, uses it.
    InUse,
    /// More has arrived for it since the fork than is kept for the child.
    Forgotten,
    /// The process that made it does not have it any more.
    Unknown,
    /// That process has ended, and its numbers are another one's by now, or those of another agent.
    Gone,
    /// That process, or the agent, does not answer.
    NoAnswer,
    /// The agent of another user relays, which nothing can be taken over from.
    Carried,
}

impl core::fmt::Display for Lost {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str(match self {
            Self::NotWhole => "it forked while one of its threads was inside a verbs call",
            Self::InUse => "that process, or another child of it, uses it itself",
            Self::Forgotten => "more arrived for it after the fork than is kept for a child",
            Self::Unknown => "that process does not have it any more",
            Self::Gone => "that process has ended, and its numbers are not to be had",
            Self::NoAnswer => "that process, or the agent, does not answer",
            Self::Carried => "another user's agent relays its traffic",
        })
    }
}

impl From<Kept> for Lost {
    fn from(kept: Kept) -> Self {
        match kept {
            Kept::InUse => Self::InUse,
            Kept::Forgotten => Self::Forgotten,
            Kept::Unknown => Self::Unknown,
        }
    }
}

impl From<Lost> for Error {
    fn from(lost: Lost) -> Self {
        tell(lost);
        Self::Forked(lost)
    }
}

impl From<Kept> for Error {
    fn from(kept: Kept) -> Self {
        Lost::from(kept).into()
    }
}

/// Says once in a process why its calls fail, for an EIO does not.
fn tell(lost: Lost) {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    if !IS_TOLD.swap(true, Ordering::Relaxed) {
        let line = format!(
            "converb: process {} cannot use a verbs object that the process it was forked from has \
             made: {lost}; open the device after the fork, or use the object in one process only\n",
            std::process::id()
        );
        // In one write, for other programs write to the same terminal.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// For how long to try when others are just ending, or the agent is.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

/// The runtime of this process for an object that `maker` has made: `maker` itself, or one that has
/// inherited from it.
///
/// # Errors
/// `Forked` if it has not, or why the network cannot be joined.
pub(crate) fn runtime_for(maker: &'static Runtime) -> Result<&'static Runtime, Error> {
    if maker.is_ours() {
        return Ok(maker);
    }
    // A copy of something in the middle of a change is of no use.
    if !maker.is_whole_here() {
        return Err(Lost::NotWhole.into());
    }
    let runtime = Runtime::get()?;
    if runtime.inherits_from(maker.number()) { Ok(runtime) } else { Err(Lost::NotWhole.into()) }
}

/// Takes over a queue pair that an earlier process of this family has made; the runtime that has it
/// then.
///
/// # Errors
/// `Forked`, and why.
pub(crate) fn take_over(
    maker: &'static Runtime,
    handle: &Arc<QueuePairHandle>,
    by_poll: bool,
) -> Result<&'static Runtime, Error> {
    let runtime = runtime_for(maker)?;
    let _one = runtime.taking_over();
    let driver = runtime.driver();
    if driver.find_queue_pair(handle.qpn()).is_some_and(|found| Arc::ptr_eq(&found, handle)) {
        return Ok(runtime);
    }
    runtime.start_threads()?;
    driver.adopt(maker.driver(), handle, || {
        Ok::<(), Error>(secure(runtime, handle.qpn(), Some(maker), by_poll, None)?)
    })?;
    Ok(runtime)
}

/// Sees to it that what comes for a queue pair comes here, and that nobody else of the family has it
/// any more: `maker` is the process whose copy we have, `None` if it is ours already; `dead` is an
/// owner of its slot that has ended, though the agent may not know yet.
fn secure(
    runtime: &'static Runtime,
    qpn: Qpn,
    maker: Option<&Runtime>,
    by_poll: bool,
    dead: Option<u64>,
) -> Result<(), Lost> {
    let slot = slot_of(qpn);
    let membership = runtime.membership();
    let port = runtime.driver().port();
    let ring = membership.own_ring().ok_or(Lost::Carried)?;
    let own_slot = *port.slots().first().ok_or(Lost::Carried)?;
    let fork = maker.map_or(0, |maker| maker.driver().forks());
    let heir = Heir { fork, slot: own_slot, generation: 0, by_poll };
    let wish = Wish::Have { qpn, heir, maker: maker.map_or(0, Runtime::id) };
    let letter = Letter { family: runtime.family(), wish };
    let first = maker.and_then(|maker| maker.driver().port().slots().first().copied());
    let deadline = Instant::now() + PATIENCE;
    loop {
        if port.receives_by(slot) {
            let is_elsewhere = runtime
                .driver()
                .is_elsewhere(qpn, &|slot, generation| runtime.is_gone(slot, generation));
            return if is_elsewhere { Err(Lost::InUse) } else { Ok(()) };
        }
        // What the table says costs nobody anything, and when a process has many children they all
        // want to know.
        match runtime.membership().generation(slot) {
            Some(0) if take_slot(runtime, slot) => continue,
            Some(owner) if dead == Some(owner) && Instant::now() < deadline => {
                std::thread::sleep(PAUSE);
                continue;
            }
            _ => {}
        }
        // First whose copy we have, then whoever gets what comes for it.
        let mut lost = Lost::Gone;
        for target in first.filter(|&first| first != slot).into_iter().chain([slot]) {
            match exchange(runtime, target, &letter, ring) {
                Ok(Answer::Granted(process)) => {
                    runtime.rely_on(target, process, qpn);
                    return Ok(());
                }
                Ok(Answer::Refused(Kept::Unknown)) if target != slot => {}
                Ok(Answer::Refused(kept)) => return Err(kept.into()),
                Err(none @ NoAnswer::NotNow) => lost = none.into(),
                Err(NoAnswer::Nobody) => {}
            }
        }
        if lost == Lost::Gone && take_slot(runtime, slot) {
            continue;
        }
        if Instant::now() >= deadline {
            return Err(lost);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes over the slot of a process that has ended; false if that cannot be.
fn take_slot(runtime: &Runtime, slot: u16) -> bool {
    let Ok(socket) = runtime.membership().take_over_slot(slot) else { return false };
    let driver = runtime.driver();
    driver.take_over_slot(slot);
    let is_there = driver.port().occupy(slot, socket).is_ok();
    // Everybody who waits has to look there, too.
    driver.wake_waiters();
    is_there
}

/// The processes that pass packets on to us have ended: what came for these numbers comes to
/// others, or to nobody.
pub(crate) fn secure_again(runtime: &'static Runtime, numbers: Vec<(Qpn, Option<u64>)>) {
    let _one = runtime.taking_over();
    for (qpn, dead) in numbers {
        if runtime.driver().find_queue_pair(qpn).is_some()
            && let Err(lost) = secure(runtime, qpn, None, false, dead)
        {
            tell(lost);
        }
    }
}

/// Takes over what completes in a queue that is about to be polled, if it is clear what.
///
/// # Errors
/// `Forked` when nothing that completes there is this process's.
pub(crate) fn settle(
    maker: &'static Runtime,
    queue: &CompletionQueue,
) -> Result<&'static Runtime, Error> {
    let runtime = runtime_for(maker)?;
    let driver: &Driver = runtime.driver();
    if !driver.queue_pairs_of(queue.handle()).is_empty() {
        return Ok(runtime);
    }
    let candidates: Vec<_> = runtime
        .ancestors()
        .flat_map(|maker| {
            let handles = maker.driver().queue_pairs_of(queue.handle());
            handles.into_iter().map(move |handle| (maker, handle))
        })
        .collect();
    // Of several, the child may want one only: it says which when it posts.
    let is_clear = candidates.len() == 1 || !runtime.has_living(maker);
    let mut result = None;
    for (maker, handle) in candidates.iter().filter(|_| is_clear) {
        match take_over(maker, handle, true) {
            Ok(runtime) => result = Some(Ok(runtime)),
            Err(error) => result = result.or(Some(Err(error))),
        }
    }
    result.unwrap_or_else(|| Err(Lost::InUse.into()))
}

/// A queue pair that was taken over is destroyed: who had its number may give it to others.
pub(crate) fn give_back(runtime: &Runtime, qpn: Qpn) {
    let slot = slot_of(qpn);
    if !runtime.driver().port().receives_by(slot) {
        letters::give_back(runtime, slot, qpn);
    }
}

/// The slot that a number belongs to.
pub(crate) fn slot_of(qpn: Qpn) -> u16 {
    (qpn.value() >> converb_agent::QPN_BITS_IN_SLOT) as u16
}
