//! Requests for services that nobody serves yet.
//!
//! A program that has told its peer over another way where it will listen is often about to do so when
//! the peer asks: with a kernel's connection manager finding the peer takes so long that it is late,
//! and ours is not. So a request waits a little before it is refused, while there are programs at all
//! that could listen.

use std::collections::VecDeque;
use std::time::Duration;

use super::Agent;
use crate::protocol::ManagementDatagram;

/// The requests that wait, oldest first.
#[derive(Debug, Default)]
pub struct Held(VecDeque<(Duration, ManagementDatagram)>);

/// A service that is not there by then will not come.
const WAIT: Duration = Duration::from_millis(250);
/// More than these do not wait: a flood is refused at once.
const HELD_MAX: usize = 1024;

impl Held {
    /// Keeps a request that came at `now`; gives it back if it does not wait. One that waits already
    /// has come once more.
    pub fn keep(
        &mut self,
        datagram: ManagementDatagram,
        now: Duration,
    ) -> Result<(), ManagementDatagram> {
        let is_it = |other: &ManagementDatagram| {
            other.source == datagram.source && other.mad == datagram.mad
        };
        if self.0.iter().any(|(_, other)| is_it(other)) {
            return Ok(());
        }
        if self.0.len() >= HELD_MAX {
            return Err(datagram);
        }
        self.0.push_back((now + WAIT, datagram));
        Ok(())
    }

    fn next(&self) -> Option<Duration> {
        self.0.front().map(|(until, _)| *until)
    }

    fn take_due(&mut self, now: Duration) -> Option<ManagementDatagram> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_front().map(|(_, datagram)| datagram)
    }
}

impl Agent {
    /// Answers the requests that have waited long enough; when the next one has.
    pub(super) fn expire_held(&mut self) -> Option<Duration> {
        let now = self.now();
        while let Some(datagram) = self.held.take_due(now) {
            self.route(datagram, false);
        }
        self.held.next()
    }

    /// A service is there: perhaps one that a request waits for.
    pub(super) fn try_held(&mut self) {
        for (until, datagram) in core::mem::take(&mut self.held.0) {
            if self.is_served(&datagram) {
                self.route(datagram, false);
            } else {
                self.held.0.push_back((until, datagram));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_waits_once_and_for_a_while() {
        let mut held = Held::default();
        let second = Duration::from_secs(1);
        assert!(held.keep(ManagementDatagram::numbered(1), second).is_ok());
        assert!(held.keep(ManagementDatagram::numbered(1), second * 2).is_ok());
        assert_eq!(held.next(), Some(second + WAIT));
        assert!(held.take_due(second).is_none());
        assert!(held.take_due(second + WAIT).is_some());
        assert!(held.take_due(second * 9).is_none(), "it waited once");
    }

    #[test]
    fn a_flood_does_not_wait() {
        let mut held = Held::default();
        let numbered = |number: usize| {
            let mut request = ManagementDatagram::numbered(0);
            request.mad[..8].copy_from_slice(&number.to_ne_bytes());
            request
        };
        for number in 0..HELD_MAX {
            assert!(held.keep(numbered(number), Duration::ZERO).is_ok());
        }
        assert!(held.keep(numbered(HELD_MAX), Duration::ZERO).is_err());
    }
}
