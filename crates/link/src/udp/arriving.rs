//! Where packets come by: a slot's own socket, or what the agent carries from it.

use super::port::Slot;
use crate::carried::{ENVELOPE_BYTES, Envelope};
use crate::kept::Kept;
use crate::socket::{Arrival, overflows_so_far, prepare_slot_socket, receive, receive_split};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A socket that packets come by.
pub(crate) struct Arriving {
    /// The high 10 bits of the queue pair numbers that are received here.
    pub(crate) index: u16,
    pub(crate) socket: Kept,
    /// The UDP port that packets are sent to.
    pub(crate) port: u16,
    /// Whether it has no socket yet, for the slot is another process's.
    is_vacant: AtomicBool,
    /// Its count of datagrams lost for lack of room, as last told by the kernel.
    pub(crate) overflows: AtomicU32,
    kind: Kind,
}

enum Kind {
    /// The slot's own socket.
    Own,
    /// One end of a pair, by which the agent carries what arrives at the slot.
    Carried {
        /// Whether the agent has ended. Nothing comes until there is another one, and a wait
        /// would be over at once.
        has_parted: AtomicBool,
    },
}

impl Arriving {
    /// Packets come by the slot's own socket, bound to this port.
    pub(crate) fn by_socket(Slot { index, socket }: Slot, port: u16) -> Self {
        let overflows = AtomicU32::new(overflows_so_far(socket.as_fd()));
        Self {
            index,
            socket: Kept::new(socket),
            port,
            is_vacant: AtomicBool::new(false),
            overflows,
            kind: Kind::Own,
        }
    }

    /// A place for a slot that another process owns, and may leave to this one.
    pub(crate) fn vacant(index: u16, port: u16) -> Self {
        Self {
            index,
            socket: Kept::none(),
            port,
            is_vacant: AtomicBool::new(true),
            overflows: AtomicU32::new(0),
            kind: Kind::Own,
        }
    }

    /// The slot is ours from now on. Whoever waits has to be woken.
    ///
    /// # Errors
    /// When it is no slot's socket.
    pub(crate) fn occupy(&self, socket: OwnedFd, buffer_max: Option<u32>) -> Result<(), Errno> {
        self.overflows.store(overflows_so_far(socket.as_fd()), Ordering::Relaxed);
        self.replace(socket, buffer_max)?;
        self.is_vacant.store(false, Ordering::Release);
        Ok(())
    }

    /// Whether it waits for its slot.
    pub(crate) fn is_vacant(&self) -> bool {
        self.is_vacant.load(Ordering::Acquire)
    }

    /// Whether nothing of it is lost.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_vacant() || self.socket.is_open()
    }

    /// Packets come by the agent.
    pub(crate) fn by_agent(Slot { index, socket }: Slot, port: u16) -> Self {
        let kind = Kind::Carried { has_parted: AtomicBool::new(false) };
        Self {
            index,
            socket: Kept::new(socket),
            port,
            is_vacant: AtomicBool::new(false),
            overflows: AtomicU32::new(0),
            kind,
        }
    }

    /// Whether this is the slot's own socket.
    pub(crate) const fn is_own(&self) -> bool {
        matches!(self.kind, Kind::Own)
    }

    /// Whether there is a descriptor if there has to be one, though the program may have closed it.
    pub(crate) fn is_there(&self) -> bool {
        self.is_vacant() || self.socket.get().is_some()
    }

    /// Whether nothing comes until another agent carries.
    pub(crate) fn has_parted(&self) -> bool {
        match &self.kind {
            Kind::Own => false,
            Kind::Carried { has_parted } => has_parted.load(Ordering::Acquire),
        }
    }

    /// What is readable when something has arrived.
    pub(crate) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.socket.get().filter(|_| !self.has_parted())
    }

    /// Fetches messages, as [`receive`] does. `BADF`: there is no descriptor.
    pub(crate) fn receive(
        &self,
        buffers: &mut [u8],
        buffer_bytes: usize,
        arrivals: &mut [Arrival],
    ) -> Result<usize, Errno> {
        if self.is_vacant() {
            return Err(Errno::AGAIN);
        }
        let socket = self.socket.get().ok_or(Errno::BADF)?;
        let Kind::Carried { has_parted } = &self.kind else {
            return receive(socket, buffers, buffer_bytes, arrivals);
        };
        if has_parted.load(Ordering::Acquire) {
            return Err(Errno::AGAIN);
        }
        let count = receive_split(socket, buffers, buffer_bytes, arrivals, ENVELOPE_BYTES)?;
        // The end is received as often as one asks.
        match arrivals[..count].iter().position(|arrival| arrival.is_ended) {
            Some(0) => {
                has_parted.store(true, Ordering::Release);
                Err(Errno::AGAIN)
            }
            Some(whole) => Ok(whole),
            None => Ok(count),
        }
    }

    /// What is known of a message that [`receive`](Self::receive) fetched.
    pub(crate) fn envelope(&self, arrival: &Arrival) -> Option<Envelope> {
        match self.kind {
            Kind::Own => Envelope::of(arrival),
            Kind::Carried { .. } => Envelope::parse(arrival.control().first_chunk()?),
        }
    }

    /// Packets come by this socket from now on: the same slot's, which the program had closed here,
    /// or the end of a pair that another agent has given. Whoever waits has to be woken.
    ///
    /// # Errors
    /// When it is no slot's socket.
    pub(crate) fn replace(&self, socket: OwnedFd, buffer_max: Option<u32>) -> Result<(), Errno> {
        match &self.kind {
            Kind::Own => {
                prepare_slot_socket(socket.as_fd(), buffer_max)?;
                self.socket.set(socket);
            }
            Kind::Carried { has_parted } => {
                self.socket.set(socket);
                has_parted.store(false, Ordering::Release);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .expect("a pair")
    }

    #[test]
    fn the_end_of_an_agent_is_seen_once_and_another_one_takes_its_place() {
        let (ours, theirs) = pair();
        let arriving = Arriving::by_agent(Slot { index: 1, socket: ours }, 4791);
        let mut buffers = vec![0; 4 * 128];
        let mut arrivals = [const { Arrival::new() }; 4];
        let mut receive = |arriving: &Arriving| {
            let result = arriving.receive(&mut buffers, 128, &mut arrivals);
            (result, arrivals[0].bytes)
        };
        assert_eq!(receive(&arriving).0, Err(Errno::AGAIN));
        send(&theirs, &[1; 100], SendFlags::empty()).expect("room");
        drop(theirs);
        assert_eq!(receive(&arriving), (Ok(1), 36));
        assert!(arriving.watched().is_some());
        assert_eq!(receive(&arriving).0, Err(Errno::AGAIN));
        assert!(arriving.watched().is_none());
        let (again, theirs) = pair();
        arriving.replace(again, None).expect("it is one");
        assert!(arriving.watched().is_some());
        // What is shorter than an envelope holds no packet.
        send(&theirs, &[1; 10], SendFlags::empty()).expect("room");
        assert_eq!(receive(&arriving), (Ok(1), 0));
    }
}
