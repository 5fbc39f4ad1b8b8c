//! Waiting: which descriptor belongs to whom, and when to look without an event.

use core::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::Agent;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Somebody connects.
    Listener,
    /// A datagram for slot 0.
    Management,
    /// A visitor with this number speaks or hangs up.
    Visitor(u64),
    /// A member with this number speaks or hangs up.
    Connection(u64),
    /// A member's process died.
    Process(u64),
}

impl Source {
    fn encode(self) -> u64 {
        match self {
            Self::Listener => 0,
            Self::Management => 1,
            Self::Visitor(number) => number << 3 | 2,
            Self::Connection(number) => number << 3 | 3,
            Self::Process(number) => number << 3 | 4,
        }
    }

    fn decode(code: u64) -> Self {
        match code & 7 {
            0 => Self::Listener,
            1 => Self::Management,
            2 => Self::Visitor(code >> 3),
            3 => Self::Connection(code >> 3),
            _ => Self::Process(code >> 3),
        }
    }
}

impl Agent {
    /// Serves until there is no reason to go on.
    pub(super) fn run(&mut self) -> Result<(), Errno> {
        while !self.is_stopping {
            let deadlines = [
                self.expire_members(),
                self.expire_visitors(),
                self.expire_held(),
                self.deliver_queued(),
                self.say_farewells(),
                self.idle_deadline(),
            ];
            let now = self.now();
            if self.idle_deadline().is_some_and(|deadline| deadline <= now) {
                // Whoever connected in this moment is still served; who comes later finds nobody
                // and starts the next agent.
                self.accept();
                if self.visitors.is_empty() {
                    return Ok(());
                }
            }
            let next = deadlines.into_iter().flatten().min();
            self.wait(next.map(|deadline| deadline.saturating_sub(now)))?;
        }
        Ok(())
    }

    /// Tells the kernel to wake us for `descriptor`. A closed descriptor needs no removal, except
    /// where copies of it live on.
    pub(super) fn watch(&self, descriptor: impl AsFd, source: Source) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(source.encode());
        epoll::add(&self.epoll, descriptor, data, epoll::EventFlags::IN)
    }

    /// Takes a descriptor out again, before it is given to another owner.
    pub(super) fn unwatch(&self, descriptor: impl AsFd) {
        // It is there, since it was added; and if not, there is nothing to do.
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<(), Errno> {
        // One millisecond more, for the kernel counts from another moment than `now`.
        let limit = limit.map(|limit| limit + Duration::from_millis(1));
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut space = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        let events = match epoll::wait(&self.epoll, &mut space[..], limit.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error),
        };
        for event in events {
            match Source::decode(event.data.u64()) {
                Source::Listener => self.accept(),
                Source::Management => self.handle_management(),
                Source::Visitor(number) => self.handle_visitor(number),
                Source::Connection(number) => self.handle_connection(number),
                Source::Process(number) => self.handle_death(number),
            }
        }
        Ok(())
    }

    /// When to exit, if nobody comes.
    fn idle_deadline(&self) -> Option<Duration> {
        let is_idle = self.members.is_empty() && self.visitors.is_empty();
        is_idle.then_some(self.idle_since + self.idle_limit)
    }
}

const EVENTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_survive_the_kernel() {
        for source in [
            Source::Listener,
            Source::Management,
            Source::Visitor(1),
            Source::Connection(u64::MAX >> 3),
            Source::Process(77),
        ] {
            assert_eq!(Source::decode(source.encode()), source);
        }
    }
}
