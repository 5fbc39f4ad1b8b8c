//! The driver of one process: its port, its queue pairs and what they share.
//!
//! Locks, in the order in which they are taken (each may be left out, none taken backwards):
//! drain, table, keys, protocol of a queue pair, then one at a time posted, receives, paths,
//! timers, completion queue, channel. None is held across a call that blocks.

use crate::completion_queue::CompletionQueueHandle;
use crate::facade::{Facade, Mutex, RwLock};
use crate::fork::{Forking, SlotSet};
use crate::listener::Listener;
use crate::outgoing::Outlet;
use crate::paths::{Paths, SharedPaths};
use crate::port::Port;
use crate::queue_pair::{Protocol, QueuePairHandle};
use crate::receive_queue::ReceiveQueue;
use crate::reply::ReplyHabit;
use crate::roles::drain::Drain;
use crate::table::QueuePairTable;
use crate::timers::TimerQueue;
use converb_engine::iba::{
    AttributeMask, Attributes, ModifyError, QueuePair, QueuePairSpec, ReadBudget, Service, State,
};
use converb_engine::memory::{KeyError, KeyTable, ProtectionDomain, Region, RegionSpec};
use converb_engine::work::SendRing;
use converb_engine::{Counters, Time};
use converb_wire::Rkey;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// What a queue pair is created with (`struct ibv_qp_init_attr`).
pub struct NewQueuePair<P: Port, S: Facade> {
    /// The service it gives.
    pub service: Service,
    /// Its protection domain.
    pub domain: ProtectionDomain,
    /// Where send work requests complete.
    pub send_cq: Arc<CompletionQueueHandle<P::Signal, S>>,
    /// Where receives complete.
    pub receive_cq: Arc<CompletionQueueHandle<P::Signal, S>>,
    /// Send work requests that fit.
    pub send_capacity: usize,
    /// Where receives come from, instead of a queue of its own.
    pub shared_receives: Option<Arc<ReceiveQueue<S>>>,
    /// Receives that fit.
    pub receive_capacity: usize,
    /// Scatter-gather entries of a send work request.
    pub send_entries_max: usize,
    /// Scatter-gather entries of a receive.
    pub receive_entries_max: usize,
    /// Inline bytes of a send work request.
    pub inline_max: usize,
    /// The largest payload of a datagram, in bytes (the port's active MTU).
    pub port_mtu: u32,
    /// Whether every send work request asks for a completion.
    pub signal_all: bool,
    /// Who is told of its asynchronous events.
    pub listener: Arc<dyn Listener>,
    /// By what number.
    pub cookie: u64,
}

/// No more queue pairs fit (`ENOMEM`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFull;

/// A queue pair, shared.
pub type Handle<P, S> = Arc<QueuePairHandle<<P as Port>::Signal, S>>;

/// The driver of one process.
pub struct Driver<P: Port, S: Facade> {
    pub(crate) port: P,
    pub(crate) drain: S::Mutex<Drain<P, S>>,
    pub(crate) table: S::RwLock<QueuePairTable<P::Signal, S>>,
    pub(crate) keys: S::RwLock<KeyTable>,
    pub(crate) timers: S::Mutex<TimerQueue>,
    pub(crate) paths: SharedPaths<S>,
    /// Queue pairs that may not send before a credit datagram is answered.
    pub(crate) credit_waiters: S::Mutex<VecDeque<Handle<P, S>>>,
    pub(crate) outlet: Outlet<P, S>,
    pub(crate) reads: ReadBudget,
    pub(crate) counters: Counters,
    pub(crate) forking: Forking,
    /// Slots of processes that have ended: what comes for them comes here.
    pub(crate) taken_over: SlotSet,
    /// When packets were last fetched, in the port's time.
    pub(crate) drained_at: AtomicU64,
    /// When the program last polled in vain.
    pub(crate) polled_at: AtomicU64,
    /// Since when looking has been in vain; 0 if the last look was not.
    pub(crate) fruitless_since: AtomicU64,
    /// The earliest deadline, to be looked at without the lock.
    pub(crate) next_deadline: AtomicU64,
    /// Threads in [`wait_event`](Self::wait_event), which do the progress thread's work.
    pub(crate) event_waiters: AtomicU32,
    /// Whether the progress thread will look at the port, whatever happens, within its longest
    /// pause and before it sleeps.
    pub(crate) progress_looks_again: AtomicBool,
    pub(crate) stopping: AtomicBool,
}

