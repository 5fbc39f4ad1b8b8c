//! Members of other users: what they get instead of sockets, and how much of it.

use std::os::fd::OwnedFd;

use converb_link::Carrier;
use rustix::io::Errno;

use super::Agent;
use super::carrying::Carriage;
use super::members::{Member, Presence, send_slots};
use crate::identity::User;
use crate::protocol::{CarriedWelcome, DESCRIPTORS_MAX, Reply};
use crate::{limit, transfer};

/// The most slots of one other user, and of all of them: our own user's programs shall find some.
const SLOTS_PER_USER_MAX: usize = 256;
const SLOTS_OF_OTHERS_MAX: usize = 512;

impl Agent {
    /// How many more slots `user` may have carried for it.
    pub(super) fn may_carry(&self, user: User) -> usize {
        let carried = self.members.values().filter(|member| member.is_carried);
        let (mut of_user, mut of_all) = (0, 0);
        for member in carried {
            of_all += member.slots.len();
            of_user += if member.user == user { member.slots.len() } else { 0 };
        }
        let left = SLOTS_OF_OTHERS_MAX.saturating_sub(of_all);
        left.min(SLOTS_PER_USER_MAX.saturating_sub(of_user))
    }

    /// Begins to carry a member's datagrams, and tells it so.
    pub(super) fn welcome_carried(&mut self, member: &Member) -> Result<(), Errno> {
        let Presence::Connected(connection) = &member.presence else {
            return Err(Errno::NOTCONN);
        };
        let carriage = match self.carriage.take() {
            Some(carriage) => carriage,
            None => Carriage::start()?,
        };
        let carriage = self.carriage.insert(carriage);
        let mut receive_buffer_bytes = usize::MAX;
        let mut ends: Vec<OwnedFd> = Vec::with_capacity(member.slots.len());
        let mut carriers = Vec::with_capacity(member.slots.len());
        for &slot in &member.slots {
            let (carrier, end, bytes) = Carrier::new(slot, self.vault.copy(slot)?)?;
            receive_buffer_bytes = receive_buffer_bytes.min(bytes);
            carriers.push(carrier);
            ends.push(end);
        }
        let welcome = CarriedWelcome {
            group: self.vault.group(),
            slots: member.slots.len() as u16,
            receive_buffer_bytes: u32::try_from(receive_buffer_bytes).unwrap_or(u32::MAX),
        };
        transfer::send(connection, &Reply::CarriedWelcome(welcome).emit(), &[])?;
        for (numbers, ends) in
            member.slots.chunks(DESCRIPTORS_MAX).zip(ends.chunks(DESCRIPTORS_MAX))
        {
            // What a member does not take out stays in flight, and counts against our own user's
            // programs: they shall have room left to pass theirs.
            limit::while_parking(|| send_slots(connection, numbers, ends))?;
        }
        carriers.into_iter().for_each(|carrier| carriage.add(carrier));
        Ok(())
    }

    /// A slot has lost its owner, carried or not.
    pub(super) fn carry_no_more(&self, slot: u16) {
        if let Some(carriage) = &self.carriage {
            carriage.remove(slot);
        }
    }
}
