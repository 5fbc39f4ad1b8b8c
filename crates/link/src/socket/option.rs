//! Setting and reading a socket option whose value is an `int`.

use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option.
pub(crate) fn set(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> Result<(), Errno> {
    // SAFETY: the pointer and length describe `value`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Reads an option.
pub(crate) fn value(socket: BorrowedFd<'_>, level: i32, name: i32) -> Result<i32, Errno> {
    let mut value = 0i32;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `value`, which outlives the call.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    };
    if result == 0 { Ok(value) } else { Err(last_error()) }
}

/// The error of the system call that this thread made last.
pub(crate) fn last_error() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}
