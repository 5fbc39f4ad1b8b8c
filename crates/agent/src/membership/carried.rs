//! What differs for a member of another user than the agent's, which carries its datagrams.
//!
//! It holds nothing of the group, so it can start no successor when the agent dies: it waits for
//! one that the agent's own user's members start, and asks for one aloud if they do not because
//! the agent was stopped. The successor gives it new ends of pairs for the same slots. If the
//! group ended with its agent, the slots are lost, and the queue pairs fail by their retries.

use core::mem;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use converb_link::Kept;

use super::Membership;
use super::takeover::Phase;
use crate::greeting::Answer;
use crate::identity::Peer;
use crate::name;
use crate::protocol::Reply;

/// Who carries our datagrams, and can read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedBy {
    /// Its user, as our user namespace numbers it.
    pub uid: u32,
    /// Its process; 0 if it cannot be seen from here.
    pub pid: u32,
    /// What a slot has room for, as the kernel counts it.
    pub receive_buffer_bytes: usize,
}

impl CarriedBy {
    pub(super) fn new(agent: &Peer, receive_buffer_bytes: u32) -> Self {
        // The number is another user's: no buffer is smaller than the kernel allows.
        let receive_buffer_bytes = (receive_buffer_bytes as usize).max(BUFFER_BYTES_MIN);
        Self { uid: agent.uid, pid: agent.pid, receive_buffer_bytes }
    }
}

/// SOCK_MIN_RCVBUF, about.
const BUFFER_BYTES_MIN: usize = 2304;

/// What a successor has given, and the call for one.
#[derive(Debug, Default)]
pub struct Renewal {
    ends: Mutex<Vec<(u16, OwnedFd)>>,
    /// The name by which newcomers ask for a successor, if we hold it.
    wanted: Kept,
}

impl Renewal {
    /// Closes in a fork child what belongs to the parent, without a lock; what a successor has
    /// given in this very moment stays open, and is an end of a pair that nobody reads.
    pub fn abandon_in_child(&self) {
        self.wanted.clear();
    }

    /// Asks members to start a successor.
    pub fn call(&self) {
        if self.wanted.get().is_some() {
            return;
        }
        // If another process holds the name, it asks for us as well.
        let name = name::hold(name::WANTED).and_then(|name| name::listen(&name).map(|()| name));
        if let Ok(name) = name {
            self.wanted.set(name);
        }
    }

    /// There is one.
    pub fn call_no_more(&self) {
        self.wanted.clear();
    }

    fn ends(&self) -> std::sync::MutexGuard<'_, Vec<(u16, OwnedFd)>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Membership {
    /// Who carries our datagrams, if the agent is another user's. Then
    /// [`Membership::take_slots`] gives ends of pairs, for [`converb_link::UdpPort::carried`].
    pub fn carried_by(&self) -> Option<CarriedBy> {
        self.carried_by
    }

    /// What another agent has given since the last call, for [`converb_link::UdpPort::renew`]: to
    /// be looked at after each [`Membership::handle_event`].
    pub fn take_renewed(&self) -> Vec<(u16, OwnedFd)> {
        mem::take(&mut *self.renewal.ends())
    }

    /// Takes what a successor says after its welcome.
    pub(super) fn handle_renewal(&self, answer: Answer) -> Phase {
        if let Reply::Slots(part) = answer.reply {
            let ends = part.numbers.into_iter().zip(answer.descriptors);
            let numbers = self.slot_numbers();
            let ours = ends.filter(|(number, _)| numbers.contains(number));
            let ours = ours.map(|(number, end)| (number, converb_link::raise(end)));
            let mut renewed = self.renewal.ends();
            for (number, end) in ours {
                renewed.retain(|&(other, _)| other != number);
                renewed.push((number, end));
            }
        }
        Phase::Served
    }
}
