//! The agent's side: from a slot's socket to the process that has the slot.

use super::{ENVELOPE_BYTES, Envelope};
use crate::socket::{Arrival, prepare_slot_socket, receive};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, send, shutdown, socketpair,
    sockopt,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Carries what arrives at one slot.
#[derive(Debug)]
pub struct Carrier {
    slot: u16,
    socket: OwnedFd,
    /// Our end of the pair.
    pipe: OwnedFd,
    /// A message for which the pair had no room. At most one, and only while it has none.
    held: Option<Box<[u8]>>,
}

/// How far a turn came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// Nothing is left, or the turn is over: look at [`Carrier::socket`] again.
    Some,
    /// The process reads too slowly: wait for room at [`Carrier::pipe`]. Meanwhile datagrams pile
    /// up at the slot's socket, and the kernel counts what has no room there, as for any program
    /// that is slow.
    Full,
    /// The process is gone.
    Gone,
}

/// Where datagrams pass through, one after the other.
pub struct Space {
    bytes: Box<[u8]>,
    arrival: [Arrival; 1],
}

impl Carrier {
    /// A carrier of what arrives at `socket`, with the end of the pair for the process and the
    /// size of the receive buffer as the kernel counts it.
    ///
    /// # Errors
    /// When the socket is no slot's, or there is no descriptor left.
    pub fn new(slot: u16, socket: OwnedFd) -> Result<(Self, OwnedFd, usize), Errno> {
        let receive_buffer_bytes = prepare_slot_socket(socket.as_fd(), None)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (pipe, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        // The kernel cuts it down to wmem_max. What waits in the pair is charged to our end.
        sockopt::set_socket_send_buffer_size(&pipe, PAIR_BYTES)?;
        // One way only: what the process sends fails, so nothing of it can get here.
        shutdown(&pipe, Shutdown::Read)?;
        Ok((Self { slot, socket, pipe, held: None }, theirs, receive_buffer_bytes))
    }

    /// The slot.
    pub const fn slot(&self) -> u16 {
        self.slot
    }

    /// The slot's socket: readable when there is something to carry.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Our end of the pair: writable when there is room.
    pub fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Carries what has arrived, but not for long: others wait for their turn.
    pub fn carry(&mut self, space: &mut Space) -> Carried {
        if let Some(held) = self.held.take() {
            match self.hand_over(&held) {
                Err(Errno::AGAIN) => {
                    self.held = Some(held);
                    return Carried::Full;
                }
                Err(_) => return Carried::Gone,
                Ok(()) => {}
            }
        }
        let mut bytes = 0;
        for _ in 0..TURN_MESSAGES {
            let Space { bytes: buffer, arrival } = &mut *space;
            let room = &mut buffer[ENVELOPE_BYTES..];
            let length = room.len();
            match receive(self.socket.as_fd(), room, length, arrival) {
                Ok(_) => {}
                Err(Errno::AGAIN) => return Carried::Some,
                // An error that an earlier send left at the socket; it is gone with this call.
                Err(_) => continue,
            }
            let [arrival] = arrival;
            let length = arrival.bytes as usize;
            let Some(envelope) = Envelope::of(arrival) else { continue };
            match self.pass(&envelope, buffer, length) {
                Carried::Some => {}
                other => return other,
            }
            bytes += length;
            if bytes > TURN_BYTES {
                break;
            }
        }
        Carried::Some
    }

    /// Hands over a datagram of `length` bytes that stands behind the envelope's place.
    fn pass(&mut self, envelope: &Envelope, buffer: &mut [u8], length: usize) -> Carried {
        let message = &mut buffer[..ENVELOPE_BYTES + length];
        let segment = envelope.segment_bytes.unwrap_or(length).max(1);
        let ours = self.slot;
        let is_ours = |packet: &[u8]| slot_of(packet).is_none_or(|slot| slot == ours);
        // The kernel delivers a super-packet whole to the slot of its first packet. What is for
        // other slots is none of this process's business, which belongs to another user.
        if message[ENVELOPE_BYTES..].chunks(segment).all(is_ours) {
            message[..ENVELOPE_BYTES].copy_from_slice(&envelope.emit());
            return self.give(message);
        }
        let alone = Envelope { segment_bytes: None, ..*envelope };
        for packet in message[ENVELOPE_BYTES..].chunks(segment).filter(|packet| is_ours(packet)) {
            let mut message = Vec::with_capacity(ENVELOPE_BYTES + packet.len());
            message.extend_from_slice(&alone.emit());
            message.extend_from_slice(packet);
            match self.give(&message) {
                Carried::Some => {}
                // Packets after the one that is held are lost, and repeated by their sender.
                other => return other,
            }
        }
        Carried::Some
    }

    fn give(&mut self, message: &[u8]) -> Carried {
        match self.hand_over(message) {
            Ok(()) => Carried::Some,
            Err(Errno::AGAIN) => {
                self.held = Some(message.into());
                Carried::Full
            }
            Err(_) => Carried::Gone,
        }
    }

    fn hand_over(&self, message: &[u8]) -> Result<(), Errno> {
        loop {
            match send(&self.pipe, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                // No memory at the moment is no room at the moment.
                Err(Errno::NOBUFS | Errno::NOMEM) => return Err(Errno::AGAIN),
                result => return result.map(|_| ()),
            }
        }
    }
}

impl Space {
    /// Room for the longest datagram.
    pub fn new() -> Self {
        let bytes = vec![0; ENVELOPE_BYTES + DATAGRAM_MAX].into_boxed_slice();
        Self { bytes, arrival: [Arrival::new()] }
    }
}

impl Default for Space {
    fn default() -> Self {
        Self::new()
    }
}

/// The slot of a packet's destination queue pair; `None` if it is too short to have one.
fn slot_of(packet: &[u8]) -> Option<u16> {
    let &[high, middle] = packet.get(5..7)?.first_chunk()?;
    Some(u16::from_be_bytes([high, middle]) >> 6)
}

/// What one turn carries at most: so long another slot may have to wait.
const TURN_MESSAGES: usize = 32;
const TURN_BYTES: usize = 256 << 10;
const PAIR_BYTES: usize = 1 << 20;
const DATAGRAM_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvFlags, recv};
    use std::net::UdpSocket;

    fn pair() -> (Carrier, OwnedFd, UdpSocket) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
        sender.connect(socket.local_addr().expect("bound")).expect("loopback is up");
        socket.set_nonblocking(true).expect("a socket");
        let (carrier, theirs, bytes) = Carrier::new(5, socket.into()).expect("a slot's socket");
        assert!(bytes > 0);
        (carrier, theirs, sender)
    }

    fn packet(slot: u16, length: usize) -> Vec<u8> {
        let mut packet = vec![0; length];
        packet[5..7].copy_from_slice(&(slot << 6).to_be_bytes());
        packet
    }

    #[test]
    fn a_datagram_comes_with_what_the_kernel_told() {
        let (mut carrier, theirs, sender) = pair();
        let mut space = Space::new();
        sender.send(&packet(5, 100)).expect("sent");
        assert_eq!(carrier.carry(&mut space), Carried::Some);
        let mut bytes = [0; 1000];
        let (length, _) = recv(&theirs, &mut bytes[..], RecvFlags::DONTWAIT).expect("carried");
        assert_eq!(length, ENVELOPE_BYTES + 100);
        let envelope = Envelope::parse(bytes.first_chunk().expect("long")).expect("ours");
        let from = sender.local_addr().expect("bound");
        assert_eq!(envelope.source.port, from.port());
        assert_eq!(
            envelope.destination.0,
            "::ffff:127.0.0.1".parse::<core::net::Ipv6Addr>().expect("an address")
        );
        assert_eq!(envelope.hop_limit, 64);
        // What is for another slot is not told.
        sender.send(&packet(6, 100)).expect("sent");
        assert_eq!(carrier.carry(&mut space), Carried::Some);
        assert_eq!(recv(&theirs, &mut bytes[..], RecvFlags::DONTWAIT), Err(Errno::AGAIN));
    }

    #[test]
    fn a_slow_process_holds_up_itself_and_loses_nothing_of_what_has_room() {
        let (mut carrier, theirs, sender) = pair();
        let mut space = Space::new();
        let mut sent = 0;
        while carrier.carry(&mut space) == Carried::Some {
            sender.send(&packet(5, 8000)).expect("sent");
            sent += 1;
            assert!(sent < 10_000, "the pair has a limit");
        }
        assert_eq!(carrier.carry(&mut space), Carried::Full);
        let mut bytes = [0; 9000];
        let mut received = 0;
        while received < sent {
            match recv(&theirs, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok(_) => received += 1,
                Err(error) => {
                    assert_eq!((error, carrier.carry(&mut space)), (Errno::AGAIN, Carried::Some));
                }
            }
        }
        drop(theirs);
        sender.send(&packet(5, 100)).expect("sent");
        assert_eq!(carrier.carry(&mut space), Carried::Gone);
    }

    #[test]
    fn nothing_can_be_sent_the_other_way() {
        let (_carrier, theirs, _sender) = pair();
        let result = send(&theirs, b"forged", SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        assert_eq!(result, Err(Errno::PIPE));
    }
}
