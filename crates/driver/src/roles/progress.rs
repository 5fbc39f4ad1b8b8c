//! The progress thread: drains when nobody else does, so that one-sided operations complete
//! while the program sleeps, computes or spins on its own memory.
//!
//! While somebody polls it stays away, looking at the poller's time stamp in growing pauses; when
//! the stamp is old it drains and waits on the port itself.

use crate::driver::Driver;
use crate::facade::{Facade, Mutex};
use crate::port::{Interest, Port, Woken};
use crate::roles::drain::Look;
use converb_engine::Time;
use core::time::Duration;
use std::sync::atomic::Ordering;

/// A look at the port this recent means that somebody is polling now.
const POLLING_NOW: Duration = Duration::from_micros(5);
const PAUSE_MIN: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(1);
/// After this many batches others get the processor.
const BATCHES_PER_TURN: usize = 64;

impl<P: Port, S: Facade> Driver<P, S> {
    /// The life of the progress thread; ends after [`stop`](Self::stop).
    pub fn run_progress(&self) {
        let mut pause = PAUSE_MIN;
        let mut expects_packets = false;
        while !self.stopping.load(Ordering::Acquire) {
            self.port.mend();
            if self.somebody_polls() {
                self.keep_away(&mut pause);
                // Who waits for an event fell asleep before these were known.
                if self.outlet.is_blocked() || self.next_deadline() <= self.port.now() {
                    self.drain();
                }
                continue;
            }
            // Said before the look that keeps the promise: an ACK that is held after it would
            // wait for who sleeps.
            self.progress_looks_again.store(false, Ordering::Release);
            let mut look = self.drain();
            if core::mem::take(&mut expects_packets) && look == Look::Nothing {
                // Another thread was faster, or it was not this port's packets that ended the wait.
                self.port.doubt();
            }
            for _ in 1..BATCHES_PER_TURN {
                if look != Look::Packets {
                    break;
                }
                look = self.drain();
            }
            if look == Look::Elsewhere {
                // Its thread lost the processor in the middle, perhaps to this one: packets that
                // wait would end each sleep at once.
                self.keep_away(&mut pause);
                continue;
            }
            pause = PAUSE_MIN;
            expects_packets = self.sleep().receivable;
        }
    }

    /// Leaves the port to the thread that is at it, for twice as long as the last time.
    fn keep_away(&self, pause: &mut Duration) {
        self.progress_looks_again.store(true, Ordering::Release);
        self.port.wait(Interest { timeout: Some(*pause), ..Interest::default() });
        *pause = (*pause * 2).min(PAUSE_MAX);
    }

    /// Ends the progress thread.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.port.wake();
    }

    fn somebody_polls(&self) -> bool {
        if self.event_waiters.load(Ordering::Acquire) != 0 {
            return true;
        }
        let last = Time::from_nanoseconds(self.polled_at.load(Ordering::Acquire));
        self.port.now().since(last) < POLLING_NOW
    }

    /// Waits for packets, room to send or the next deadline.
    fn sleep(&self) -> Woken {
        let deadline = {
            let mut timers = self.timers.lock();
            let deadline = timers.next();
            timers.sleeper = Some(deadline);
            deadline
        };
        let timeout = (deadline < Time::NEVER).then(|| deadline.since(self.port.now()));
        let sendable = self.outlet.is_blocked();
        let woken = self.port.wait(Interest { receivable: true, sendable, timeout });
        self.timers.lock().sleeper = None;
        woken
    }
}
