//! Who is at the other end of a unix socket, and whether it is the same user.
//!
//! A slot's descriptor is power over the whole group of sockets: its holder can remove the
//! selector and take everybody's packets. So only the agent's own user gets one, and the
//! comparison has to be the kernel's, not a number that a user namespace may have made up:
//!
//! - the user number of SO_PEERCRED must be ours, and
//! - the kernel must let us signal the process, unless it cannot see it and the number is known
//!   to be true. (Alone this would not do, for root may signal anyone.)
//!
//! Whoever is not the same user is served by carrying its datagrams, which takes no comparison but
//! this one: that it comes back for its slots as the same process, or at least as the same user.
//!
//! A user without a number in our user namespace appears as the overflow user, 65534. That is an
//! ordinary user only where the namespace maps every number to itself; elsewhere it means
//! "unknown", and unknown is not the same.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};

use crate::option::{PeerCredentials, may_signal, peer_credentials, peer_pidfd};

/// A process at the other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// The process; 0 if our process namespace cannot see it.
    pub pid: u32,
    /// The user, as our user namespace numbers it.
    pub uid: u32,
    /// Who that is.
    pub user: User,
    /// Its descriptor, which becomes readable when it dies. Only where the kernel cannot give one
    /// at all, and the process is out of sight, there is none.
    pub pidfd: Option<OwnedFd>,
}

/// Whose a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// Our own user's: it may have what we have.
    Same,
    /// This other user's.
    Other(u32),
    /// One's whose number cannot be known: two of them may be anybody.
    Unknown,
}

/// The process at the other end of `socket`; `None` if it died meanwhile, or the connection is
/// broken.
pub fn identify(socket: impl AsFd) -> Option<Peer> {
    let credentials = peer_credentials(&socket).ok()?;
    let map = UserMap::read();
    let pidfd = match peer_pidfd(&socket) {
        Ok(pidfd) => Some(pidfd),
        // Before Linux 6.5. A process number could have been given to another process since, but
        // that one would have to pass the check below as well.
        Err(Errno::NOPROTOOPT) => open_pidfd(credentials.pid),
        Err(_) => return None,
    };
    let PeerCredentials { pid, uid } = credentials;
    let user = if map.is_same(uid, geteuid().as_raw()) {
        match pidfd.as_ref().map_or(Err(Errno::INVAL), may_signal) {
            Ok(()) => User::Same,
            Err(Errno::SRCH) => return None,
            // Neither can tell: a kernel or process tracer without the call, a process that
            // cannot be named. The user numbers are equal, and mean what they say.
            Err(Errno::INVAL | Errno::NOSYS) if map == UserMap::Identity => User::Same,
            Err(_) => User::Unknown,
        }
    } else if map.is_known(uid) {
        User::Other(uid)
    } else {
        User::Unknown
    };
    Some(Peer { pid, uid, user, pidfd })
}

/// A descriptor of process `pid`, if it is alive and visible.
pub fn open_pidfd(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// What our user namespace does to user numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UserMap {
    /// Every number means itself.
    Identity,
    /// Some numbers are unknown, and are all shown as the overflow user.
    Partial,
}

/// The number of whoever has none.
pub const OVERFLOW_UID: u32 = 65534;

impl UserMap {
    fn read() -> Self {
        std::fs::read_to_string("/proc/self/uid_map").map_or(Self::Partial, |map| Self::parse(&map))
    }

    /// `map` has lines of three numbers: first inside, first outside, how many.
    fn parse(map: &str) -> Self {
        let mut numbers = map.split_ascii_whitespace();
        let line = [numbers.next(), numbers.next(), numbers.next(), numbers.next()];
        if line == [Some("0"), Some("0"), Some("4294967295"), None] {
            Self::Identity
        } else {
            Self::Partial
        }
    }

    fn is_same(self, theirs: u32, ours: u32) -> bool {
        theirs == ours && self.is_known(theirs)
    }

    fn is_known(self, uid: u32) -> bool {
        uid != OVERFLOW_UID || self == Self::Identity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overflow_user_is_a_user_only_where_all_numbers_are_known() {
        let all = UserMap::parse("         0          0 4294967295\n");
        assert_eq!(all, UserMap::Identity);
        assert!(all.is_same(65534, 65534));
        for some in ["0 1000 1\n", "0 0 65536\n", "0 0 4294967295\n1 1 1\n", ""] {
            let map = UserMap::parse(some);
            assert_eq!(map, UserMap::Partial);
            assert!(!map.is_same(65534, 65534));
            assert!(map.is_same(0, 0));
            assert!(!map.is_same(0, 1));
        }
    }

    #[test]
    fn our_own_process_is_the_same_user() {
        let (one, _other) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .expect("a pair of sockets");
        let peer = identify(&one).expect("we live");
        assert_eq!((peer.pid, peer.user), (std::process::id(), User::Same));
    }
}