impl<P: Port, S: Facade> Driver<P, S> {
    /// A driver for a port.
    pub fn new(port: P) -> Arc<Self> {
        let table = QueuePairTable::new(port.slots(), port.random());
        let keys = KeyTable::new(port.random());
        let reads = ReadBudget::new(port.receive_buffer_bytes());
        let drain = Drain::new(&port);
        Arc::new(Self {
            drain: S::Mutex::new(drain),
            table: S::RwLock::new(table),
            keys: S::RwLock::new(keys),
            timers: S::Mutex::new(TimerQueue::default()),
            paths: SharedPaths(S::Mutex::new(Paths::default())),
            credit_waiters: S::Mutex::new(VecDeque::with_capacity(16)),
            outlet: Outlet::new(),
            reads,
            counters: Counters::default(),
            forking: Forking::default(),
            taken_over: SlotSet::default(),
            drained_at: AtomicU64::new(0),
            polled_at: AtomicU64::new(0),
            fruitless_since: AtomicU64::new(0),
            next_deadline: AtomicU64::new(Time::NEVER.nanoseconds()),
            event_waiters: AtomicU32::new(0),
            progress_looks_again: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            port,
        })
    }

    /// The port it drives.
    pub fn port(&self) -> &P {
        &self.port
    }

    /// What happened, in numbers.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many queue pairs there are.
    pub fn queue_pairs(&self) -> usize {
        self.table.read().len()
    }

    /// Registers memory (`ibv_reg_mr`).
    ///
    /// # Errors
    /// `TableFull` or `BadRegistration`.
    pub fn register(&self, domain: ProtectionDomain, spec: RegionSpec) -> Result<Region, KeyError> {
        let random = self.port.random() as u32;
        self.keys.write().register(domain, spec, random)
    }

    /// Ends a registration (`ibv_dereg_mr`): when this returns, nobody moves its bytes any more.
    ///
    /// # Errors
    /// `UnknownKey`.
    pub fn deregister(&self, key: Rkey) -> Result<Region, KeyError> {
        self.keys.write().deregister(key)
    }

    /// Creates a queue pair (`ibv_create_qp`).
    ///
    /// # Errors
    /// When all numbers are in use.
    pub fn create_queue_pair(
        &self,
        new: NewQueuePair<P, S>,
    ) -> Result<Arc<QueuePairHandle<P::Signal, S>>, TableFull> {
        let mut table = self.table.write();
        let qpn = table.free_number().ok_or(TableFull)?;
        let queue_pair = QueuePair::new(&QueuePairSpec {
            qpn,
            service: new.service,
            signal_all: new.signal_all,
            send_capacity: new.send_capacity,
            send_entries_max: new.send_entries_max,
            inline_max: new.inline_max,
            port_mtu: new.port_mtu,
        });
        let posted = SendRing::new(new.send_capacity, new.send_entries_max, new.inline_max);
        let receives = new.shared_receives.unwrap_or_else(|| {
            Arc::new(ReceiveQueue::own(new.receive_capacity, new.receive_entries_max))
        });
        let handle = Arc::new(QueuePairHandle {
            qpn,
            domain: new.domain,
            cookie: new.cookie,
            send_cq: new.send_cq,
            receive_cq: new.receive_cq,
            listener: new.listener,
            service: new.service,
            receives,
            posted: S::Mutex::new(posted),
            unfinished: AtomicU32::new(0),
            protocol: S::Mutex::new(Protocol {
                queue_pair,
                path: Arc::default(),
                timer: Time::NEVER,
                touched: false,
                has_received: false,
                noting: None,
            }),
            pending: <S::Flag as crate::facade::Flag>::new(),
            state: AtomicU32::new(0),
            used_at: AtomicU64::new(0),
            is_handed_on: AtomicBool::new(false),
            reply: ReplyHabit::default(),
        });
        table.insert(Arc::clone(&handle));
        Ok(handle)
    }

