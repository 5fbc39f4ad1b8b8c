//! UDP_GRO: one call receives many datagrams of one flow, of equal size but for the last.

use super::control::integer;
use super::option;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Asks for coalesced datagrams. A kernel that cannot says so and delivers plain ones.
pub(crate) fn enable(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    option::set(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// The size of the segments, if this entry of a received message tells it.
pub(crate) fn segment_bytes(level: i32, kind: i32, data: &[u8]) -> Option<usize> {
    if level != libc::SOL_UDP || kind != libc::UDP_GRO {
        return None;
    }
    usize::try_from(integer(data)?).ok().filter(|bytes| *bytes > 0)
}
