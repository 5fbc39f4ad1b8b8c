//! The rings of this host's processes, by the slots that they have.

use super::{RingReceiver, RingSender};
use crate::udp::{Relay, Relayed};
use converb_driver::Received;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Passes packets on by rings.
pub struct Peers {
    /// Only one thread takes packets at a time, so it never waits for this lock.
    own: Mutex<RingReceiver>,
    /// What `own` is woken by.
    bell: std::os::fd::OwnedFd,
    others: Arc<Others>,
}

/// The rings of other processes. They come and go while the port is at work.
#[derive(Default)]
pub struct Others {
    by_slot: RwLock<BTreeMap<u16, Arc<RingSender>>>,
}

impl Peers {
    /// Receives by `own` and sends to `others`.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(own: RingReceiver, others: Arc<Others>) -> std::io::Result<Self> {
        let bell = crate::raise(own.bell().try_clone_to_owned()?);
        Ok(Self { own: Mutex::new(own), bell, others })
    }
}

impl Others {
    /// Packets for `slot` go to this ring from now on.
    pub fn insert(&self, slot: u16, ring: Arc<RingSender>) {
        self.by_slot.write().unwrap_or_else(PoisonError::into_inner).insert(slot, ring);
    }

    /// The process that had `slot` is gone.
    pub fn remove(&self, slot: u16) {
        self.by_slot.write().unwrap_or_else(PoisonError::into_inner).remove(&slot);
    }

    fn find(&self, slot: u16) -> Option<Arc<RingSender>> {
        let by_slot = self.by_slot.read().unwrap_or_else(PoisonError::into_inner);
        by_slot.get(&slot).map(Arc::clone)
    }
}

impl Relay for Peers {
    fn pass_on(&self, slot: u16, packet: &Received<'_>) -> bool {
        self.others.find(slot).is_some_and(|ring| ring.push(packet))
    }

    fn take(&self, into: &mut Relayed) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).pop(into);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(std::os::fd::AsFd::as_fd(&self.bell))
    }

    fn quieten(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
    }
}
