//! The virtual programs: what their threads do, and the objects they share.

mod connect;
mod consume;
mod events;
mod post;
mod receive;
mod setup;

pub use consume::consume;
pub use events::{Events, Left};
pub use post::{kill, post_sends, reply};
pub use receive::post_receives;

use crate::facade::SimFacade;
use crate::model::Model;
use crate::port::{SimPort, SimSignal};
use crate::scenario::Scenario;
use crate::world::World;
use converb_driver::{Channel, CompletionQueueHandle, Driver, QueuePairHandle, ReceiveQueue};
use converb_engine::iba::State;
use converb_wire::Rkey;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A completion queue of the simulator.
pub type SimCompletionQueue = CompletionQueueHandle<SimSignal, SimFacade>;

/// A node: a virtual process.
pub struct Node {
    /// Its driver.
    pub driver: Arc<Driver<SimPort, SimFacade>>,
    /// Its completion queues.
    pub completion_queues: Vec<Arc<SimCompletionQueue>>,
    /// Their channel.
    pub channel: Arc<Channel<SimSignal, SimFacade>>,
    /// The key of the words that atomics work on.
    words: Rkey,
}

/// The keys of an end's regions.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    source: Rkey,
    results: Rkey,
    window: Rkey,
    archive: Rkey,
}

/// A queue pair and what belongs to it.
pub struct End {
    /// The queue pair.
    pub queue_pair: Arc<QueuePairHandle<SimSignal, SimFacade>>,
    keys: Keys,
    /// Where it takes its receives from, if others do so too.
    shared: Option<Arc<ReceiveQueue<SimFacade>>>,
}

/// Everything that the threads of a run share.
pub struct Stage {
    /// What is played.
    pub scenario: Arc<Scenario>,
    /// Where.
    pub world: Arc<World>,
    /// Who watches.
    model: Mutex<Model>,
    /// Who listens to asynchronous events.
    pub events: Arc<Events>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The ends.
    pub ends: Vec<End>,
}

impl Stage {
    /// The model; nobody is switched away while it is locked.
    pub fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the run if something is wrong.
    pub fn hold(&self, result: Result<(), String>) {
        if let Err(why) = result {
            self.world.fail(why);
        }
    }

    /// Whether an end is in the error state.
    pub fn is_dead(&self, end: usize) -> bool {
        self.ends[end].queue_pair.state() == State::Error
    }

    /// Whether an end has work that nobody has looked at.
    pub fn is_left_alone(&self, end: usize) -> bool {
        self.ends[end].queue_pair.is_left_alone()
    }

    /// How often a node has refused a datagram for its Q_Key.
    pub fn wrong_queue_keys(&self, node: usize) -> u64 {
        self.nodes[node].driver.counters().dropped_wrong_queue_key.load(Ordering::Relaxed)
    }

    /// How often a node has waited in vain for an acknowledgement.
    pub fn ack_timeouts(&self, node: usize) -> u64 {
        self.nodes[node].driver.counters().ack_timeouts.load(Ordering::Relaxed)
    }

    /// The memory of a node as it is now.
    pub fn with_memory<R>(&self, node: usize, look: impl FnOnce(&[u8]) -> R) -> R {
        converb_driver::Port::memory(self.nodes[node].driver.port()).with(look)
    }
}
