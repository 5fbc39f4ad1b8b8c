//! Posted receives with their lock, of one queue pair or shared by several.

use crate::facade::{Facade, Mutex};
use crate::listener::{AsyncEvent, Listener};
use converb_engine::iba::ReceiveSource;
use converb_engine::planted::{self, Planted};
use converb_engine::work::{PostError, ReceiveRequest, ReceiveRing, ReceiveWork};
use std::sync::Arc;

/// A queue of posted receives (`ibv_create_srq`, or the receive queue of one queue pair).
pub struct ReceiveQueue<S: Facade> {
    state: S::Mutex<State>,
    /// Who is told when a shared queue runs low; `None` for the queue of one queue pair.
    shared: Option<(Arc<dyn Listener>, u64)>,
}

struct State {
    ring: ReceiveRing,
    /// Fewer than this raise one event; 0 for never.
    limit: usize,
}

impl<S: Facade> ReceiveQueue<S> {
    pub(crate) fn own(capacity: usize, entries_max: usize) -> Self {
        let ring = ReceiveRing::new(capacity, entries_max);
        Self { state: S::Mutex::new(State { ring, limit: 0 }), shared: None }
    }

    /// A shared receive queue of `capacity` receives with up to `entries_max` scatter-gather
    /// entries each; `listener` is told of its limit event, under the number `cookie`.
    pub fn shared(
        capacity: usize,
        entries_max: usize,
        listener: Arc<dyn Listener>,
        cookie: u64,
    ) -> Self {
        Self { shared: Some((listener, cookie)), ..Self::own(capacity, entries_max) }
    }

    /// Posts receives (`ibv_post_srq_recv`).
    ///
    /// # Errors
    /// The first that was not taken, and why; those before it were posted.
    pub fn post(&self, requests: &[ReceiveRequest<'_>]) -> Result<(), (usize, PostError)> {
        let ring = &mut self.state.lock().ring;
        for (index, request) in requests.iter().enumerate() {
            ring.push(request).map_err(|error| (index, error))?;
        }
        Ok(())
    }

    /// Arms the limit event: it is raised once, when fewer than `limit` receives are left
    /// (`ibv_modify_srq` with `IBV_SRQ_LIMIT`). 0 disarms it.
    pub fn set_limit(&self, limit: usize) {
        self.state.lock().limit = limit;
    }

    /// The limit that is armed; 0 after its event.
    pub fn limit(&self) -> usize {
        self.state.lock().limit
    }

    /// How many receives fit.
    pub fn capacity(&self) -> usize {
        self.state.lock().ring.capacity()
    }

    /// Changes how many receives fit (`IBV_SRQ_MAX_WR`).
    ///
    /// # Errors
    /// `QueueFull` when more are posted than would fit.
    pub fn resize(&self, capacity: usize) -> Result<(), PostError> {
        self.state.lock().ring.resize(capacity)
    }

    /// The lock, if it is free.
    pub(crate) fn try_hold(&self) -> Option<impl Sized + '_> {
        self.state.try_lock()
    }

    pub(crate) fn clear(&self) {
        if self.shared.is_none() {
            self.state.lock().ring.clear();
        }
    }
}

/// The receives as a responder sees them.
pub(crate) struct Receives<'a, S: Facade>(pub(crate) &'a ReceiveQueue<S>);

impl<S: Facade> ReceiveSource for Receives<'_, S> {
    fn take(&mut self, work: &mut ReceiveWork) -> bool {
        let (taken, low) = {
            let mut state = self.0.state.lock();
            let taken = state.ring.take(work);
            let low = taken && state.ring.len() < state.limit;
            if low && !planted::is(Planted::LimitEventTwice) {
                state.limit = 0;
            }
            (taken, low)
        };
        if let (true, Some((listener, cookie))) = (low, &self.0.shared) {
            listener.raise(AsyncEvent::ReceiveLimitReached { cookie: *cookie });
        }
        taken
    }

    fn credits(&self) -> Option<usize> {
        self.0.shared.is_none().then(|| self.0.state.lock().ring.len())
    }

    fn is_shared(&self) -> bool {
        self.0.shared.is_some()
    }
}
