//! The group of sockets that share UDP port 4791: its creation and its growth.
//!
//! The kernel numbers a reuseport group's sockets in the order in which they were bound, and the
//! selector returns such a number. Two creators at once would make two orders, so the first
//! socket is bound *without* SO_REUSEPORT, which only one can do, and gets the option afterwards.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::option::{attach_selector, set_ipv4_multicast_all, set_ipv6_multicast_all};
use crate::selector::selector;

/// RoCEv2's UDP port (IBA annex A17).
pub const PORT: u16 = 4791;

/// The most slots: slot 1023 stays unused, since its last number is the multicast queue pair.
pub const SLOTS_MAX: u16 = 1023;

/// How many slots a group starts with, and how many are added at a time.
pub const SLOTS_STEP: u16 = 16;

/// The first sockets of a new group, in order.
///
/// `Errno::ADDRINUSE` says that the port is taken: by another group, whose agent may be about to
/// get a successor, or by somebody else altogether.
pub fn create() -> Result<Vec<OwnedFd>, Errno> {
    let first = bound(false)?;
    set_socket_reuseport(&first, true)?;
    let mut sockets = vec![first];
    for _ in 1..SLOTS_STEP {
        sockets.push(bound(true)?);
    }
    select(&sockets[0], SLOTS_STEP)?;
    Ok(sockets)
}

/// `count` more sockets, which the kernel numbers after those that exist. The selector sends
/// nothing to them yet.
pub fn extend(count: u16) -> Result<Vec<OwnedFd>, Errno> {
    (0..count).map(|_| bound(true)).collect()
}

/// Makes the selector choose among the first `count` sockets of the group that `member` is in.
pub fn select(member: impl AsFd, count: u16) -> Result<(), Errno> {
    attach_selector(member, &selector(count))
}

/// A socket bound to the port on all addresses, of both families where the kernel has both.
fn bound(shares_port: bool) -> Result<OwnedFd, Errno> {
    let (socket, address) = match udp(AddressFamily::INET6) {
        Ok(socket) => {
            set_ipv6_v6only(&socket, false)?;
            let any = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, PORT, 0, 0);
            // Else every socket would get what any one of them joined for.
            ignore_unsupported(set_ipv6_multicast_all(&socket, false))?;
            (socket, SocketAddr::V6(any))
        }
        Err(Errno::AFNOSUPPORT) => {
            let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT);
            (udp(AddressFamily::INET)?, SocketAddr::V4(any))
        }
        Err(error) => return Err(error),
    };
    ignore_unsupported(set_ipv4_multicast_all(&socket, false))?;
    if shares_port {
        set_socket_reuseport(&socket, true)?;
    }
    bind(&socket, &address)?;
    Ok(socket)
}

fn udp(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::DGRAM, flags, None)
}

fn ignore_unsupported(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOPROTOOPT) => Ok(()),
        other => other,
    }
}
