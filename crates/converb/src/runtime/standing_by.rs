//! The thread that looks after everything but packets: the agent, connections, the rings and letters
//! of other processes, and the counters.

use super::{Runtime, spawn};
use crate::heritage;
use crate::letters;
use converb_driver::Port;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often counters are published and rings of dead processes forgotten.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

impl Runtime {
    /// Starts the thread that stands by when the agent dies.
    pub(super) fn start_standing_by(&'static self) -> io::Result<()> {
        if self.is_standing_by.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let result = spawn("converb-member", || self.stand_by());
        self.is_standing_by.store(result.is_ok(), Ordering::Relaxed);
        result
    }

    /// Waits for news of the agent and of rings, and publishes counters now and then, for ever.
    fn stand_by(&'static self) {
        let mut refreshed = Instant::now();
        while self.is_ours() {
            if refreshed.elapsed() >= REFRESH_INTERVAL {
                refreshed = Instant::now();
                self.publish_counters();
                self.membership.refresh_rings();
                self.driver.forget_heirs(&|slot, generation| self.is_gone(slot, generation));
                // A program that closes all descriptors and then only waits may have nobody who
                // notices, and its slots are not kept for it for ever.
                self.driver.port().check_descriptors();
                self.driver.port().mend();
            }
            let Some(descriptor) = self.membership.watch_fd() else { return };
            let orphaned = self.reliances.take_orphaned(|slot| self.membership.generation(slot));
            if !orphaned.is_empty() {
                heritage::secure_again(self, orphaned);
            }
            let relied_on = self.reliances.processes();
            let mut descriptors: Vec<_> = relied_on
                .iter()
                .filter_map(|process| process.get())
                .chain([descriptor])
                .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
                .collect();
            let rest = self.connections.rest(REFRESH_INTERVAL, self);
            let interval =
                Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
            match poll(&mut descriptors, Some(&interval)) {
                Ok(0) => {}
                Ok(_) => {
                    // However we stand with the agent, packets go on as before.
                    let _ = self.membership.handle_event();
                    letters::serve(self);
                    for (index, end) in self.membership.take_renewed() {
                        // It fails only if there is no such slot, or no descriptor to be had:
                        // then nothing arrives there, and queue pairs fail by their retries.
                        let _ = self.driver.port().renew(index, end);
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                // The program has closed the descriptor; the membership makes another one when
                // the slots are fetched again.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
            self.connections.serve(&self.membership, &self.driver);
        }
    }
}
