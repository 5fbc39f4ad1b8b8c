//! Passing packets on to other members, and taking over what they pass on.
//!
//! A member offers its own ring with every hello. It asks for another's when a packet for that
//! one's slot has come, which is lost, and forgets it when the slot table names another owner.
//! Whoever has no ring, or one of a version that we do not know, gets nothing passed on.

use core::fmt;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use converb_link::{Kept, Others, Peers, RingDescriptors, RingReceiver, RingSender};
use rustix::io::Errno;

use super::Membership;
use super::takeover::Phase;
use crate::protocol::Request;
use crate::{table, transfer};

/// A member's own ring and those of others.
pub struct Rings {
    /// The receiving end, until somebody takes it.
    own: Mutex<Option<RingReceiver>>,
    memory: Kept,
    bell: Kept,
    others: Arc<Others>,
    /// For which ownership of its slot each of the others is good.
    generations: Mutex<BTreeMap<u16, u64>>,
}

impl Rings {
    /// A ring of our own, and none of others.
    pub fn create() -> Result<Self, Errno> {
        let own = RingReceiver::create()?;
        let copy = |descriptor: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(descriptor, 0);
        Ok(Self {
            memory: Kept::new(copy(&own.descriptors().memory)?),
            bell: Kept::new(copy(&own.descriptors().bell)?),
            own: Mutex::new(Some(own)),
            others: Arc::new(Others::watched()?),
            generations: Mutex::default(),
        })
    }

    /// Our ring's memory and bell, unless the program has closed them.
    pub fn offered(&self) -> Option<[BorrowedFd<'_>; 2]> {
        let is_open = self.memory.is_open() && self.bell.is_open();
        let (memory, bell) = self.memory.get().zip(self.bell.get())?;
        is_open.then_some([memory, bell])
    }

    /// Readable when a packet came for a member whose ring we do not have.
    pub fn missed_bell(&self) -> Option<BorrowedFd<'_>> {
        self.others.missed_bell()
    }

    /// Takes what the agent has answered, or the member itself; false if it is no ring.
    pub fn keep(&self, slot: u16, generation: u64, descriptors: Vec<OwnedFd>) -> bool {
        let Ok([memory, bell]) = <[OwnedFd; 2]>::try_from(descriptors) else { return false };
        let Ok(ring) = RingSender::open(RingDescriptors { memory, bell }) else { return false };
        self.generations().insert(slot, generation);
        self.others.insert(slot, Arc::new(ring));
        true
    }

    /// Closes in a fork child what others send to the parent by.
    pub fn abandon_in_child(&self) {
        self.memory.clear();
        self.bell.clear();
    }

    /// Forgets the rings of those who do not own their slots any more, and those we cannot ring.
    fn forget(&self, table: BorrowedFd<'_>) {
        self.generations().retain(|&slot, generation| {
            // One whose bell our program has closed is asked for again.
            let is_current =
                table::generation(table, slot) == Some(*generation) && self.others.has_bell(slot);
            if !is_current {
                self.others.remove(slot);
            }
            is_current
        });
    }

    fn generations(&self) -> std::sync::MutexGuard<'_, BTreeMap<u16, u64>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Membership {
    /// The way to the group's other members, for [`converb_link::UdpPort::set_relay`]. Rings come
    /// and go in it while the membership is looked after. `None` without
    /// [`has_ring`](super::JoinOptions::has_ring), and from the second call on.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn take_relay(&self) -> std::io::Result<Option<Peers>> {
        let Some(rings) = &self.rings else { return Ok(None) };
        let own = rings.own.lock().unwrap_or_else(PoisonError::into_inner).take();
        own.map(|own| Peers::new(own, Arc::clone(&rings.others))).transpose()
    }

    /// Forgets the rings of members that are gone, and lets those be asked for again that were
    /// not to be had. To be called about once a second: a slot rests for two seconds before it
    /// gets another owner. Returns at once.
    pub fn refresh_rings(&self) {
        // Whoever replaces the table holds the lock.
        let Ok(_phase) = self.phase.try_lock() else { return };
        let Some(rings) = &self.rings else { return };
        if let Some(table) = self.table.get() {
            rings.forget(table);
        }
        rings.others.tell_again();
    }

    /// Asks for the rings that were missed; the answers come as other messages do.
    pub(super) fn ask_for_rings(&self, phase: Phase) {
        let Some(rings) = &self.rings else { return };
        let missed = rings.others.take_missed();
        if phase != Phase::Served {
            return;
        }
        let Some(connection) = self.connection.get() else { return };
        for slot in missed {
            // If the agent takes no more, a later packet asks again.
            let _ = transfer::send(connection.as_fd(), &Request::RingQuery { slot }.emit(), &[]);
        }
    }
}

impl fmt::Debug for Rings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Rings")
            .field("others", &*self.generations())
            .finish_non_exhaustive()
    }
}
