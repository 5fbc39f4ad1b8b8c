//! Moves the descriptors of this crate to high numbers.
//!
//! The library lives in other people's programs. The kernel hands out the lowest free number, so
//! when a program closes everything it knows and more, a low number of ours would soon be one of
//! its own files; a high one stays closed, and its next use fails cleanly.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

/// `descriptor` under a high number, close-on-exec: near the limit of open files but not beyond
/// 4096, for a very high one makes every fork slow. Lower if that is not to be had, and as it was
/// if nothing is.
pub fn raise(descriptor: OwnedFd) -> OwnedFd {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(HIGHEST).min(HIGHEST) as i32;
    for lowest in [limit - RANGE, limit / 2] {
        if descriptor.as_raw_fd() >= lowest {
            return descriptor;
        }
        if let Ok(high) = fcntl_dupfd_cloexec(&descriptor, lowest.max(0)) {
            return high;
        }
    }
    descriptor
}

const HIGHEST: u64 = 4096;
/// How many of the highest numbers are for us.
const RANGE: i32 = 256;
