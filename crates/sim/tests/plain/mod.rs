//! The plainest port there is: two nodes, a queue of packets each way, nothing lost, and a clock
//! that a test moves by hand.

#![allow(dead_code, reason = "each test uses its part")]

use converb_driver::{Interest, Port, Received, Sent, Signal, Woken};
use converb_engine::{Address, AddressVector, Fault, Memory, PacketSink, Time};
use converb_wire::Qpn;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Where every node's memory begins.
pub const BASE: u64 = 0x10_0000;

/// What both nodes share: packets on their way, and the time.
#[derive(Default)]
pub struct Cable {
    queues: [Mutex<VecDeque<Vec<u8>>>; 2],
    nanoseconds: AtomicU64,
    full: [AtomicBool; 2],
}

impl Cable {
    /// Lets time pass.
    pub fn pass(&self, nanoseconds: u64) {
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Fills the send buffer of an end, or empties it.
    pub fn fill(&self, index: usize, full: bool) {
        self.full[index].store(full, Ordering::Relaxed);
    }
}

/// The memory of one node.
pub struct Bytes(Mutex<Vec<u8>>);

impl Bytes {
    fn range(address: u64, length: usize, size: usize) -> Result<std::ops::Range<usize>, Fault> {
        let start = address.checked_sub(BASE).ok_or(Fault { address })? as usize;
        let end = start.checked_add(length).filter(|&end| end <= size).ok_or(Fault { address })?;
        Ok(start..end)
    }
}

impl Memory for Bytes {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let bytes = self.0.lock().unwrap();
        into.copy_from_slice(&bytes[Self::range(address, into.len(), bytes.len())?]);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let mut bytes = self.0.lock().unwrap();
        let range = Self::range(address, from.len(), bytes.len())?;
        bytes[range].copy_from_slice(from);
        Ok(())
    }

    fn compare_and_swap(&self, address: u64, _: u64, _: u64) -> Result<u64, Fault> {
        Err(Fault { address })
    }

    fn fetch_and_add(&self, address: u64, _: u64) -> Result<u64, Fault> {
        Err(Fault { address })
    }
}

/// A signal that counts.
#[derive(Default)]
pub struct Count(AtomicUsize);

impl Count {
    /// Takes one raise, if there is one.
    pub fn take(&self) -> bool {
        let less = |count: usize| count.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

impl Signal for Count {
    fn raise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Up to 64 KiB of packets.
#[derive(Default)]
pub struct Batch {
    packets: Vec<Vec<u8>>,
    bytes: usize,
}

impl PacketSink for Batch {
    fn begin(&mut self, _: &AddressVector, _: Qpn, length: usize) -> Option<&mut [u8]> {
        if self.bytes != 0 && self.bytes + length > 64 << 10 {
            return None;
        }
        self.bytes += length;
        self.packets.push(vec![0xee; length]);
        self.packets.last_mut().map(Vec::as_mut_slice)
    }

    fn finish(&mut self) {}

    fn abandon(&mut self) {
        self.packets.pop();
    }
}

/// One end of the cable.
pub struct PlainPort {
    cable: Arc<Cable>,
    index: u16,
    slots: [u16; 1],
    memory: Bytes,
    random: AtomicU64,
}

impl PlainPort {
    /// End 0 or 1, with `memory` bytes of zeros.
    pub fn new(cable: &Arc<Cable>, index: u16, memory: usize) -> Self {
        Self {
            cable: Arc::clone(cable),
            index,
            slots: [index + 1],
            memory: Bytes(Mutex::new(vec![0; memory])),
            random: AtomicU64::new(0x1234_5678_9abc_def0 + u64::from(index)),
        }
    }
}

impl Port for PlainPort {
    type Outgoing = Batch;
    type Incoming = (VecDeque<Vec<u8>>, Vec<u8>);
    type Memory = Bytes;
    type Signal = Count;

    fn new_outgoing(&self) -> Batch {
        Batch::default()
    }

    fn new_incoming(&self) -> Self::Incoming {
        Self::Incoming::default()
    }

    fn is_empty(&self, batch: &Batch) -> bool {
        batch.packets.is_empty()
    }

    fn send(&self, batch: &mut Batch) -> Sent {
        if self.cable.full[usize::from(self.index)].load(Ordering::Relaxed) {
            return Sent::Full;
        }
        let mut queue = self.cable.queues[usize::from(1 - self.index)].lock().unwrap();
        queue.extend(batch.packets.drain(..));
        batch.bytes = 0;
        Sent::All
    }

    fn receive(&self, batch: &mut Self::Incoming) -> bool {
        let mut queue = self.cable.queues[usize::from(self.index)].lock().unwrap();
        let count = queue.len().min(32);
        batch.0 = queue.drain(..count).collect();
        count != 0
    }

    fn next<'a>(&self, batch: &'a mut Self::Incoming) -> Option<Received<'a>> {
        batch.1 = batch.0.pop_front()?;
        Some(Received {
            source: Address::Lid(1 - self.index),
            local: Address::Lid(self.index),
            traffic_class: 0,
            hop_limit: 0,
            bytes: &batch.1,
        })
    }

    fn wait(&self, _: Interest) -> Woken {
        Woken::default()
    }

    fn wait_with(&self, _: &Count, _: Interest) -> Woken {
        Woken::default()
    }

    fn wake(&self) {}

    fn memory(&self) -> &Bytes {
        &self.memory
    }

    fn now(&self) -> Time {
        Time::from_nanoseconds(self.cable.nanoseconds.load(Ordering::Relaxed))
    }

    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn receive_buffer_bytes(&self) -> usize {
        212_992
    }

    fn random(&self) -> u64 {
        self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }

    fn pass_on(&self, _: u16, _: &Received<'_>) -> bool {
        false
    }
}
