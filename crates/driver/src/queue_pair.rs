//! A queue pair with its locks. Posting and protocol are apart: who posts never waits for packets
//! that are being written.

use crate::completion_queue::CompletionQueueHandle;
use crate::facade::{Facade, Flag, Mutex};
use crate::fork::Noting;
use crate::listener::Listener;
use crate::port::Signal;
use crate::receive_queue::ReceiveQueue;
use crate::reply::ReplyHabit;
use converb_engine::Time;
use converb_engine::iba::{PathWindow, QueuePair, Service, State};
use converb_engine::memory::ProtectionDomain;
use converb_engine::work::SendRing;
use converb_wire::Qpn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// A queue pair, shared by the program's threads and the driver's.
pub struct QueuePairHandle<G: Signal, S: Facade> {
    pub(crate) qpn: Qpn,
    pub(crate) domain: ProtectionDomain,
    pub(crate) cookie: u64,
    pub(crate) send_cq: Arc<CompletionQueueHandle<G, S>>,
    pub(crate) receive_cq: Arc<CompletionQueueHandle<G, S>>,
    pub(crate) listener: Arc<dyn Listener>,
    pub(crate) service: Service,
    pub(crate) receives: Arc<ReceiveQueue<S>>,
    /// Send work requests that the protocol has not taken yet.
    pub(crate) posted: S::Mutex<SendRing>,
    /// Send work requests that have not completed, taken or not.
    pub(crate) unfinished: AtomicU32,
    pub(crate) protocol: S::Mutex<Protocol>,
    /// There is something for the owner of `protocol` to look at. Whoever unlocks `protocol`
    /// looks at this again: so who finds it locked may leave.
    pub(crate) pending: S::Flag,
    /// The state, for posting, as of the last change.
    pub(crate) state: AtomicU32,
    pub(crate) reply: ReplyHabit,
    /// After how many forks the program last used it in this process.
    pub(crate) used_at: AtomicU64,
    /// It has gone over to a child.
    pub(crate) is_handed_on: AtomicBool,
}

/// What the protocol lock guards.
pub(crate) struct Protocol {
    pub(crate) queue_pair: QueuePair,
    pub(crate) path: Arc<PathWindow>,
    /// The earliest deadline that the timer queue knows of.
    pub(crate) timer: Time,
    /// Whether the current drain has it on its list.
    pub(crate) touched: bool,
    /// Whether a receive has completed since this was last taken down.
    pub(crate) has_received: bool,
    /// Notes what it handles, after a fork and for a while.
    pub(crate) noting: Option<Noting>,
}

impl<G: Signal, S: Facade> QueuePairHandle<G, S> {
    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// Its state.
    pub fn state(&self) -> State {
        let state = self.state.load(Ordering::Acquire);
        State::ALL.into_iter().find(|known| *known as u32 == state).unwrap_or(State::Error)
    }

    /// Whether somebody has left it work that nobody has looked at since. Whoever unlocks the
    /// protocol looks, so this is never so while all threads wait: a simulator holds that.
    pub fn is_left_alone(&self) -> bool {
        self.pending.is_up()
    }

    /// The number by which its owner knows it.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Whether it has gone over to a fork child, and is of no more use here.
    pub fn is_handed_on(&self) -> bool {
        self.is_handed_on.load(Ordering::Acquire)
    }

    /// Notes that the program uses it in this process.
    #[inline]
    pub(crate) fn use_now(&self, forks: &AtomicU64) {
        if note_use(&self.used_at, forks) {
            let noting = self.protocol.lock().noting.take();
            if let Some(noting) = noting {
                noting.end(self.qpn);
            }
        }
    }

    pub(crate) fn publish_state(&self, state: State) {
        self.state.store(state as u32, Ordering::Release);
    }
}

/// Notes in `used_at` that the program uses something after this many forks; whether that is new. It
/// seldom is, so the line stays shared.
pub(crate) fn note_use(used_at: &AtomicU64, forks: &AtomicU64) -> bool {
    let forks = forks.load(Ordering::Relaxed);
    let is_new = used_at.load(Ordering::Relaxed) != forks;
    if is_new {
        used_at.store(forks, Ordering::Release);
    }
    is_new
}
