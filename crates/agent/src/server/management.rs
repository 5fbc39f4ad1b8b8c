//! Slot 0: what arrives for queue pair 1, the general service interface, and what is misdirected.
//!
//! Datagrams for slots that do not exist end here as well, and ones too short for the selector;
//! those for slots that nobody owns at the moment are counted here. `dispatch.rs` says whose a good
//! one is.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use converb_cm::mad::{Dispatch, Header, MAD_SIZE, dispatch};
use converb_cm::packet::{self, NoDatagram, PACKET_BYTES};
use converb_driver::Port;
use converb_engine::{AddressVector, PacketSink};
use converb_link::{Incoming, Outgoing, PortError, Settings, Slot, UdpPort};
use converb_wire::Psn;

use crate::protocol::ManagementDatagram;

/// The socket of slot 0 and what was seen there.
pub struct Management {
    /// The same as the port's.
    socket: OwnedFd,
    port: UdpPort,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Of the next packet from queue pair 1.
    psn: Psn,
    seen: Seen,
}

/// Datagrams by what was made of them, beyond what the port counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets whose checks all passed, and what was thrown away at slots without an owner.
    pub datagrams: u64,
    /// Not an unreliable datagram for queue pair 1.
    pub misdirected: u64,
    /// Of a size or a version that is not ours.
    pub malformed: u64,
    /// For a slot that nobody owned.
    pub unclaimed: u64,
    /// Good, but of a class or method that nothing here serves, or for nobody.
    pub unserved: u64,
    /// For a member that does not take what it gets.
    pub undelivered: u64,
}

/// How many datagrams to look at before members are served again.
const BATCH: usize = 64;

impl Management {
    /// Looks after slot 0, whose socket comes twice.
    ///
    /// # Errors
    /// See [`UdpPort::new`].
    pub fn new(socket: OwnedFd, same: OwnedFd) -> Result<Self, PortError> {
        let slot = Slot { index: 0, socket: same };
        let port = UdpPort::new(vec![slot], Settings::default())?;
        let (incoming, outgoing) = (port.new_incoming(), port.new_outgoing());
        let psn = Psn::new(port.random() as u32);
        Ok(Self { socket, port, incoming, outgoing, psn, seen: Seen::default() })
    }

    /// Slot 0's socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// How many datagrams came until now, and how many of them were dropped, for every reason.
    pub fn counts(&self) -> (u64, u64) {
        let by_port: u64 = self
            .port
            .counters()
            .iter()
            .filter(|(name, ..)| name.starts_with("dropped_"))
            .map(|(.., count)| count)
            .sum();
        let Seen { datagrams, misdirected, malformed, unclaimed, unserved, undelivered } =
            self.seen;
        let dropped = misdirected + malformed + unclaimed + unserved + undelivered;
        (datagrams + by_port, dropped + by_port)
    }

    /// Counts datagrams that were thrown away at a slot without an owner.
    pub fn count_unclaimed(&mut self, count: u64) {
        self.seen.datagrams += count;
        self.seen.unclaimed += count;
    }

    /// Counts one that is nobody's.
    pub fn count_unserved(&mut self) {
        self.seen.unserved += 1;
    }

    /// Counts one that its member does not take.
    pub fn count_undelivered(&mut self) {
        self.seen.undelivered += 1;
    }

    /// What has arrived and is good, a bounded amount at a time.
    pub fn receive(&mut self) -> Vec<ManagementDatagram> {
        let mut datagrams = Vec::new();
        while datagrams.len() < BATCH && self.port.receive(&mut self.incoming) {
            while let Some(received) = self.port.next(&mut self.incoming) {
                self.seen.datagrams += 1;
                if let Some(mad) = look_at(received.bytes, &mut self.seen) {
                    datagrams.push(ManagementDatagram {
                        source: received.source,
                        local: received.local,
                        traffic_class: received.traffic_class,
                        hop_limit: received.hop_limit,
                        mad: Box::new(*mad),
                    });
                }
            }
        }
        datagrams
    }

    /// Sends a datagram from queue pair 1. What the network does not take is lost, and asked for
    /// again.
    pub fn send(&mut self, path: &AddressVector, mad: &[u8; MAD_SIZE]) {
        let Some(place) = self.outgoing.begin(path, packet::GENERAL_SERVICES, PACKET_BYTES) else {
            return;
        };
        packet::emit(mad, self.psn, place);
        self.psn = self.psn.plus(1);
        self.outgoing.finish();
        let _ = self.port.send(&mut self.outgoing);
        if !self.port.is_empty(&self.outgoing) {
            self.outgoing = self.port.new_outgoing();
        }
    }
}

/// The management datagram in a packet, if there is one of the class that is served here.
fn look_at<'a>(bytes: &'a [u8], seen: &mut Seen) -> Option<&'a [u8; MAD_SIZE]> {
    let mad = match packet::parse(bytes) {
        Ok(mad) => mad,
        Err(NoDatagram::NotForUs) => {
            seen.misdirected += 1;
            return None;
        }
        Err(NoDatagram::Size) => {
            seen.malformed += 1;
            return None;
        }
    };
    let header = Header::parse(mad)?;
    match dispatch(&header) {
        Dispatch::Malformed => seen.malformed += 1,
        Dispatch::Request { class, .. } if class == converb_cm::mad::Class::COMMUNICATION => {
            return Some(mad);
        }
        Dispatch::Answer { .. } | Dispatch::Request { .. } | Dispatch::Unsupported => {
            seen.unserved += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datagram_is_counted_once() {
        let mut seen = Seen::default();
        let mut mad = [0; MAD_SIZE];
        mad[..4].copy_from_slice(&[1, 7, 2, 3]);
        let mut bytes = [0; PACKET_BYTES];
        packet::emit(&mad, Psn::new(1), &mut bytes);
        assert_eq!(look_at(&bytes, &mut seen), Some(&mad));
        assert_eq!(seen, Seen::default());
        assert_eq!(look_at(&bytes[..100], &mut seen), None);
        assert_eq!(seen.malformed, 1);
        // Another class, then another queue pair.
        bytes[21] = 4;
        assert_eq!(look_at(&bytes, &mut seen), None);
        bytes[7] = 2;
        assert_eq!(look_at(&bytes, &mut seen), None);
        assert_eq!(look_at(&[], &mut seen), None);
        assert_eq!((seen.unserved, seen.misdirected), (1, 2));
    }
}
