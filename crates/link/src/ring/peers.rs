//! The rings of this host's processes, by the slots that they have.

use super::{RingReceiver, RingSender};
use crate::kept::Kept;
use crate::udp::{Relay, Relayed};
use converb_driver::Received;
use core::sync::atomic::{AtomicU64, Ordering};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Passes packets on by rings.
pub struct Peers {
    /// Only one thread takes packets at a time, so it never waits for this lock.
    own: Mutex<RingReceiver>,
    /// What `own` is woken by. Once the program has closed it there is none: packets in the ring
    /// are found whenever somebody looks at the port.
    bell: Kept,
    others: Arc<Others>,
}

/// The rings of other processes. They come and go while the port is at work.
#[derive(Default)]
pub struct Others {
    by_slot: RwLock<BTreeMap<u16, Arc<RingSender>>>,
    /// The slots that packets came for and that have no ring here.
    missed: SlotSet,
    /// Those of them that [`Others::take_missed`] has told already.
    told: SlotSet,
    bell: Kept,
}

/// A bit for each slot; numbers beyond are in no set.
type SlotSet = [AtomicU64; 16];

impl Peers {
    /// Receives by `own` and sends to `others`.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(own: RingReceiver, others: Arc<Others>) -> std::io::Result<Self> {
        let bell = Kept::new(own.bell().try_clone_to_owned()?);
        Ok(Self { own: Mutex::new(own), bell, others })
    }
}

impl Others {
    /// None yet, with a descriptor that tells of those that are missed.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn watched() -> Result<Self, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { bell: Kept::new(bell), ..Self::default() })
    }

    /// Readable when [`Others::take_missed`] has something new to tell. `None` for those that are
    /// not [`watched`](Self::watched).
    pub fn missed_bell(&self) -> Option<BorrowedFd<'_>> {
        self.bell.get()
    }

    /// The slots that packets came for in vain, each once until [`Others::tell_again`].
    pub fn take_missed(&self) -> Vec<u16> {
        if let Some(bell) = self.bell.get_open() {
            // With nothing to read it is quiet already.
            let _ = rustix::io::read(bell, &mut [0u8; 8]);
        }
        let mut slots = Vec::new();
        for (index, (missed, told)) in self.missed.iter().zip(&self.told).enumerate() {
            let missed = missed.load(Ordering::Relaxed);
            let new = missed & !told.fetch_or(missed, Ordering::Relaxed);
            let bits = (0..64).filter(|bit| new >> bit & 1 != 0);
            slots.extend(bits.map(|bit| (index * 64 + bit) as u16));
        }
        slots
    }

    /// Forgets which slots were missed, so that the next packet for one of them is told.
    pub fn tell_again(&self) {
        for set in self.missed.iter().zip(&self.told) {
            set.0.store(0, Ordering::Relaxed);
            set.1.store(0, Ordering::Relaxed);
        }
    }

    /// Called by the thread that moves packets: costs it a system call, but not twice for a slot.
    fn miss(&self, slot: u16) {
        let Some(set) = self.missed.get(usize::from(slot) / 64) else { return };
        let bit = 1 << (slot % 64);
        if set.load(Ordering::Relaxed) & bit == 0
            && set.fetch_or(bit, Ordering::Relaxed) & bit == 0
            && let Some(bell) = self.bell.get_open()
        {
            // It fails only if the program has closed it; then the slot stays without a ring.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }

    /// Packets for `slot` go to this ring from now on.
    pub fn insert(&self, slot: u16, ring: Arc<RingSender>) {
        let mut by_slot = self.by_slot.write().unwrap_or_else(PoisonError::into_inner);
        let old = by_slot.insert(slot, ring);
        // Unmapping takes a while; nobody who moves packets shall wait for it.
        drop(by_slot);
        drop(old);
    }

    /// Whether the ring of `slot` can be used fully; see [`RingSender::has_bell`].
    pub fn has_bell(&self, slot: u16) -> bool {
        self.find(slot).is_some_and(|ring| ring.has_bell())
    }

    /// The process that had `slot` is gone.
    pub fn remove(&self, slot: u16) {
        let mut by_slot = self.by_slot.write().unwrap_or_else(PoisonError::into_inner);
        let old = by_slot.remove(&slot);
        drop(by_slot);
        drop(old);
    }

    fn find(&self, slot: u16) -> Option<Arc<RingSender>> {
        let by_slot = self.by_slot.read().unwrap_or_else(PoisonError::into_inner);
        by_slot.get(&slot).map(Arc::clone)
    }
}

impl Relay for Peers {
    fn pass_on(&self, slot: u16, packet: &Received<'_>) -> bool {
        let ring = self.others.find(slot);
        if ring.is_none() {
            self.others.miss(slot);
        }
        ring.is_some_and(|ring| ring.push(packet))
    }

    fn take(&self, into: &mut Relayed) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).pop(into);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.bell.get()
    }

    fn quieten(&self) {
        if let Some(bell) = self.bell.get()
            && !matches!(rustix::io::read(bell, &mut [0u8; 8]), Ok(8) | Err(Errno::AGAIN))
        {
            self.check();
        }
    }

    fn check(&self) {
        if !self.bell.is_open() {
            self.bell.clear();
        }
    }
}
