//! Slot 0: what arrives for queue pair 1, the general service interface, and what is misdirected.
//!
//! Datagrams for slots that do not exist end here as well, and ones too short for the selector;
//! those for slots that nobody owns at the moment are counted here.
//! No service answers yet: each datagram is looked at, counted and dropped.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use converb_cm::mad::{Dispatch, Header, MAD_SIZE, dispatch};
use rustix::net::{RecvFlags, recv};

/// The socket of slot 0 and what was seen there.
#[derive(Debug)]
pub struct Management {
    socket: OwnedFd,
    buffer: Box<[u8]>,
    seen: Seen,
}

/// Datagrams by what was made of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// All.
    pub datagrams: u64,
    /// Not an unreliable datagram for queue pair 1.
    pub misdirected: u64,
    /// Of a size or a version that is not ours.
    pub malformed: u64,
    /// For a slot that nobody owned.
    pub unclaimed: u64,
    /// Good, but of a class or method that nothing here serves.
    pub unserved: u64,
}

impl Seen {
    /// Those that were dropped, for every reason.
    pub fn drops(&self) -> u64 {
        self.misdirected + self.malformed + self.unclaimed + self.unserved
    }
}

/// Base transport header, datagram extended transport header, and the invariant CRC at the end.
const BTH_SIZE: usize = 12;
const DETH_SIZE: usize = 8;
const ICRC_SIZE: usize = 4;
/// UD SEND only (IBA 9.2.1, table 38): transport 0b011, operation 0b00100.
const UD_SEND_ONLY: u8 = 0x64;
const GENERAL_SERVICES: [u8; 3] = [0, 0, 1];
/// How many datagrams to look at before members are served again.
const BATCH: usize = 64;

impl Management {
    /// Looks after `socket`, slot 0's.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, buffer: vec![0; 8192].into_boxed_slice(), seen: Seen::default() }
    }

    /// Slot 0's socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What was seen until now.
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// Counts datagrams that were thrown away at a slot without an owner.
    pub fn count_unclaimed(&mut self, count: u64) {
        self.seen.datagrams += count;
        self.seen.unclaimed += count;
    }

    /// Handles what has arrived.
    pub fn handle_readable(&mut self) {
        for _ in 0..BATCH {
            let Ok((length, _)) = recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT)
            else {
                return;
            };
            look_at(&self.buffer[..length], &mut self.seen);
        }
    }
}

fn look_at(datagram: &[u8], seen: &mut Seen) {
    seen.datagrams += 1;
    let is_for_us = datagram.len() >= BTH_SIZE + DETH_SIZE + ICRC_SIZE
        && datagram[0] == UD_SEND_ONLY
        && datagram[5..8] == GENERAL_SERVICES;
    if !is_for_us {
        seen.misdirected += 1;
        return;
    }
    let mad = &datagram[BTH_SIZE + DETH_SIZE..datagram.len() - ICRC_SIZE];
    let Some(header) = Header::parse(mad).filter(|_| mad.len() == MAD_SIZE) else {
        seen.malformed += 1;
        return;
    };
    match dispatch(&header) {
        Dispatch::Malformed => seen.malformed += 1,
        Dispatch::Answer { .. } | Dispatch::Request { .. } | Dispatch::Unsupported => {
            seen.unserved += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datagram_is_counted_once() {
        let mut seen = Seen::default();
        let mut datagram = vec![0; BTH_SIZE + DETH_SIZE + MAD_SIZE + ICRC_SIZE];
        datagram[0] = UD_SEND_ONLY;
        datagram[7] = 1;
        datagram[20..24].copy_from_slice(&[1, 7, 2, 3]);
        look_at(&datagram, &mut seen);
        assert_eq!(seen, Seen { datagrams: 1, unserved: 1, ..Seen::default() });
        look_at(&datagram[..100], &mut seen);
        assert_eq!(seen.malformed, 1);
        datagram[7] = 2;
        look_at(&datagram, &mut seen);
        look_at(&[], &mut seen);
        assert_eq!((seen.misdirected, seen.datagrams, seen.drops()), (2, 4, 4));
    }
}
