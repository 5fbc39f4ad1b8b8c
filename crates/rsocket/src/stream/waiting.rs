//! Waiting for something of a stream: first by looking again and again, then asleep.
//!
//! One thread at a time waits for completions, and receives packets meanwhile; others wait for what it
//! absorbs, and one of them takes its place when it has found what it waited for.

use super::{Flow, Stream};
use crate::error::{errno, of};
use std::io;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// How long somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all.
    None,
    /// Until then.
    Until(Instant),
    /// For as long as it takes.
    Endless,
}

impl Patience {
    fn is_over(self) -> bool {
        match self {
            Self::None => true,
            Self::Until(end) => Instant::now() >= end,
            Self::Endless => false,
        }
    }
}

/// Who waits for another thread's look takes one himself after this.
const SLEEP_MAX: Duration = Duration::from_millis(100);

impl Stream {
    /// Waits until `ready` says something.
    ///
    /// # Errors
    /// What it says, or `EAGAIN` when the patience is over.
    pub(super) fn wait_until<T>(
        &self,
        patience: Patience,
        mut ready: impl FnMut(&mut Flow) -> Option<io::Result<T>>,
    ) -> io::Result<T> {
        let mut flow = self.lock();
        if let Some(result) = ready(&mut flow) {
            return result;
        }
        self.absorb(&mut flow);
        if let Some(result) = ready(&mut flow) {
            return result;
        }
        if patience.is_over() {
            return Err(errno(libc::EAGAIN));
        }
        let polls_until = Instant::now() + self.settings.polling;
        while Instant::now() < polls_until {
            drop(flow);
            core::hint::spin_loop();
            flow = self.lock();
            self.absorb(&mut flow);
            if let Some(result) = ready(&mut flow) {
                return result;
            }
        }
        loop {
            if flow.is_awaited {
                flow.sleepers += 1;
                let woken = self.changed.wait_timeout(flow, SLEEP_MAX);
                flow = woken.unwrap_or_else(PoisonError::into_inner).0;
                flow.sleepers -= 1;
            } else {
                // Armed first and looked at once more: what comes in between ends the wait.
                self.queue.arm(false).map_err(of)?;
                self.absorb(&mut flow);
                if let Some(result) = ready(&mut flow) {
                    return result;
                }
                flow.is_awaited = true;
                drop(flow);
                let waited = self.channel.wait(&|| patience.is_over());
                self.channel.clear();
                flow = self.lock();
                flow.is_awaited = false;
                if flow.sleepers > 0 {
                    self.changed.notify_all();
                }
                waited.map_err(of)?;
            }
            self.absorb(&mut flow);
            if let Some(result) = ready(&mut flow) {
                return result;
            }
            if patience.is_over() {
                return Err(errno(libc::EAGAIN));
            }
        }
    }

    /// Waits until it is known what has become of the request for a connection.
    ///
    /// # Errors
    /// Why there is none, `EAGAIN` when the patience is over.
    pub fn wait_settled(&self, patience: Patience) -> io::Result<()> {
        self.wait_until(patience, |flow| {
            flow.is_settled().then(|| flow.error.take().map_or(Ok(()), |code| Err(errno(code))))
        })
    }
}
