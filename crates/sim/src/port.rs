//! The driver's port in the simulator.

use crate::addresses::Family;
use crate::batch::{Incoming, Outgoing};
use crate::dice::Dice;
use crate::memory::NodeMemory;
use crate::world::{World, address};
use converb_driver::{Interest, Port, Received, Sent, Signal, Woken};
use converb_engine::Time;
use std::sync::{Arc, Mutex, PoisonError};

/// A port of one node.
pub struct SimPort {
    world: Arc<World>,
    node: usize,
    family: Family,
    slots: [u16; 1],
    memory: NodeMemory,
    dice: Mutex<Dice>,
    shape: Shape,
}

/// How a port batches and buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Packets of a batch that goes out.
    pub sends: usize,
    /// Packets that are fetched at once.
    pub receives: usize,
    /// Bytes of the receive buffer, in `truesize`.
    pub buffer: usize,
}

impl SimPort {
    /// The port of a node.
    pub fn new(
        world: &Arc<World>,
        node: usize,
        family: Family,
        memory: NodeMemory,
        dice: Dice,
        shape: Shape,
    ) -> Self {
        let slots = [node as u16 + 1];
        let dice = Mutex::new(dice);
        Self { world: Arc::clone(world), node, family, slots, memory, dice, shape }
    }
}

/// The signal of a completion channel.
pub struct SimSignal {
    world: Arc<World>,
    number: usize,
}

impl SimSignal {
    /// A signal that is not raised.
    pub fn new(world: &Arc<World>) -> Self {
        Self { world: Arc::clone(world), number: world.new_signal() }
    }

    /// Takes one raise, as reading the descriptor does.
    pub fn take(&self) -> bool {
        self.world.take_signal(self.number)
    }
}

impl Signal for SimSignal {
    fn raise(&self) {
        self.world.raise(self.number);
    }
}

impl Port for SimPort {
    type Outgoing = Outgoing;
    type Incoming = Incoming;
    type Memory = NodeMemory;
    type Signal = SimSignal;

    fn new_outgoing(&self) -> Outgoing {
        Outgoing::new(address(self.node), self.shape.sends)
    }

    fn new_incoming(&self) -> Incoming {
        Incoming::default()
    }

    fn is_empty(&self, batch: &Outgoing) -> bool {
        batch.frames.is_empty()
    }

    fn send(&self, batch: &mut Outgoing) -> Sent {
        if self.world.send(self.node, &mut batch.frames) { Sent::All } else { Sent::Full }
    }

    fn receive(&self, batch: &mut Incoming) -> bool {
        batch.frames.clear();
        self.world.receive(self.node, self.shape.receives, &mut batch.frames);
        !batch.frames.is_empty()
    }

    fn next<'a>(&self, batch: &'a mut Incoming) -> Option<Received<'a>> {
        let frame = loop {
            let frame = batch.frames.pop_front()?;
            if frame.is_intact() {
                break frame;
            }
        };
        let frame = batch.current.insert(frame);
        Some(Received {
            source: self.family.address(frame.source),
            local: self.family.address(frame.destination),
            traffic_class: frame.traffic_class,
            hop_limit: frame.hop_limit,
            bytes: &frame.bytes,
        })
    }

    fn wait(&self, interest: Interest) -> Woken {
        self.world.wait(self.node, interest, None)
    }

    fn wait_with(&self, signal: &SimSignal, interest: Interest) -> Woken {
        self.world.wait(self.node, interest, Some(signal.number))
    }

    fn wake(&self) {
        self.world.wake(self.node);
    }

    fn memory(&self) -> &NodeMemory {
        &self.memory
    }

    fn now(&self) -> Time {
        Time::from_nanoseconds(self.world.now())
    }

    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn receive_buffer_bytes(&self) -> usize {
        self.shape.buffer
    }

    fn random(&self) -> u64 {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    fn pass_on(&self, _: u16, _: &Received<'_>) -> bool {
        false
    }
}
