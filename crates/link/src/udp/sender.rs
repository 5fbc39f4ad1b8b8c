//! The sockets that packets leave from. They are opened when first needed.
//!
//! Packets do not leave from the slot sockets: two processes of a host share the port of those,
//! so that a receiver would coalesce their packets with each other.

use crate::kept::Kept;
use crate::socket::{Family, open_sender, segments_max};
use core::sync::atomic::{AtomicU64, Ordering};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The most sockets that are opened to send from.
pub(crate) const SENDERS_MAX: usize = 64;

/// The sockets of a port.
pub(crate) struct Senders {
    family: Family,
    /// An absent socket could not be opened: the first slot's socket stands in for it.
    opened: [OnceLock<Option<(Kept, u16)>>; SENDERS_MAX],
    fallback: Option<(Kept, u16)>,
    segments_max: OnceLock<usize>,
    /// Held by who opens again what the program has closed.
    reopening: Mutex<()>,
    /// A bit for each socket that took no more packets.
    blocked: AtomicU64,
}

impl Senders {
    /// No socket is opened yet. The slot's own, with its port, is used where none can be.
    pub(crate) fn new(family: Family, slot: Option<(OwnedFd, u16)>) -> Self {
        Self {
            family,
            opened: [const { OnceLock::new() }; SENDERS_MAX],
            fallback: slot.map(|(socket, port)| (Kept::new(socket), port)),
            segments_max: OnceLock::new(),
            reopening: Mutex::new(()),
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
        let opened = self.opened[index].get_or_init(|| {
            let (socket, port) = open_sender(self.family, 0).ok()?;
            Some((Kept::new(socket), port))
        });
        match opened.as_ref().or(self.fallback.as_ref()) {
            Some((socket, port)) => Ok((socket.get().ok_or(Errno::BADF)?, *port)),
            None => Err(Errno::MFILE),
        }
    }

    /// Opens a socket again that the program has closed, at the same port, for packets carry
    /// checks that cover it. Returns whether there is one again. While another thread still waits
    /// on the old one, or a stranger took the port, there is none.
    pub(crate) fn reopen(&self, index: usize) -> bool {
        let _reopening = self.reopening.lock().unwrap_or_else(PoisonError::into_inner);
        match self.opened[index].get() {
            None => true,
            Some(None) => self.fallback.as_ref().is_some_and(|(socket, _)| socket.is_open()),
            Some(Some((socket, _))) if socket.is_open() => true,
            Some(Some((socket, port))) => match open_sender(self.family, *port) {
                Ok((new, _)) => {
                    socket.set(new);
                    true
                }
                Err(_) => false,
            },
        }
    }

    /// Opens all again that the program has closed; returns whether none is missing.
    pub(crate) fn reopen_all(&self) -> bool {
        // Each is tried, also behind one that fails.
        (0..SENDERS_MAX).filter(|&index| !self.reopen(index)).count() == 0
    }

    /// Puts a copy of the slot's socket where one stands in for senders that cannot be opened.
    pub(crate) fn renew_fallback(&self, slot: BorrowedFd<'_>) {
        if let Some((socket, _)) = self.fallback.as_ref().filter(|(socket, _)| !socket.is_open())
            && let Ok(copy) = slot.try_clone_to_owned()
        {
            socket.set(copy);
        }
    }

    /// Whether all are what they were.
    pub(crate) fn are_open(&self) -> bool {
        self.descriptors().all(Kept::is_open)
    }

    /// How many segments the kernel cuts one send into; 1 if it does not.
    pub(crate) fn segments_max(&self) -> usize {
        *self.segments_max.get_or_init(|| match self.opened[0].get() {
            Some(Some((socket, port))) => {
                socket.get().map_or(1, |socket| segments_max(socket, self.family, *port).max(1))
            }
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
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = &Kept> {
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
    fn a_socket_that_was_closed_is_opened_again_at_its_port() {
        let senders = Senders::new(Family::Dual, None);
        let (_, port) = senders.socket(3).expect("a socket");
        assert!(senders.are_open());
        senders.opened[3].get().and_then(Option::as_ref).expect("opened").0.clear();
        assert!(!senders.are_open());
        assert_eq!(senders.socket(3).err(), Some(Errno::BADF));
        assert!(senders.reopen_all());
        let (socket, again) = senders.socket(3).expect("a socket");
        assert_eq!((again, crate::socket::local_port(socket)), (port, Ok(port)));
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
