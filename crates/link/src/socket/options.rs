//! How our sockets are set up: slot sockets, which only receive, and senders.

use super::{gro, hop_limit, name, option, overflow};
use crate::descriptor::raise;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What a socket can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// AF_INET6, with IPv4 as v4-mapped addresses.
    Dual,
    /// AF_INET, where the kernel has no IPv6.
    Inet4,
}

/// Sets a slot socket up for receiving: a large buffer, the destination address, traffic class
/// and hop limit with each datagram, coalescing, and multicast only for groups that it joined
/// itself. Returns the size of the receive buffer as the kernel counts it (`truesize`).
///
/// `buffer_bytes_max` keeps the buffer smaller than the kernel's `net.core.rmem_max` allows.
/// The socket is neither connected nor bound to a device, which would take it out of its group.
///
/// # Errors
/// When the descriptor is no UDP socket, or the kernel lacks something without which the
/// invariant CRC cannot be checked.
pub fn prepare_slot_socket(
    socket: BorrowedFd<'_>,
    buffer_bytes_max: Option<u32>,
) -> Result<usize, Errno> {
    let family = family_of(socket)?;
    let wanted = buffer_bytes_max.map_or(i32::MAX / 2, |bytes| (bytes / 2).cast_signed());
    // The kernel cuts this down to rmem_max by itself.
    option::set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, wanted)?;
    if family == Family::Dual {
        option::set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        option::set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        option::set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
        option::set(socket, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)?;
    } else {
        // A dual-stack socket tells IPv4 destinations by IPV6_RECVPKTINFO.
        option::set(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
    }
    option::set(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
    option::set(socket, libc::IPPROTO_IP, libc::IP_RECVTTL, 1)?;
    option::set(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0)?;
    discover_path_mtu(socket, family)?;
    // Both only make things better; older kernels do without.
    let _ = gro::enable(socket);
    let _ = overflow::enable(socket);
    receive_buffer_bytes(socket)
}

/// Opens a socket that sends: unbound but for `port`, or for 0 one of the kernel's choice, which
/// it returns. What is sent *to* that port is dropped.
pub(crate) fn open_sender(family: Family, port: u16) -> Result<(OwnedFd, u16), Errno> {
    let domain = if family == Family::Dual { libc::AF_INET6 } else { libc::AF_INET };
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers.
    let descriptor = unsafe { libc::socket(domain, kind, 0) };
    if descriptor < 0 {
        return Err(option::last_error());
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else has it.
    let socket = raise(unsafe { OwnedFd::from_raw_fd(descriptor) });
    drop_all_received(socket.as_fd())?;
    if family == Family::Dual {
        option::set(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
        let hops = i32::from(hop_limit::USUAL);
        option::set(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, hops)?;
    }
    option::set(socket.as_fd(), libc::IPPROTO_IP, libc::IP_TTL, i32::from(hop_limit::USUAL))?;
    option::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER_BYTES)?;
    option::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, 0)?;
    discover_path_mtu(socket.as_fd(), family)?;
    let anywhere = name::Endpoint { ip: core::net::Ipv6Addr::UNSPECIFIED, scope: 0, port };
    let anywhere = match family {
        Family::Dual => anywhere,
        Family::Inet4 => {
            let ip = core::net::Ipv4Addr::UNSPECIFIED.to_ipv6_mapped();
            name::Endpoint { ip, ..anywhere }
        }
    };
    let name = name::SocketName::new(anywhere, family).expect("a family can name its own any");
    let bytes = name.bytes();
    // SAFETY: the pointer and length describe `name`, which outlives the call.
    let result = unsafe {
        libc::bind(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len() as libc::socklen_t)
    };
    if result != 0 {
        return Err(option::last_error());
    }
    let port = local_port(socket.as_fd())?;
    Ok((socket, port))
}

/// What the socket can reach.
pub(crate) fn family_of(socket: BorrowedFd<'_>) -> Result<Family, Errno> {
    match option::value(socket, libc::SOL_SOCKET, libc::SO_DOMAIN)? {
        libc::AF_INET6 => Ok(Family::Dual),
        libc::AF_INET => Ok(Family::Inet4),
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// The UDP port that the socket is bound to.
pub(crate) fn local_port(socket: BorrowedFd<'_>) -> Result<u16, Errno> {
    let mut bytes = [0u8; name::NAME_BYTES];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the pointer and length describe `bytes`, which outlives the call.
    let result = unsafe {
        libc::getsockname(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), &raw mut length)
    };
    if result != 0 {
        return Err(option::last_error());
    }
    let length = bytes.len().min(length as usize);
    name::parse(&bytes[..length]).map(|endpoint| endpoint.port).ok_or(Errno::AFNOSUPPORT)
}

/// The size of the receive buffer as the kernel counts it (`truesize`).
pub(crate) fn receive_buffer_bytes(socket: BorrowedFd<'_>) -> Result<usize, Errno> {
    let bytes = option::value(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Sets DF and, with it, a predictable Identification. PROBE and not DO: the path MTU that the
/// kernel believes in can be shrunk by a forged ICMP message, and PROBE does not look at it.
fn discover_path_mtu(socket: BorrowedFd<'_>, family: Family) -> Result<(), Errno> {
    option::set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
    if family == Family::Dual {
        let probe = libc::IPV6_PMTUDISC_PROBE;
        option::set(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe)?;
    }
    Ok(())
}

/// Attaches a filter that accepts nothing, so that nobody can fill a buffer that is never read.
fn drop_all_received(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    // BPF_RET | BPF_K: accept zero bytes.
    let mut instruction = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut instruction };
    // SAFETY: the pointer and length describe `program`, which points to one instruction; both
    // outlive the call, which copies them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(option::last_error()) }
}

/// Not in the libc crate: include/uapi/linux/in6.h.
const IPV6_MULTICAST_ALL: i32 = 29;
/// Several super-packets may wait at a network card. The kernel cuts this down to wmem_max.
const SEND_BUFFER_BYTES: i32 = 1 << 20;
