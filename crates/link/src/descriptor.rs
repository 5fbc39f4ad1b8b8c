//! Where our descriptors sit: high, out of the program's way.
//!
//! Programs see descriptors: they close ranges of them, expect small numbers, and may close ours.
//! The kernel always hands out the lowest free number, so a number near the top stays unused
//! after the program has closed it, and a call on it fails with EBADF instead of reaching a
//! stranger's file.

use core::sync::atomic::{AtomicU64, Ordering};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Moves a descriptor to a high number and makes it close-on-exec: near the soft limit or 4096,
/// whichever is lower, else below that, else it stays where it is.
pub fn raise(descriptor: OwnedFd) -> OwnedFd {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(HIGHEST);
    let highest = limit.saturating_sub(ROOM);
    let turn = highest + TURN.fetch_add(1, Ordering::Relaxed) % ROOM;
    for (enough, start) in
        [(highest, turn), (highest, highest), (limit / 2, limit / 2), (limit / 8, limit / 8)]
    {
        let [enough, start] = [enough, start].map(|number| RawFd::try_from(number).unwrap_or(0));
        if descriptor.as_raw_fd() >= enough {
            return descriptor;
        }
        if let Ok(raised) = fcntl_dupfd_cloexec(&descriptor, start) {
            return raised;
        }
    }
    descriptor
}

/// Where the next search starts, from the lowest of our numbers. It moves on, so that a number
/// which the program has closed is not ours again soon: its old owner, which does not know it
/// yet, must find it closed and not another of our descriptors.
static TURN: AtomicU64 = AtomicU64::new(0);

/// Descriptors beyond this slow every fork down: the kernel copies a table up to the highest.
const HIGHEST: u64 = 4096;
/// Numbers kept for us: senders, slots, rings, the vault, and some.
const ROOM: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn a_raised_descriptor_is_high_and_closed_on_exec() {
        let low = eventfd(0, EventfdFlags::empty()).expect("an eventfd");
        let high = raise(low);
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(HIGHEST);
        assert!(u64::from(high.as_raw_fd().cast_unsigned()) >= limit - ROOM);
        let flags = rustix::io::fcntl_getfd(&high).expect("open");
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        let number = high.as_raw_fd();
        assert_eq!(raise(high).as_raw_fd(), number, "raised once is enough");
    }

    #[test]
    fn a_closed_number_is_not_given_again_at_once() {
        let mut last = -1;
        for _ in 0..10 {
            let high = raise(eventfd(0, EventfdFlags::empty()).expect("an eventfd"));
            assert_ne!(high.as_raw_fd(), last);
            last = high.as_raw_fd();
        }
    }
}
