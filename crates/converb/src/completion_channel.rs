//! Completion channels: waiting for completions without polling.

use crate::context::Context;
use crate::error::Error;
use crate::memory_region::RuntimeRef;
use crate::runtime::{ChannelHandle, Runtime};
use converb_driver::Signal;
use converb_link::EventSignal;
use rustix::fs::{OFlags, fcntl_getfl};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// A completion channel. Completion queues that were armed raise an event on theirs.
pub struct CompletionChannel {
    context: Arc<Context>,
    runtime: RuntimeRef,
    handle: Arc<ChannelHandle>,
    /// Held while an event is handed out, and while a queue's events are withdrawn.
    handing_out: Mutex<()>,
}

impl CompletionChannel {
    /// A new channel.
    ///
    /// # Errors
    /// When the process has no descriptor left, or why the network cannot be joined.
    pub fn new(context: &Arc<Context>) -> Result<Arc<Self>, Error> {
        let runtime = Runtime::get()?;
        let signal = EventSignal::new().map_err(|error| Error::System {
            what: "make a descriptor for completion events",
            error: error.into(),
        })?;
        Ok(Arc::new(Self {
            context: Arc::clone(context),
            runtime: RuntimeRef(runtime),
            handle: Arc::new(ChannelHandle::new(signal)),
            handing_out: Mutex::new(()),
        }))
    }

    /// The device it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Readable while events wait: for poll and epoll.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.handle.signal().as_fd()
    }

    /// Takes the next event: the number of the completion queue that it is about. Waits for one,
    /// and receives meanwhile, unless [`descriptor`](Self::descriptor) was made non-blocking. The
    /// queue lives at least until `take` returns, for its end waits for that.
    ///
    /// # Errors
    /// `EAGAIN` from a non-blocking descriptor without an event, `EINTR`, `Forked`.
    pub fn next_event<T>(&self, take: impl FnOnce(u64) -> T) -> Result<T, Error> {
        let driver = self.runtime.driver()?;
        let system = |error: rustix::io::Errno| Error::System {
            what: "read a completion event",
            error: error.into(),
        };
        loop {
            let flags = fcntl_getfl(self.descriptor()).map_err(system)?;
            if !flags.contains(OFlags::NONBLOCK) {
                let is_interrupted = driver.wait_event(&self.handle, &|| false);
                if is_interrupted && crate::signals::may_interrupt() {
                    return Err(system(rustix::io::Errno::INTR));
                }
            }
            self.handle.signal().take().map_err(system)?;
            // The event of a queue that was destroyed meanwhile is gone.
            let _handing_out = self.handing_out.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(queue) = self.handle.take_event() {
                return Ok(take(queue));
            }
        }
    }

    /// Waits until an event or a [`nudge`](Self::nudge) is there, and receives meanwhile; takes
    /// neither. `give_up` is asked after each wake-up, at least ten times a second, and ends the wait.
    ///
    /// # Errors
    /// `Forked`.
    pub fn wait(&self, give_up: &dyn Fn() -> bool) -> Result<(), Error> {
        self.runtime.driver()?.wait_event(&self.handle, give_up);
        Ok(())
    }

    /// Makes the channel readable without an event, which ends a [`wait`](Self::wait).
    pub fn nudge(&self) {
        self.handle.signal().raise();
    }

    /// Takes all events and nudges, for who looks at the completion queues themselves. The
    /// descriptor must have been made non-blocking.
    pub fn clear(&self) {
        while self.handle.signal().take().is_ok() {
            self.handle.take_event();
        }
    }

    /// Forgets the events of a completion queue that is being destroyed.
    pub(crate) fn forget(&self, queue: u64) {
        if self.runtime.existing_driver().is_some() {
            let _handing_out = self.handing_out.lock().unwrap_or_else(PoisonError::into_inner);
            for _ in 0..self.handle.forget(queue) {
                // Else a program would find the descriptor readable and then wait for ever.
                self.handle.signal().take_back();
            }
        }
    }

    pub(crate) fn handle(&self) -> &Arc<ChannelHandle> {
        &self.handle
    }
}

impl core::fmt::Debug for CompletionChannel {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("CompletionChannel").finish_non_exhaustive()
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        self.handle.destroy();
    }
}
