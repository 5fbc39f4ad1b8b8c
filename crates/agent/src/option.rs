//! The socket options that this crate needs and rustix does not have.

use core::ffi::c_int;
use core::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use crate::selector::Instruction;

/// Credentials of the process at the other end of a unix socket, as the kernel keeps them from
/// the moment of connect() or listen().
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// The process; 0 if this process namespace cannot see it.
    pub pid: u32,
    /// The effective user, as this user namespace numbers it.
    pub uid: u32,
}

/// SO_PEERCRED. (rustix has it, but with a type that cannot hold pid 0.)
pub fn peer_credentials(socket: impl AsFd) -> Result<PeerCredentials, Errno> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of_val(&credentials) as libc::socklen_t;
    // SAFETY: the pointers are to live local variables of the lengths given; the descriptor is
    // borrowed and so open.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &mut length,
        )
    };
    check(result)?;
    Ok(PeerCredentials { pid: u32::try_from(credentials.pid).unwrap_or(0), uid: credentials.uid })
}

/// SO_PEERPIDFD: a descriptor of the very process at the other end. Since Linux 6.5.
pub fn peer_pidfd(socket: impl AsFd) -> Result<OwnedFd, Errno> {
    const SO_PEERPIDFD: c_int = 77;
    let mut pidfd: c_int = -1;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the pointers are to live local variables of the lengths given.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut pidfd).cast(),
            &mut length,
        )
    };
    check(result)?;
    if pidfd < 0 {
        return Err(Errno::SRCH);
    }
    // SAFETY: the kernel made this descriptor in the call above, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}

/// SO_PEEK_OFF: where the next receive with MSG_PEEK begins, in bytes from the queue's front.
pub fn set_peek_offset(socket: impl AsFd, offset: usize) -> Result<(), Errno> {
    set(socket, libc::SOL_SOCKET, libc::SO_PEEK_OFF, offset as c_int)
}

/// IP_MULTICAST_ALL: whether a socket gets packets of groups that only other sockets joined.
pub fn set_ipv4_multicast_all(socket: impl AsFd, all: bool) -> Result<(), Errno> {
    set(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, c_int::from(all))
}

/// IPV6_MULTICAST_ALL: the same for IPv6. Since Linux 4.20.
pub fn set_ipv6_multicast_all(socket: impl AsFd, all: bool) -> Result<(), Errno> {
    const IPV6_MULTICAST_ALL: c_int = 29;
    set(socket, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, c_int::from(all))
}

/// SO_ATTACH_REUSEPORT_CBPF: the program that picks the socket of a reuseport group.
pub fn attach_selector(socket: impl AsFd, program: &[Instruction]) -> Result<(), Errno> {
    let filters: Vec<libc::sock_filter> = program
        .iter()
        .map(|step| libc::sock_filter { code: step.code, jt: step.jt, jf: step.jf, k: step.k })
        .collect();
    let program =
        libc::sock_fprog { len: filters.len() as u16, filter: filters.as_ptr().cast_mut() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

/// Whether the kernel lets us signal the process, which compares its user with ours.
/// `Errno::INVAL` says that our process namespace cannot see the process.
pub fn may_signal(pidfd: impl AsFd) -> Result<(), Errno> {
    // SAFETY: no memory is involved; signal 0 has no effect but the check.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_fd().as_raw_fd(),
            0,
            core::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    check(result as c_int)
}

fn set<T>(socket: impl AsFd, level: c_int, name: c_int, value: T) -> Result<(), Errno> {
    // SAFETY: the value lives until the call returns and has the length given; the options used
    // above take these types.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(result)
}

fn check(result: c_int) -> Result<(), Errno> {
    if result == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}
