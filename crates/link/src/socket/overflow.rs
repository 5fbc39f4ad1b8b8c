//! SO_RXQ_OVFL: how many datagrams a socket has lost because its receive buffer was full.

use super::control::integer;
use super::option;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Asks that received messages tell the count, once it is not zero.
pub(crate) fn enable(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    option::set(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
}

/// How many datagrams the socket has lost since it was made: what others lost who had it before.
/// 0 where the kernel does not tell.
pub(crate) fn overflows_so_far(socket: BorrowedFd<'_>) -> u32 {
    let mut values = [0u32; libc::SK_MEMINFO_DROPS as usize + 1];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the pointer and length describe `values`, which outlives the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 { values[libc::SK_MEMINFO_DROPS as usize] } else { 0 }
}

/// The count since the socket was made, if this entry of a received message tells it. It wraps.
pub(crate) fn overflow_count(level: i32, kind: i32, data: &[u8]) -> Option<u32> {
    if level != libc::SOL_SOCKET || kind != libc::SO_RXQ_OVFL {
        return None;
    }
    integer(data).map(|value| value as u32)
}
