//! Those who own slots: how they get them, and what happens when they go.
//!
//! A member's death is seen by its pidfd and by nothing else, for forked children keep
//! connections open. A connection that ends without a death means that the process executes
//! another program, or has closed all its descriptors; in the second case it comes back at once,
//! so its slots wait for it a second.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::Agent;
use super::events::Source;
use super::offer::{Offer, new_generation};
use super::visitors::Visitor;
use crate::counters::PageView;
use crate::failures::Kept;
use crate::identity::{User, open_pidfd};
use crate::process;
use crate::protocol::{
    DESCRIPTORS_MAX, Name, Refusal, Reply, Request, SLOTS_PER_MEMBER_MAX, Slots, Welcome,
};
use crate::table::{Incarnation, Owner};
use crate::transfer;

/// How long after a hang-up a living process may come back for its slots.
const COME_BACK: Duration = Duration::from_secs(1);

/// No message of a member's is longer.
const MEMBERS_MESSAGE_MAX: usize = 512;

/// How many datagrams to throw away at most when a slot changes hands; whoever sends faster than
/// that finds queue pairs that do not exist, which is harmless.
const DRAIN_MAX: usize = 65536;

/// One process that owns slots.
#[derive(Debug)]
pub struct Member {
    pub process: Incarnation,
    pub uid: u32,
    /// Whose it is, by the kernel's word.
    pub user: User,
    /// Whether it has no sockets, and its datagrams are carried.
    pub is_carried: bool,
    /// Readable when the process is dead. `None` if the kernel cannot tell.
    pub pidfd: Option<OwnedFd>,
    pub presence: Presence,
    pub program: Name<16>,
    pub slots: Vec<u16>,
    pub offer: Offer,
    /// What the slot table says of its slots; 0 before it is listed.
    pub generation: u64,
    pub joined: Duration,
}

impl Member {
    /// What failed in it, as far as it has told.
    pub fn failures(&self) -> Vec<Kept> {
        let (pid, program) = (self.process.pid, self.program);
        let records = self.offer.page.as_ref().map(PageView::failures).unwrap_or_default();
        records.into_iter().map(|record| Kept { pid, program, record }).collect()
    }

    /// What the slot table says of it.
    pub fn as_owner(&self) -> Owner {
        let user = (self.user != User::Unknown).then_some(self.uid);
        if self.is_carried {
            Owner::Carried(self.process, user)
        } else {
            Owner::Process(self.process)
        }
    }
}

/// Whether a member has a connection.
#[derive(Debug)]
pub enum Presence {
    /// It has.
    Connected(OwnedFd),
    /// It had one until then.
    HungUp(Duration),
    /// It had one to our predecessor, and is alive as far as can be known.
    Awaited,
}

impl Agent {
    /// Makes a visitor a member with `wanted` slots, or as many as there are.
    pub(super) fn join(
        &mut self,
        visitor: Visitor,
        wanted: u16,
        is_carried: bool,
        program: Name<16>,
        offer: Offer,
    ) {
        let allowed = if is_carried { self.may_carry(visitor.peer.user) } else { usize::MAX };
        let wanted = usize::from(wanted).clamp(1, SLOTS_PER_MEMBER_MAX).min(allowed);
        while self.slots.ready(self.now()) < wanted && self.grow().is_ok() {}
        let now = self.now();
        let mut slots: Vec<u16> =
            core::iter::from_fn(|| self.slots.take(now)).take(wanted).collect();
        slots.sort_unstable();
        if slots.is_empty() {
            visitor.refuse(Refusal::NoSlots {
                total: self.slots.total(),
                soon: self.slots.waiting(now) > 0 && allowed > 0,
                too_many_in_flight: self.cannot_grow(),
            });
            return;
        }
        for &slot in &slots {
            self.drain(slot);
        }
        let member = Member {
            process: incarnation(visitor.peer.pid),
            uid: visitor.peer.uid,
            user: visitor.peer.user,
            is_carried,
            pidfd: visitor.peer.pidfd,
            presence: Presence::Connected(visitor.connection),
            program,
            slots,
            offer,
            generation: 0,
            joined: now,
        };
        self.admit(member, true);
    }

    /// Lists a member whose slots are taken, and tells it so.
    pub(super) fn admit(&mut self, mut member: Member, with_descriptors: bool) {
        if member.generation == 0 {
            member.generation = new_generation();
        }
        // First the table, then the descriptors: whoever has a descriptor is in the table.
        for &slot in &member.slots {
            // A table that cannot be written only costs a successor some knowledge.
            let _ = self.table.set(slot, member.as_owner(), member.generation);
        }
        let number = self.next_number();
        let is_welcome = self
            .watch_member(number, &member)
            .and_then(|()| self.welcome_either(&member, with_descriptors));
        self.members.insert(number, member);
        if is_welcome.is_err() {
            self.remove_member(number);
        }
    }

    /// A slot's owner died while there was no agent: it rests as any other.
    pub(super) fn rest_slot(&mut self, slot: u16) {
        if self.slots.claim(slot) {
            self.release(slot);
        }
    }

    pub(super) fn watch_member(&self, number: u64, member: &Member) -> Result<(), Errno> {
        if let Some(pidfd) = &member.pidfd {
            self.watch(pidfd, Source::Process(number))?;
        }
        if let Presence::Connected(connection) = &member.presence {
            self.watch(connection, Source::Connection(number))?;
        }
        Ok(())
    }

    fn welcome_either(&mut self, member: &Member, with_descriptors: bool) -> Result<(), Errno> {
        if member.is_carried {
            self.welcome_carried(member)
        } else {
            self.welcome(member, with_descriptors)
        }
    }

