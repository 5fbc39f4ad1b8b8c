//! ACKs that wait for the program's reply.
//!
//! Where two programs answer each other's SENDs, an ACK that goes by itself costs a system call
//! between a message and its reply. So once a program has replied at once often enough, the ACK
//! of what it just received waits until it posts, and then both leave together; if it polls again
//! instead, or if it does neither, the next look at the port sends the ACK, and the habit counts
//! as broken. The completion is visible before the ACK has left: a program that is killed in
//! between leaves its peer without an answer, as it does with everything else it had not sent.

use crate::driver::{Driver, Handle};
use crate::facade::{Facade, Mutex};
use crate::port::Port;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// What a queue pair's user does when something was received.
#[derive(Debug, Default)]
pub(crate) struct ReplyHabit {
    /// Something was posted since the last completion of a receive.
    has_replied: AtomicBool,
    /// How often in a row that came before anything else. Changed by the owner of the drain
    /// lock only.
    times: AtomicU8,
}

/// So often a program must have replied at once for its ACKs to wait.
const TIMES_MIN: u8 = 16;

impl ReplyHabit {
    /// The program has posted.
    pub(crate) fn replied(&self) {
        self.has_replied.store(true, Ordering::Relaxed);
    }

    /// A receive is about to complete.
    pub(crate) fn received(&self) {
        self.has_replied.store(false, Ordering::Relaxed);
    }

    /// Whether a reply is to be expected.
    pub(crate) fn is_formed(&self) -> bool {
        self.times.load(Ordering::Relaxed) >= TIMES_MIN
    }

    /// Counts what happened since [`received`](Self::received); whether it was a reply.
    fn judge(&self) -> bool {
        let replied = self.has_replied.load(Ordering::Relaxed);
        let times = if replied { self.times.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
        self.times.store(times, Ordering::Relaxed);
        replied
    }
}

/// The queue pair that received something at the last look, and may be replying now.
pub(crate) struct Replying<P: Port, S: Facade> {
    pub(crate) handle: Handle<P, S>,
    /// Its ACK waits.
    pub(crate) is_held: bool,
}

impl<P: Port, S: Facade> Driver<P, S> {
    /// Ends the wait of an ACK, with the drain lock held.
    pub(crate) fn settle(&self, replying: &Replying<P, S>) {
        if !replying.handle.reply.judge() && replying.is_held {
            self.kick(&replying.handle);
        }
    }

    /// Sends the ACK that waits, if one does: for a process that is about to end.
    pub fn send_held_answers(&self) {
        if let Some(replying) = self.drain.try_lock().and_then(|mut drain| drain.take_replying()) {
            self.settle(&replying);
        }
    }
}
