//! Waiting for a completion event: the waiting thread does the progress thread's work, so that
//! one wake-up is enough.

use crate::channel::Channel;
use crate::driver::Driver;
use crate::facade::{Facade, Mutex};
use crate::port::{Interest, Port};
use crate::roles::drain::Look;
use converb_engine::Time;
use core::time::Duration;
use std::sync::atomic::Ordering;

/// No waiter sleeps longer than this without a look around.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// When another thread is looking, it is waited for so long.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

impl<P: Port, S: Facade> Driver<P, S> {
    /// Waits until the channel's signal is raised, draining the port meanwhile; the signal is
    /// not taken. `give_up` is asked after each wake-up (a program may close its channel). Returns
    /// early if a signal handler of the program's ran: then true.
    pub fn wait_event(&self, channel: &Channel<P::Signal, S>, give_up: &dyn Fn() -> bool) -> bool {
        self.event_waiters.fetch_add(1, Ordering::AcqRel);
        let mut is_interrupted = false;
        loop {
            self.port.mend();
            let mut look = self.drain();
            while look == Look::Packets {
                look = self.drain();
            }
            if give_up() {
                break;
            }
            let now = self.port.now();
            let deadline = self.timers.lock().next();
            // Packets that another thread has not fetched yet would end each wait at once.
            let receivable = look != Look::Elsewhere;
            let timeout = if receivable { deadline.since(now).min(WAIT_MAX) } else { LOOK_AGAIN };
            let timeout = Some(timeout);
            let sendable = self.outlet.is_blocked();
            let interest = Interest { receivable, sendable, timeout };
            let woken = self.port.wait_with(channel.signal(), interest);
            is_interrupted = woken.by_handler && !woken.by_signal;
            if woken.by_signal || is_interrupted {
                break;
            }
        }
        self.event_waiters.fetch_sub(1, Ordering::AcqRel);
        // The progress thread looks again within its pause, a millisecond at most.
        is_interrupted
    }

    /// When the next clock has to be looked at.
    pub fn next_deadline(&self) -> Time {
        Time::from_nanoseconds(self.next_deadline.load(Ordering::Acquire))
    }
}
