//! A completion queue with its lock: filled by whoever runs a queue pair, emptied by the program.

use crate::channel::Channel;
use crate::facade::{Facade, Mutex};
use crate::listener::{AsyncEvent, Listener};
use crate::port::Signal;
use crate::queue_pair::note_use;
use converb_engine::{Completion, CompletionQueue, Overrun};
use converb_wire::Qpn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many completions fit into the smallest queue.
///
/// A network card rounds up as well, and programs have come to lean on it: one that waits for the
/// events of two queues on one channel and polls the wrong one (the latency tests of perftest with
/// `-e`, where an acknowledgement comes late) leaves completions in a queue for which it asked one
/// place. The man page allows it: `cqe` says how many there are.
pub const CAPACITY_MIN: usize = 128;

/// A completion queue (`ibv_create_cq`).
pub struct CompletionQueueHandle<G: Signal, S: Facade> {
    queue: S::Mutex<CompletionQueue>,
    /// How many wait, to be looked at without the lock.
    waiting: AtomicUsize,
    channel: Option<Arc<Channel<G, S>>>,
    listener: Arc<dyn Listener>,
    cookie: u64,
    /// After how many forks the program last polled it in this process.
    used_at: AtomicU64,
}

impl<G: Signal, S: Facade> CompletionQueueHandle<G, S> {
    /// A queue of at least `capacity` completions; `cookie` names it in its channel's events and to the
    /// listener.
    pub fn new(
        capacity: usize,
        channel: Option<Arc<Channel<G, S>>>,
        listener: Arc<dyn Listener>,
        cookie: u64,
    ) -> Self {
        let queue = S::Mutex::new(CompletionQueue::new(capacity.max(CAPACITY_MIN)));
        Self {
            queue,
            waiting: AtomicUsize::new(0),
            channel,
            listener,
            cookie,
            used_at: AtomicU64::new(0),
        }
    }

    /// Takes up to `completions.len()` of the oldest completions; returns how many.
    pub fn take(&self, completions: &mut [Completion]) -> usize {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let mut queue = self.queue.lock();
        let mut count = 0;
        for place in completions {
            let Some(completion) = queue.pop() else { break };
            *place = completion;
            count += 1;
        }
        self.waiting.store(queue.len(), Ordering::Release);
        count
    }

    /// Asks for one event (`ibv_req_notify_cq`).
    pub fn arm(&self, solicited_only: bool) {
        self.queue.lock().arm(solicited_only);
    }

    /// How many completions fit.
    pub fn capacity(&self) -> usize {
        self.queue.lock().capacity()
    }

    /// Changes how many fit at least (`ibv_resize_cq`).
    ///
    /// # Errors
    /// When more wait than `capacity`, even if they would fit.
    pub fn resize(&self, capacity: usize) -> Result<(), Overrun> {
        let mut queue = self.queue.lock();
        if queue.len() > capacity {
            return Err(Overrun { first: false });
        }
        queue.resize(capacity.max(CAPACITY_MIN))
    }

    /// The channel it raises events on.
    pub fn channel(&self) -> Option<&Arc<Channel<G, S>>> {
        self.channel.as_ref()
    }

    /// Adds a completion; false if the queue was full, an error that is reported once.
    pub(crate) fn push(&self, completion: Completion) -> bool {
        let added = {
            let mut queue = self.queue.lock();
            let added = queue.push(completion);
            self.waiting.store(queue.len(), Ordering::Release);
            added
        };
        match added {
            Ok(added) => {
                if let (true, Some(channel)) = (added.raise_event, &self.channel) {
                    channel.raise(self.cookie);
                }
                true
            }
            Err(Overrun { first }) => {
                if first {
                    self.listener.raise(AsyncEvent::CompletionQueueError { cookie: self.cookie });
                }
                false
            }
        }
    }

    /// Notes that the program polls it.
    pub(crate) fn use_now(&self, forks: &AtomicU64) {
        note_use(&self.used_at, forks);
    }

    /// Whether the program has polled it since the process forked for the `fork`th time.
    pub(crate) fn is_used(&self, fork: u64) -> bool {
        self.used_at.load(Ordering::Acquire) >= fork
    }

    /// The lock, if it is free.
    pub(crate) fn try_hold(&self) -> Option<impl Sized + '_> {
        self.queue.try_lock()
    }

    pub(crate) fn forget(&self, qpn: Qpn) {
        let mut queue = self.queue.lock();
        queue.forget(qpn);
        self.waiting.store(queue.len(), Ordering::Release);
    }
}
