//! Letters between members, and slots that a member takes over from one that has ended.

use std::os::fd::{AsFd, OwnedFd};

use super::Agent;
use super::members::{Member, Presence, incarnation};
use super::visitors::Visitor;
use crate::identity::User;
use crate::protocol::{Refusal, Reply, SLOTS_PER_MEMBER_MAX, Slots};
use crate::transfer;

impl Agent {
    /// Hands a letter to the owner of a slot.
    pub(super) fn hand_over(
        &self,
        from: &Visitor,
        slot: u16,
        bytes: Vec<u8>,
        descriptors: &[OwnedFd],
    ) -> Reply {
        // What goes with it leads into processes of this user's only.
        if from.peer.user != User::Same {
            return Reply::Refused(Refusal::OtherUser);
        }
        let owner = self.members.values().find(|member| member.slots.contains(&slot));
        // Who writes to itself has not heard that the slot is its own by now.
        let process = incarnation(from.peer.pid);
        let is_own = |owner: &&Member| process.pid != 0 && owner.process == process;
        let Some(owner) = owner.filter(|owner| !owner.is_carried && !is_own(owner)) else {
            return Reply::Refused(Refusal::SlotLost);
        };
        let Presence::Connected(connection) = &owner.presence else {
            return Reply::Refused(Refusal::Busy);
        };
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        match transfer::send(connection, &Reply::Letter { bytes }.emit(), &descriptors) {
            Ok(()) => Reply::Delivered,
            Err(_) => Reply::Refused(Refusal::Busy),
        }
    }

    /// Gives a slot that nobody owns, for its owner has ended, to the member that asks, and tells it
    /// so; again, if it has it already, for it may not have heard it.
    pub(super) fn give_slot(&mut self, to: &Visitor, slot: u16) {
        let given = self.find_taker(to).and_then(|number| {
            let socket = self.vault.copy(slot).ok()?;
            if self.members.get(&number)?.slots.contains(&slot) {
                return Some(socket);
            }
            let is_full = self.members.get(&number)?.slots.len() >= SLOTS_PER_MEMBER_MAX;
            if is_full || !self.slots.claim(slot) {
                return None;
            }
            let member = self.members.get_mut(&number)?;
            member.slots.push(slot);
            // As when a member is admitted.
            let _ = self.table.set(slot, member.as_owner(), member.generation);
            Some(socket)
        });
        let (reply, descriptors) = match &given {
            Some(socket) => (Reply::Slots(Slots { numbers: vec![slot] }), vec![socket.as_fd()]),
            None => (Reply::Refused(Refusal::SlotLost), Vec::new()),
        };
        // One that does not hear it asks again, or has it all the same until it ends.
        let _ = transfer::send(&to.connection, &reply.emit(), &descriptors);
    }

    /// The member that a visitor is, by the kernel's word.
    fn find_taker(&self, visitor: &Visitor) -> Option<u64> {
        let process = incarnation(visitor.peer.pid);
        let is_it = |number: &u64| {
            let member = &self.members[number];
            member.process == process
                && member.user == User::Same
                && visitor.peer.user == User::Same
                && !member.is_carried
                && matches!(member.presence, Presence::Connected(_))
        };
        let mut numbers = self.members.keys().copied();
        if process.pid == 0 { None } else { numbers.find(|number| is_it(number)) }
    }
}
