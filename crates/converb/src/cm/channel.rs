//! Event channels: where a program reads what happened to its identifiers.

use super::{Event, Identifier};
use crate::error::Error;
use converb_driver::Signal;
use converb_link::EventSignal;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Events that wait, and the descriptor that says so (`struct rdma_event_channel`).
pub struct EventChannel {
    /// Raised once for each of them.
    signal: EventSignal,
    waiting: Mutex<VecDeque<Event>>,
    /// Who else is told.
    listener: OnceLock<Listener>,
}

/// What is called when an event has come.
type Listener = Box<dyn Fn() + Send + Sync>;

impl EventChannel {
    /// A new channel.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> Result<Arc<Self>, Error> {
        let signal = EventSignal::new()
            .map_err(|error| Error::system("make a descriptor for events")(error.into()))?;
        Ok(Arc::new(Self { signal, waiting: Mutex::default(), listener: OnceLock::new() }))
    }

    /// Has `listener` called when an event has come, by the thread that brings it and with locks of
    /// connection management held: it may wake somebody, and nothing else. Only the first one counts.
    pub fn call_on_event(&self, listener: impl Fn() + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
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
        if let Some(listener) = self.listener.get() {
            listener();
        }
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

impl core::fmt::Debug for EventChannel {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("EventChannel")
            .field("waiting", &self.lock().len())
            .finish_non_exhaustive()
    }
}
