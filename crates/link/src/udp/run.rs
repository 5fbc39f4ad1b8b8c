//! A run: packets to one place, of one size but for the last, that may leave in one send.

use super::flow::{Flow, Share};
use crate::socket::{Control, SocketName, segmentation};
use converb_engine::AddressVector;
use converb_wire::icrc;

/// Where a run goes: everything about it that its packets share.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub(crate) path: AddressVector,
    pub(crate) slot: u16,
    /// The socket that it leaves from.
    pub(crate) sender: usize,
    /// Packets go out one by one: the kernel does not cut up sends to this place.
    pub(crate) is_plain: bool,
    /// `None`: our network cannot reach that place, so the run is dropped when it is sent.
    pub(crate) open: Option<Open>,
}

/// How to get to a place that can be reached.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    pub(crate) flow: Flow,
    pub(crate) name: SocketName,
    /// Source address and so on, and last the size of segments.
    control: Control,
    control_plain_bytes: usize,
    /// For packets as long as the last one: mostly so is the next.
    share: Share,
}

impl Open {
    /// `control` is what goes with each message.
    pub(crate) fn new(flow: Flow, name: SocketName, control: Control) -> Self {
        let control_plain_bytes = control.length();
        Self { flow, name, control, control_plain_bytes, share: flow.share(0) }
    }

    fn share(&mut self, transport_bytes: usize) -> &Share {
        if !self.share.is_for(transport_bytes) {
            self.share = self.flow.share(transport_bytes);
        }
        &self.share
    }

    /// What goes with a message of one packet.
    pub(crate) fn control_plain(&self) -> &[u8] {
        &self.control.bytes()[..self.control_plain_bytes]
    }

    /// What goes with a message that the kernel is to cut up.
    pub(crate) fn control_segmented(&self) -> &[u8] {
        self.control.bytes()
    }

    fn set_segment_bytes(&mut self, bytes: usize) {
        self.control.truncate(self.control_plain_bytes);
        segmentation(&mut self.control, bytes as u16);
    }
}

impl Way {
    /// Whether it leads to `slot` behind `path`.
    pub(crate) fn leads_to(&self, path: &AddressVector, slot: u16) -> bool {
        self.slot == slot && self.path == *path
    }
}

/// Packets to one place, consecutive in the batch's buffer.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) way: Way,
    /// Where its first packet begins in the buffer.
    pub(crate) start: usize,
    /// The size of its packets, but for the last, which may be shorter.
    pub(crate) packet_bytes: usize,
    /// The size of all together.
    pub(crate) bytes: usize,
    pub(crate) packets: usize,
    /// How many of them have left (only for plain runs; others leave as a whole).
    pub(crate) sent: usize,
    /// A shorter packet has ended it.
    pub(crate) is_closed: bool,
    /// The kernel refused to cut it up, and it is to be seen whether that was the reason.
    pub(crate) was_refused: bool,
}

impl Run {
    /// A run without packets.
    pub(crate) const fn new(way: Way, start: usize) -> Self {
        Self {
            way,
            start,
            packet_bytes: 0,
            bytes: 0,
            packets: 0,
            sent: 0,
            is_closed: false,
            was_refused: false,
        }
    }

    /// Whether a packet of `bytes` may follow the ones that are there.
    pub(crate) const fn takes(&self, bytes: usize, packets_max: usize) -> bool {
        self.packets == 0
            || (!self.is_closed
                && bytes <= self.packet_bytes
                && self.packets < packets_max
                && self.bytes + bytes <= DATAGRAM_BYTES_MAX)
    }

    /// Appends a packet, whose last four bytes become its invariant CRC.
    pub(crate) fn append(&mut self, packet: &mut [u8]) {
        let bytes = packet.len();
        if self.packets == 0 {
            self.packet_bytes = bytes;
            if let Some(open) = &mut self.way.open {
                open.set_segment_bytes(bytes);
            }
        }
        let identification = self.identification(self.packets);
        if let Some(open) = &mut self.way.open {
            seal(open.share(bytes - icrc::LENGTH), identification, packet);
        }
        self.is_closed = bytes < self.packet_bytes;
        self.packets += 1;
        self.bytes += bytes;
    }

    /// Where packet `index` lies in the buffer.
    pub(crate) fn packet(&self, index: usize) -> core::ops::Range<usize> {
        let start = self.start + index * self.packet_bytes;
        start..(start + self.packet_bytes).min(self.start + self.bytes)
    }

    /// The Identification of packet `index`.
    pub(crate) const fn identification(&self, index: usize) -> u16 {
        if self.way.is_plain { 0 } else { index as u16 }
    }

    /// Turns it into a run whose packets leave one by one. Their CRCs cover the Identification,
    /// so they are computed anew.
    pub(crate) fn make_plain(&mut self, buffer: &mut [u8]) {
        self.way.is_plain = true;
        self.was_refused = true;
        let Some(open) = &self.way.open else { return };
        if !open.flow.is_ipv4() {
            return;
        }
        for index in 0..self.packets {
            let packet = &mut buffer[self.packet(index)];
            seal(&open.flow.share(packet.len() - icrc::LENGTH), 0, packet);
        }
    }
}

/// Writes the invariant CRC of a packet into its last four bytes.
fn seal(share: &Share, identification: u16, packet: &mut [u8]) {
    let (transport, crc) =
        packet.split_last_chunk_mut::<{ icrc::LENGTH }>().expect("room for the CRC is there");
    *crc = icrc::to_wire(share.icrc(identification, transport));
}

/// The most that a UDP datagram over IPv4 holds, and so one send.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_507;
