//! The abstract unix socket through which clients find the agent of their network namespace.
//!
//! An abstract name belongs to the network namespace, as the port does, and vanishes with its
//! last holder: no stale files, no folder that must be writable.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with,
};

/// The agent's name, after the zero byte that makes it abstract. A version of the protocol that
/// cannot even say "another version" would need another name.
pub const AGENT: &[u8] = b"converb/agent/1";

/// The name that a newcomer holds while it waits for a member to start a successor.
pub const WANTED: &[u8] = b"converb/agent/1/wanted";

/// A new socket bound to `name`, not yet listening. `Errno::ADDRINUSE` says that somebody else
/// holds the name.
pub fn hold(name: &[u8]) -> Result<OwnedFd, Errno> {
    let socket = socket()?;
    bind(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
    Ok(socket)
}

/// A connection to whoever listens under `name`, without waiting.
/// `Errno::CONNREFUSED`: nobody does. `Errno::AGAIN`: it is busy, ask again.
pub fn reach(name: &[u8]) -> Result<OwnedFd, Errno> {
    let socket = socket()?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
    Ok(socket)
}

/// Lets clients connect. Called again by a successor on a name it inherited, it also makes the
/// successor the process that clients see at the other end.
pub fn listen(socket: impl AsFd) -> Result<(), Errno> {
    rustix::net::listen(socket, 128)
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}
