//! Management datagrams for members whose connections are full just now.
//!
//! Where many connect at once a member gets more than its connection holds before it has run again. Each
//! message that is lost then costs a retry, so some of them wait here.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::Agent;
use super::members::Presence;
use crate::protocol::{ManagementDatagram, Reply};
use crate::transfer;

/// What waits, by the members' numbers.
#[derive(Debug, Default)]
pub struct Queued(BTreeMap<u64, VecDeque<ManagementDatagram>>);

/// So many wait for one member; what comes then is lost, and comes again.
const QUEUED_MAX: usize = 4096;
/// When to look again whether there is room.
const PAUSE: Duration = Duration::from_millis(1);

impl Queued {
    /// A datagram has to wait; false if there is no room.
    fn push(&mut self, member: u64, datagram: ManagementDatagram) -> bool {
        let queue = self.0.entry(member).or_default();
        let has_room = queue.len() < QUEUED_MAX;
        if has_room {
            queue.push_back(datagram);
        }
        has_room
    }

    /// What waits for a member is nobody's.
    pub fn forget(&mut self, member: u64) {
        self.0.remove(&member);
    }
}

impl Agent {
    /// Gives a datagram to a member, after those that wait for it.
    pub(super) fn deliver(&mut self, number: u64, datagram: ManagementDatagram) {
        let is_first = !self.queued.0.contains_key(&number);
        let is_delivered = is_first && self.pass(number, &datagram);
        if !is_delivered && !self.queued.push(number, datagram) {
            self.management.count_undelivered();
        }
    }

    /// Gives members what waits for them; when to try again.
    pub(super) fn deliver_queued(&mut self) -> Option<Duration> {
        let members: Vec<u64> = self.queued.0.keys().copied().collect();
        for number in members {
            while let Some(datagram) = self.queued.0.get_mut(&number).and_then(VecDeque::pop_front)
            {
                if !self.pass(number, &datagram) {
                    self.queued.0.entry(number).or_default().push_front(datagram);
                    break;
                }
            }
            if self.queued.0.get(&number).is_some_and(VecDeque::is_empty) {
                self.queued.forget(number);
            }
        }
        (!self.queued.0.is_empty()).then(|| self.now() + PAUSE)
    }

    fn pass(&self, number: u64, datagram: &ManagementDatagram) -> bool {
        match self.members.get(&number).map(|member| &member.presence) {
            Some(Presence::Connected(connection)) => {
                transfer::send(connection, &Reply::Management(datagram.clone()).emit(), &[]).is_ok()
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_wait_and_no_more() {
        let datagram = ManagementDatagram::numbered(0);
        let mut queued = Queued::default();
        assert!((0..QUEUED_MAX).all(|_| queued.push(1, datagram.clone())));
        assert!(!queued.push(1, datagram.clone()));
        assert!(queued.push(2, datagram.clone()), "another's queue is another's");
        queued.forget(1);
        assert!(queued.push(1, datagram));
    }
}
