//! A port whose memory counts what is copied, and whose progress thread pauses for good once it
//! has found somebody polling: so nothing that is counted depends on when it looks.

use converb_driver::{Interest, Port, Received, Sent, Woken};
use converb_engine::{Fault, Memory, Time};
use converb_link::{EventSignal, ProgramMemory, UdpPort};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub struct CountingPort {
    pub inner: UdpPort,
    memory: CountingMemory,
    is_pausing: AtomicBool,
}

pub struct CountingMemory {
    inner: ProgramMemory,
    copied: AtomicU64,
}

impl CountingPort {
    pub fn new(inner: UdpPort) -> Self {
        let memory = CountingMemory { inner: ProgramMemory::new(), copied: AtomicU64::new(0) };
        Self { inner, memory, is_pausing: AtomicBool::new(false) }
    }

    /// Whether the progress thread stays away.
    pub fn is_pausing(&self) -> bool {
        self.is_pausing.load(Ordering::Acquire)
    }
}

impl CountingMemory {
    /// Bytes copied so far, in either direction.
    pub fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: usize) {
        self.copied.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Memory for CountingMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.count(into.len());
        self.inner.read(address, into)
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        self.count(from.len());
        self.inner.write(address, from)
    }

    fn compare_and_swap(&self, address: u64, compare: u64, swap: u64) -> Result<u64, Fault> {
        self.inner.compare_and_swap(address, compare, swap)
    }

    fn fetch_and_add(&self, address: u64, add: u64) -> Result<u64, Fault> {
        self.inner.fetch_and_add(address, add)
    }
}

impl Port for CountingPort {
    type Outgoing = <UdpPort as Port>::Outgoing;
    type Incoming = <UdpPort as Port>::Incoming;
    type Memory = CountingMemory;
    type Signal = EventSignal;

    fn new_outgoing(&self) -> Self::Outgoing {
        self.inner.new_outgoing()
    }

    fn new_incoming(&self) -> Self::Incoming {
        self.inner.new_incoming()
    }

    fn is_empty(&self, batch: &Self::Outgoing) -> bool {
        self.inner.is_empty(batch)
    }

    fn send(&self, batch: &mut Self::Outgoing) -> Sent {
        self.inner.send(batch)
    }

    fn receive(&self, batch: &mut Self::Incoming) -> bool {
        self.inner.receive(batch)
    }

    fn next<'a>(&self, batch: &'a mut Self::Incoming) -> Option<Received<'a>> {
        self.inner.next(batch)
    }

    fn wait(&self, interest: Interest) -> Woken {
        let pauses = !interest.receivable && !interest.sendable;
        self.is_pausing.fetch_or(pauses, Ordering::AcqRel);
        let timeout = if pauses { None } else { interest.timeout };
        self.inner.wait(Interest { timeout, ..interest })
    }

    fn wait_with(&self, signal: &EventSignal, interest: Interest) -> Woken {
        self.inner.wait_with(signal, interest)
    }

    fn wake(&self) {
        self.inner.wake();
    }

    fn memory(&self) -> &CountingMemory {
        &self.memory
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn slots(&self) -> &[u16] {
        self.inner.slots()
    }

    fn receive_buffer_bytes(&self) -> usize {
        self.inner.receive_buffer_bytes()
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }

    fn pass_on(&self, slot: u16, packet: &Received<'_>) -> bool {
        self.inner.pass_on(slot, packet)
    }
}
