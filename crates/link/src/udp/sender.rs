//! The sockets that packets leave from. They are opened when first needed.
//!
//! Packets do not leave from the slot sockets: two processes of a host share the port of those,
//! so that a receiver would coalesce their packets with each other.

use super::port::Slot;
use crate::socket::{Family, local_port, open_sender, segments_max};
use core::sync::atomic::{AtomicU64, Ordering};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

/// The most sockets that are opened to send from.
pub(crate) const SENDERS_MAX: usize = 64;

/// The sockets of a port.
pub(crate) struct Senders {
    family: Family,
    /// An absent socket could not be opened: the first slot's socket stands in for it.
    opened: [OnceLock<Option<(OwnedFd, u16)>>; SENDERS_MAX],
    fallback: Option<(OwnedFd, u16)>,
    segments_max: OnceLock<usize>,
    /// A bit for each socket that took no more packets.
    blocked: AtomicU64,
}

impl Senders {
    /// No socket is opened yet. The slot's own is used where none can be.
    pub(crate) fn new(family: Family, slot: Option<&Slot>) -> Self {
        let fallback = slot.and_then(|slot| {
            let socket = crate::raise(slot.socket.try_clone().ok()?);
            let port = local_port(socket.as_fd()).ok()?;
            Some((socket, port))
        });
        Self {
            family,
            opened: [const { OnceLock::new() }; SENDERS_MAX],
            fallback,
            segments_max: OnceLock::new(),
            blocked: AtomicU64::new(0),
        }
    }

    /// What the sockets can reach.
    pub(crate) const fn family(&self) -> Family {
        self.family
    }

    /// A socket and its UDP port.
    ///
    /// # Errors
    /// When it cannot be opened and nothing stands in for it.
    pub(crate) fn socket(&self, index: usize) -> Result<(BorrowedFd<'_>, u16), Errno> {
        let opened = self.opened[index].get_or_init(|| open_sender(self.family).ok());
        match opened.as_ref().or(self.fallback.as_ref()) {
            Some((socket, port)) => Ok((socket.as_fd(), *port)),
            None => Err(Errno::MFILE),
        }
    }

    /// How many segments the kernel cuts one send into; 1 if it does not.
    pub(crate) fn segments_max(&self) -> usize {
        *self.segments_max.get_or_init(|| match self.opened[0].get() {
            Some(Some((socket, port))) => segments_max(socket.as_fd(), self.family, *port).max(1),
            _ => 1,
        })
    }

    /// Remembers whether a socket took no more packets.
    pub(crate) fn set_blocked(&self, index: usize, is_blocked: bool) {
        let bit = 1 << index;
        if is_blocked {
            self.blocked.fetch_or(bit, Ordering::Relaxed);
        } else if self.blocked.load(Ordering::Relaxed) & bit != 0 {
            self.blocked.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// All that are open.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        let opened = self.opened.iter().filter_map(|opened| opened.get()?.as_ref());
        opened.chain(&self.fallback).map(|(socket, _)| socket)
    }

    /// The sockets that took no more packets when they were last tried.
    pub(crate) fn blocked(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let blocked = self.blocked.load(Ordering::Relaxed);
        (0..SENDERS_MAX)
            .filter(move |index| blocked & (1 << index) != 0)
            .filter_map(|index| Some(self.socket(index).ok()?.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_opened_once_and_tell_their_port() {
        let senders = Senders::new(Family::Dual, None);
        let (first, port) = senders.socket(3).expect("a socket");
        assert_ne!(port, 0);
        let (again, same) = senders.socket(3).expect("a socket");
        assert_eq!(
            (std::os::fd::AsRawFd::as_raw_fd(&first), port),
            (std::os::fd::AsRawFd::as_raw_fd(&again), same)
        );
        assert_ne!(senders.socket(4).expect("another").1, port);
    }

    #[test]
    fn this_kernel_cuts_up_sends() {
        for family in [Family::Dual, Family::Inet4] {
            let senders = Senders::new(family, None);
            senders.socket(0).expect("a socket");
            assert!([64, 128].contains(&senders.segments_max()), "{}", senders.segments_max());
        }
    }

    #[test]
    fn blocked_sockets_are_listed_until_they_take_packets_again() {
        let senders = Senders::new(Family::Dual, None);
        assert_eq!(senders.blocked().count(), 0);
        senders.set_blocked(0, true);
        senders.set_blocked(63, true);
        assert_eq!(senders.blocked().count(), 2);
        senders.set_blocked(0, false);
        assert_eq!(senders.blocked().count(), 1);
    }
}
