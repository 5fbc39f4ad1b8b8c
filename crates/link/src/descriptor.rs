//! Where our descriptors sit: high, out of the program's way.
//!
//! Programs see descriptors: they close ranges of them, expect small numbers, and may close ours.
//! The kernel always hands out the lowest free number, so a number near the top stays unused
//! after the program has closed it, and a call on it fails with EBADF instead of reaching a
//! stranger's file.

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Moves a descriptor to a high number and makes it close-on-exec: near the soft limit or 4096,
/// whichever is lower, else below that, else it stays where it is.
pub fn raise(descriptor: OwnedFd) -> OwnedFd {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(HIGHEST);
    for start in [limit.saturating_sub(ROOM), limit / 2, limit / 8] {
        let start = RawFd::try_from(start).unwrap_or(0);
        if descriptor.as_raw_fd() >= start {
            return descriptor;
        }
        if let Ok(raised) = fcntl_dupfd_cloexec(&descriptor, start) {
            return raised;
        }
    }
    descriptor
}

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
}
