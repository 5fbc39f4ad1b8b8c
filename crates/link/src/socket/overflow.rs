//! SO_RXQ_OVFL: how many datagrams a socket has lost because its receive buffer was full.

use super::control::integer;
use super::option;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Asks that received messages tell the count, once it is not zero.
pub(crate) fn enable(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    option::set(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
}

/// The count since the socket was made, if this entry of a received message tells it. It wraps.
pub(crate) fn overflow_count(level: i32, kind: i32, data: &[u8]) -> Option<u32> {
    if level != libc::SOL_SOCKET || kind != libc::SO_RXQ_OVFL {
        return None;
    }
    integer(data).map(|value| value as u32)
}
