//! How packets that the kernel gave to the wrong process get to the right one.
//!
//! The kernel delivers a coalesced super-packet whole to the slot of its first packet. Senders of
//! ours take care that this does not happen; others may not.

use converb_driver::Received;
use converb_engine::Address;
use std::os::fd::BorrowedFd;

/// The way to the other processes of this host. Called with the drain lock held; returns at once.
pub trait Relay: Send + Sync {
    /// Hands a packet to the process that has `slot`. Returns false if there is none, or it takes
    /// no more.
    fn pass_on(&self, slot: u16, packet: &Received<'_>) -> bool;

    /// Takes packets of ours that other processes received, as many as there are and `into` has
    /// room for.
    fn take(&self, into: &mut Relayed);

    /// Readable when something to take has come since [`quieten`](Self::quieten).
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Makes the descriptor unreadable.
    fn quieten(&self);

    /// Lets go of the descriptor if the program has closed it or put another file in its place.
    fn check(&self);
}

/// Packets taken over from other processes. They were checked there.
#[derive(Debug)]
pub struct Relayed {
    bytes: Box<[u8]>,
    used: usize,
    packets: Vec<Packet>,
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    source: Address,
    local: Address,
    traffic_class: u8,
    hop_limit: u8,
    start: usize,
    end: usize,
}

impl Relayed {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; BYTES_MAX].into_boxed_slice(),
            used: 0,
            packets: Vec::with_capacity(PACKETS_MAX),
            next: 0,
        }
    }

    /// Room for a packet of `length` bytes; `None` if there is no more. The packet counts once
    /// [`finish`](Self::finish) is called.
    pub fn begin(&mut self, length: usize) -> Option<&mut [u8]> {
        if self.packets.len() == PACKETS_MAX {
            return None;
        }
        self.bytes.get_mut(self.used..self.used.checked_add(length)?)
    }

    /// The bytes given out by [`begin`](Self::begin) are a packet of `like`'s description (whose
    /// own bytes are not looked at).
    pub fn finish(&mut self, length: usize, like: &Received<'_>) {
        let (start, end) = (self.used, self.used + length);
        assert!(end <= self.bytes.len() && self.packets.len() < PACKETS_MAX, "begun before");
        self.packets.push(Packet {
            source: like.source,
            local: like.local,
            traffic_class: like.traffic_class,
            hop_limit: like.hop_limit,
            start,
            end,
        });
        self.used = end;
    }

    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.packets.clear();
        self.next = 0;
    }

    /// How many packets have not been looked at.
    pub(crate) fn left(&self) -> usize {
        self.packets.len() - self.next
    }

    pub(crate) fn next(&mut self) -> Option<Received<'_>> {
        let packet = *self.packets.get(self.next)?;
        self.next += 1;
        Some(Received {
            source: packet.source,
            local: packet.local,
            traffic_class: packet.traffic_class,
            hop_limit: packet.hop_limit,
            bytes: &self.bytes[packet.start..packet.end],
        })
    }
}

const BYTES_MAX: usize = 128 << 10;
const PACKETS_MAX: usize = 128;