    /// Changes state and attributes of a queue pair (`ibv_modify_qp`).
    ///
    /// # Errors
    /// Which rule the arguments break (`EINVAL`).
    pub fn modify(
        &self,
        queue_pair: &Arc<QueuePairHandle<P::Signal, S>>,
        new: &Attributes,
        mask: AttributeMask,
    ) -> Result<(), ModifyError> {
        self.use_now(queue_pair);
        if mask.contains(AttributeMask::STATE) && ends(new.state) {
            // An answer may wait for a request to go with.
            self.kick(queue_pair);
        }
        let result = self.modify_locked(queue_pair, new, mask);
        // What an error state flushes, and what others left while the lock was held.
        self.kick(queue_pair);
        result
    }

    fn modify_locked(
        &self,
        queue_pair: &Arc<QueuePairHandle<P::Signal, S>>,
        new: &Attributes,
        mask: AttributeMask,
    ) -> Result<(), ModifyError> {
        let keys = self.keys.read();
        let mut protocol = queue_pair.protocol.lock();
        let protocol = &mut *protocol;
        if let (true, Some(path)) = (mask.contains(AttributeMask::PATH), new.path) {
            let destination = if mask.contains(AttributeMask::DESTINATION) {
                new.destination
            } else {
                protocol.queue_pair.destination()
            };
            // The old path gets back what is in flight on it before the new one is charged.
            if protocol.queue_pair.is_idle() {
                protocol.path = self.paths.0.lock().find(path.remote, destination);
            }
        }
        if mask.contains(AttributeMask::STATE) && ends(new.state) {
            self.say_farewell(protocol);
        }
        let result = self.with_environment(queue_pair, &keys, protocol, |queue_pair, env| {
            queue_pair.modify(new, mask, env)
        });
        let state = protocol.queue_pair.state();
        queue_pair.publish_state(state);
        if result.is_ok() && state == State::Reset {
            self.empty(queue_pair);
        }
        result
    }

    /// The attributes of a queue pair (`ibv_query_qp`).
    pub fn query(&self, queue_pair: &Arc<QueuePairHandle<P::Signal, S>>) -> Attributes {
        let attributes = queue_pair.protocol.lock().queue_pair.attributes();
        self.serve_pending(queue_pair);
        attributes
    }

    /// Destroys a queue pair (`ibv_destroy_qp`): what is under way ends without completions, and
    /// those of it that wait are forgotten.
    pub fn destroy(&self, queue_pair: &Arc<QueuePairHandle<P::Signal, S>>) {
        if queue_pair.is_handed_on() {
            return;
        }
        // A child that wants it from now on comes too late, also when this process is gone.
        self.use_now(queue_pair);
        // An answer may wait for a request to go with.
        self.kick(queue_pair);
        self.table.write().remove(queue_pair.qpn);
        let mut protocol = queue_pair.protocol.lock();
        self.say_farewell(&protocol);
        let path = Arc::clone(&protocol.path);
        protocol.queue_pair.reset(&path, &self.reads);
        queue_pair.publish_state(State::Reset);
        self.empty(queue_pair);
        queue_pair.send_cq.forget(queue_pair.qpn);
        queue_pair.receive_cq.forget(queue_pair.qpn);
    }

    /// Forgets posted work requests, with the protocol lock held.
    pub(crate) fn empty(&self, queue_pair: &QueuePairHandle<P::Signal, S>) {
        queue_pair.posted.lock().clear();
        queue_pair.receives.clear();
        queue_pair.unfinished.store(0, std::sync::atomic::Ordering::Release);
    }
}

/// Whether a queue pair answers no more in a state.
fn ends(state: State) -> bool {
    matches!(state, State::Reset | State::Error)
}