    /// Sends the welcome, the vault, the table and the slots.
    fn welcome(&self, member: &Member, with_descriptors: bool) -> Result<(), Errno> {
        let Presence::Connected(connection) = &member.presence else {
            return Err(Errno::NOTCONN);
        };
        let table = self.table.read_only().map_err(|_| Errno::MFILE)?;
        let slots = if with_descriptors { &member.slots[..] } else { &[] };
        let welcome = Welcome { group: self.vault.group(), slots: slots.len() as u16 };
        transfer::send(
            connection,
            &Reply::Welcome(welcome).emit(),
            &[self.vault.receiving(), table.as_fd()],
        )?;
        for numbers in slots.chunks(DESCRIPTORS_MAX) {
            let sockets: Vec<OwnedFd> =
                numbers.iter().map(|&slot| self.vault.copy(slot)).collect::<Result<_, _>>()?;
            send_slots(connection, numbers, &sockets)?;
        }
        Ok(())
    }

    /// A member's connection has something to say, or ended.
    pub(super) fn handle_connection(&mut self, number: u64) {
        let Some(member) = self.members.get_mut(&number) else { return };
        let Presence::Connected(connection) = &member.presence else { return };
        let mut buffer = [0; MEMBERS_MESSAGE_MAX];
        match transfer::receive(connection, &mut buffer) {
            Err(Errno::AGAIN) => {}
            Ok(received) if received.length > 0 => {
                match Request::parse(&buffer[..received.length]) {
                    Ok(Request::Leave) => self.remove_member(number),
                    // Rings lead into processes of this user's only.
                    Ok(Request::RingQuery { slot }) if !member.is_carried => {
                        self.give_ring(number, slot);
                    }
                    Ok(Request::Serve { token, service }) => self.serve_for(number, token, service),
                    Ok(Request::Remember { id, words }) => {
                        self.farewells.remember(number, id, words);
                    }
                    Ok(Request::Forget { id }) => self.farewells.forget(number, id),
                    Ok(Request::ServeNoMore { service }) => {
                        self.services.give_back(number, service.id, service.at);
                    }
                    Ok(_) | Err(_) => {}
                }
            }
            Ok(_) | Err(_) => member.presence = Presence::HungUp(self.started.elapsed()),
        }
    }

    /// A member's process is dead.
    pub(super) fn handle_death(&mut self, number: u64) {
        self.remove_member(number);
    }

    /// Lets go of those who hung up and did not come back, and tells when to look again.
    pub(super) fn expire_members(&mut self) -> Option<Duration> {
        let now = self.now();
        let deadline = |member: &Member| match member.presence {
            Presence::HungUp(since) => Some(since + COME_BACK),
            Presence::Connected(_) | Presence::Awaited => None,
        };
        let expired: Vec<u64> = self
            .members
            .iter()
            .filter(|(_, member)| deadline(member).is_some_and(|deadline| deadline <= now))
            .map(|(&number, _)| number)
            .collect();
        for number in expired {
            self.remove_member(number);
        }
        self.members.values().filter_map(deadline).min()
    }

    fn remove_member(&mut self, number: u64) {
        let Some(member) = self.members.remove(&number) else { return };
        self.services.forget(number);
        self.begin_farewells_of(number);
        self.queued.forget(number);
        if let Some(page) = &member.offer.page {
            // What cannot be read is not counted.
            let _ = self.totals.fold(page);
            let failures = member.failures();
            let _ = self.history.add(failures);
        }
        for &slot in &member.slots {
            self.release(slot);
        }
        self.idle_since = self.now();
    }

    fn release(&mut self, slot: u16) {
        self.carry_no_more(slot);
        self.slots.release(slot, self.now());
        // What arrives now is kept for a child that takes the slot over. It is thrown away when the
        // slot is given to another member, or somebody asks how things are.
        let _ = self.table.set(slot, Owner::Nobody, 0);
    }

    /// Throws away, and counts, what has arrived at slots that nobody owns: nobody else reads there.
    pub(super) fn drain_free(&mut self) {
        let free: Vec<u16> = self.slots.free().collect();
        for slot in free {
            self.drain(slot);
        }
    }

    /// Throws away, and counts, what has arrived at a slot that changes hands.
    fn drain(&mut self, slot: u16) {
        let Ok(socket) = self.vault.copy(slot) else { return };
        let mut byte = [0; 1];
        let mut count = 0;
        for _ in 0..DRAIN_MAX {
            match recv(&socket, &mut byte[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                // An error that was queued on the socket is gone once it is reported.
                Ok(_) => count += 1,
                Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH) => {}
                Err(_) => break,
            }
        }
        self.management.count_unclaimed(count);
    }
}

/// Sends a member some of its slots, each with the descriptor that its packets come by.
pub fn send_slots(
    connection: &OwnedFd,
    numbers: &[u16],
    descriptors: &[OwnedFd],
) -> Result<(), Errno> {
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let message = Reply::Slots(Slots { numbers: numbers.to_vec() });
    transfer::send(connection, &message.emit(), &descriptors)
}

pub fn incarnation(pid: u32) -> Incarnation {
    Incarnation { pid, start_time: process::start_time(pid).unwrap_or(0) }
}

/// The process of an incarnation, if it is still the same one and alive. Only for numbers of our
/// own process namespace.
pub fn find_alive(process: Incarnation) -> Option<OwnedFd> {
    let pidfd = open_pidfd(process.pid)?;
    // Looked up after the descriptor was opened: if both agree, it is the right process.
    (process::start_time(process.pid) == Some(process.start_time)).then_some(pidfd)
}
