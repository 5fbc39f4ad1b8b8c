//! Management datagrams as packets between queue pairs 1 (IBA 13.5.3.3).

use crate::mad::MAD_SIZE;
use converb_wire::{Bth, Deth, Opcode, Packet, Psn, Qpn};

/// The queue pair of general services.
pub const GENERAL_SERVICES: Qpn = Qpn::new(1);
/// Its queue key, which all have (IBA 10.2.5).
pub const QUEUE_KEY: u32 = 0x8001_0000;
/// A datagram's packet, from the BTH on, without the invariant CRC.
pub const PACKET_BYTES: usize = Bth::LENGTH + Deth::LENGTH + MAD_SIZE;

/// The management datagram in a packet for queue pair 1.
///
/// # Errors
/// Why there is none.
pub fn parse(bytes: &[u8]) -> Result<&[u8; MAD_SIZE], NoDatagram> {
    let packet = Packet::parse(bytes).map_err(|_| NoDatagram::NotForUs)?;
    let is_for_us = packet.bth().destination == GENERAL_SERVICES
        && packet.bth().opcode == Opcode::UD_SEND_ONLY
        && packet.deth().is_some_and(|deth| deth.queue_key == QUEUE_KEY);
    if !is_for_us {
        return Err(NoDatagram::NotForUs);
    }
    packet.payload().try_into().map_err(|_| NoDatagram::Size)
}

/// Why a packet has no management datagram in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDatagram {
    /// It is for another queue pair, of another kind, or has another queue key.
    NotForUs,
    /// It has another size than all of them.
    Size,
}

/// Writes the packet that carries a datagram; `psn` counts the packets of queue pair 1.
///
/// # Panics
/// Unless there are [`PACKET_BYTES`].
pub fn emit(mad: &[u8; MAD_SIZE], psn: Psn, packet: &mut [u8]) {
    let bth = Bth::new(Opcode::UD_SEND_ONLY, GENERAL_SERVICES, psn);
    let deth = Deth { queue_key: QUEUE_KEY, source: GENERAL_SERVICES, reserved: 0 };
    let (head, rest) = packet.split_at_mut(Bth::LENGTH);
    bth.emit(head);
    let (head, rest) = rest.split_at_mut(Deth::LENGTH);
    deth.emit(head);
    rest.copy_from_slice(mad);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_comes_out_as_it_went_in() {
        let mad = core::array::from_fn(|at| at as u8);
        let mut packet = [0xaa; PACKET_BYTES];
        emit(&mad, Psn::new(7), &mut packet);
        assert_eq!(parse(&packet), Ok(&mad));
        assert_eq!(parse(&packet[..PACKET_BYTES - 4]), Err(NoDatagram::Size));
        for place in [0, 7, 12] {
            let mut other = packet;
            other[place] ^= 2;
            assert_eq!(parse(&other), Err(NoDatagram::NotForUs), "byte {place}");
        }
        assert_eq!(parse(&[]), Err(NoDatagram::NotForUs));
    }
}
