//! Event channels: where a program reads what happened to its identifiers.

use super::{Event, Identifier};
use crate::error::Error;
use converb_driver::Signal;
use converb_link::EventSignal;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Events that wait, and the descriptor that says so (`struct rdma_event_channel`).
#[derive(Debug)]
pub struct EventChannel {
    /// Raised once for each of them.
    signal: EventSignal,
    waiting: Mutex<VecDeque<Event>>,
}

impl EventChannel {
    /// A new channel.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> Result<Arc<Self>, Error> {
        let signal = EventSignal::new()
            .map_err(|error| Error::system("make a descriptor for events")(error.into()))?;
        Ok(Arc::new(Self { signal, waiting: Mutex::default() }))
    }

    /// Readable while events wait, and each event is an edge: for poll and epoll.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// The next event; waits for one unless [`descriptor`](Self::descriptor) was made non-blocking.
    /// The end of its identifier waits until `claim`, which sees it first, has returned.
    ///
    /// The event is as it came: [`Event::follow`] is to be called next.
    ///
    /// # Errors
    /// `EAGAIN` from a non-blocking descriptor without an event, `EINTR`.
    pub fn next(&self, claim: impl FnOnce(&Event)) -> Result<Event, Error> {
        loop {
            self.signal.take().map_err(|error| Error::system("read an event")(error.into()))?;
            // An event whose identifier was destroyed meanwhile has been withdrawn.
            let mut waiting = self.lock();
            if let Some(event) = waiting.pop_front() {
                claim(&event);
                return Ok(event);
            }
        }
    }

    pub(super) fn push(&self, event: Event) {
        self.lock().push_back(event);
        self.signal.raise();
    }

    /// Takes back what an identifier would have been told, with the requests that came to it.
    pub(super) fn withdraw(&self, identifier: &Identifier) -> Vec<Event> {
        let mut waiting = self.lock();
        let (gone, stays) = waiting.drain(..).partition(|event| {
            let is_it = |of: &Arc<Identifier>| core::ptr::eq(Arc::as_ptr(of), identifier);
            is_it(&event.identifier) || event.listener.as_ref().is_some_and(is_it)
        });
        *waiting = stays;
        let gone: VecDeque<Event> = gone;
        for _ in &gone {
            // Else a program would find the descriptor readable and then wait for ever.
            self.signal.take_back();
        }
        gone.into()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
