//! Those who owned slots before: members that our predecessor left, and those that closed their
//! descriptors.
//!
//! A slot goes back to the process that had it, by the kernel's word for who asks. A process that
//! this agent cannot see, in another process namespace, is taken for the one that had the slot if
//! it is the same user's and that one is absent.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::Agent;
use super::members::{Member, Presence, incarnation};
use super::offer::Offer;
use super::visitors::Visitor;
use crate::identity::{OVERFLOW_UID, User};
use crate::process;
use crate::protocol::{Name, Refusal};
use crate::table::{self, Incarnation, Owner};

/// How much longer than others a process that cannot be seen has time to come back.
const COME_BACK_UNSEEN: Duration = Duration::from_secs(9);

impl Agent {
    /// Gives a member that was left by our predecessor, or that closed its descriptors, its place
    /// again.
    pub(super) fn rejoin(
        &mut self,
        visitor: Visitor,
        claimed: BTreeSet<u16>,
        wants_descriptors: bool,
        is_carried: bool,
        program: Name<16>,
        mut offer: Offer,
    ) {
        let process = incarnation(visitor.peer.pid);
        let user = visitor.peer.user;
        let is_claimed = |member: &Member| member.slots.iter().any(|slot| claimed.contains(slot));
        let earlier: Vec<u64> = self
            .members
            .iter()
            .filter(|(_, member)| is_claimed(member))
            .map(|(&number, _)| number)
            .collect();
        // Whoever is listed with one of these slots has to be the same process, and to lose no
        // other slot by it.
        let is_same = |number: &u64| {
            let member = &self.members[number];
            let is_unseen = member.process.pid == 0 || process.pid == 0;
            let is_absent = !matches!(member.presence, Presence::Connected(_));
            let is_it = member.process == process && (!is_carried || process.start_time != 0)
                || is_unseen && is_absent && user != User::Unknown;
            is_it
                && member.user == user
                && member.is_carried == is_carried
                && member.slots.iter().all(|slot| claimed.contains(slot))
        };
        // Our own user's members may have slots that nobody is listed with, after a predecessor
        // died early. Others have none but those that they are listed with: they prove nothing.
        let owned =
            |slot: &u16| earlier.iter().any(|number| self.members[number].slots.contains(slot));
        let may_have = !is_carried || claimed.iter().all(owned);
        let exist = claimed.iter().all(|&slot| slot > 0 && slot < self.slots.total());
        if claimed.is_empty() || !exist || !may_have || !earlier.iter().all(is_same) {
            visitor.refuse(Refusal::SlotLost);
            return;
        }
        let mut generation = 0;
        let mut joined = self.now();
        for number in earlier {
            let member = self.members.remove(&number).expect("it was just found");
            joined = joined.min(member.joined);
            offer.page = offer.page.or(member.offer.page);
            offer.ring = offer.ring.or(member.offer.ring);
            // Who certainly is the same process has the ring that others know already.
            if member.process == process && process.pid != 0 {
                generation = member.generation;
            }
        }
        for &slot in &claimed {
            // Those of the members just removed are owned already.
            self.slots.claim(slot);
        }
        let member = Member {
            process,
            uid: visitor.peer.uid,
            user,
            is_carried,
            pidfd: visitor.peer.pidfd,
            presence: Presence::Connected(visitor.connection),
            program,
            slots: claimed.into_iter().collect(),
            offer,
            generation,
            joined,
        };
        self.admit(member, wants_descriptors);
    }

    /// Adds a member of our predecessor's that is alive but has not come back yet.
    pub(super) fn await_member(
        &mut self,
        slot: u16,
        process: Incarnation,
        owner: Owner,
        pidfd: Option<OwnedFd>,
    ) {
        let ours = rustix::process::geteuid().as_raw();
        let (uid, user, is_carried) = match owner {
            Owner::Carried(_, Some(uid)) if uid == ours => (uid, User::Same, true),
            Owner::Carried(_, Some(uid)) => (uid, User::Other(uid), true),
            Owner::Carried(_, None) => (OVERFLOW_UID, User::Unknown, true),
            Owner::Process(_) | Owner::Nobody => (ours, User::Same, false),
        };
        // Whoever is out of sight and holds nothing of the group could be dead for ever.
        let presence = if is_carried && pidfd.is_none() {
            Presence::HungUp(self.now() + COME_BACK_UNSEEN)
        } else {
            Presence::Awaited
        };
        if !self.slots.claim(slot) {
            return;
        }
        let member = Member {
            process,
            uid,
            user,
            is_carried,
            pidfd,
            presence,
            program: Name::new(&process::name(process.pid).unwrap_or_default()),
            slots: vec![slot],
            offer: Offer::default(),
            generation: table::generation(self.table.as_fd(), slot).unwrap_or(0),
            joined: self.now(),
        };
        let number = self.next_number();
        let _ = self.watch_member(number, &member);
        self.members.insert(number, member);
    }
}
