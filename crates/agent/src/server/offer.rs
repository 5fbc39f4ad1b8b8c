//! What members share with each other through the agent: counters, and rings by which they pass
//! packets on.

use std::os::fd::{AsFd, OwnedFd};

use converb_link::RingDescriptors;
use rustix::time::{ClockId, clock_gettime};

use super::Agent;
use super::members::{Member, Presence};
use crate::counters::PageView;
use crate::protocol::Reply;
use crate::transfer;

/// What a member shares with others, as far as it does.
#[derive(Debug, Default)]
pub struct Offer {
    pub page: Option<PageView>,
    /// By which others pass packets on to it.
    pub ring: Option<RingDescriptors>,
}

impl Offer {
    /// What came with a hello: the page, the two of the ring, or all three.
    pub fn of(descriptors: Vec<OwnedFd>) -> std::io::Result<Self> {
        let has_page = descriptors.len() % 2 == 1;
        let mut descriptors = descriptors.into_iter();
        let page =
            if has_page { descriptors.next().map(PageView::open).transpose()? } else { None };
        let ring = descriptors
            .next()
            .zip(descriptors.next())
            .map(|(memory, bell)| RingDescriptors { memory, bell });
        Ok(Self { page, ring })
    }
}

impl Agent {
    /// Tells a member how to pass packets on to the owner of `slot`.
    pub(super) fn give_ring(&self, number: u64, slot: u16) {
        let Some(Member { presence: Presence::Connected(connection), .. }) =
            self.members.get(&number)
        else {
            return;
        };
        let owner = self.members.iter().find(|(_, member)| member.slots.contains(&slot));
        let owner = owner.filter(|&(&owner, _)| owner != number).map(|(_, member)| member);
        let generation = owner.map_or(0, |owner| owner.generation);
        let ring = owner.and_then(|owner| owner.offer.ring.as_ref());
        let descriptors = ring.map(|ring| [ring.memory.as_fd(), ring.bell.as_fd()]);
        let reply = Reply::Ring { slot, generation };
        // One who does not listen goes without; it may ask again.
        let _ = transfer::send(connection, &reply.emit(), descriptors.as_ref().map_or(&[], |d| d));
    }
}

/// A number that no agent has given before: they follow each other, and time goes on.
pub fn new_generation() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    // Neither is negative, and 2^64 ns are 584 years.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
