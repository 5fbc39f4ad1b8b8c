//! The invariant CRC: what protects a packet from end to end (IBA 7.8.1; RoCEv1: annex A16;
//! RoCEv2: annex A17).
//!
//! It is the CRC-32 of Ethernet over the packet, with ones in place of everything that switches
//! and routers may change. In RoCE, eight bytes of ones stand before it for the absent LRH. Its
//! four bytes follow the pad, the least significant first: [`to_wire`] and [`split`].
//!
//! The headers below the transport are the same for all packets of a burst, so their share is a
//! value of its own, [`Prefix`], computed once. IPv4 has a word that neither sender nor receiver
//! sees; `ipv4_word.rs` tells what to do about it.

mod ipv4_word;

use crc32fast::Hasher;

use crate::{Bth, Grh, Ipv4, Ipv6, Lrh, Udp};

pub use ipv4_word::{Ipv4Word, ipv4_word};

/// The length on the wire.
pub const LENGTH: usize = 4;

/// The bytes between the word with Identification, Flags and Fragment Offset of an IPv4 header
/// without options and the BTH: the rest of that header, and UDP's.
pub const IPV4_WORD_TO_BTH: usize = 12 + Udp::LENGTH;

/// The CRC over everything before the BTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix(u32);

/// The CRC of a RoCEv2 packet over IPv4; `transport` reaches from the BTH to the pad. See
/// [`Prefix::ipv4`].
pub fn ipv4(header: &Ipv4<'_>, udp: &Udp, transport: &[u8]) -> u32 {
    Prefix::ipv4(header, udp).icrc(transport)
}

/// The CRC of a RoCEv2 packet over IPv6; `transport` reaches from the BTH to the pad.
pub fn ipv6(header: &Ipv6, udp: &Udp, transport: &[u8]) -> u32 {
    Prefix::ipv6(header, udp).icrc(transport)
}

/// The CRC of a packet with a GRH (RoCEv1, InfiniBand); `transport` reaches from the BTH to the
/// pad.
pub fn grh(header: &Grh, transport: &[u8]) -> u32 {
    Prefix::grh(header).icrc(transport)
}

/// The CRC of an InfiniBand packet without a GRH; `transport` reaches from the BTH to the pad.
pub fn lrh(header: &Lrh, transport: &[u8]) -> u32 {
    Prefix::lrh(header).icrc(transport)
}

/// The CRC as the four bytes that follow the pad.
pub const fn to_wire(icrc: u32) -> [u8; LENGTH] {
    icrc.to_le_bytes()
}

/// Takes the CRC off the end of `bytes`: what it covers, and the CRC found. `None` if there are
/// fewer than four bytes.
pub fn split(bytes: &[u8]) -> Option<(&[u8], u32)> {
    let (transport, icrc) = bytes.split_last_chunk()?;
    Some((transport, u32::from_le_bytes(*icrc)))
}

impl Prefix {
    /// For RoCEv2 over IPv4. The kernel fills in Identification and Flags of what a UDP socket
    /// sends; both count here.
    pub fn ipv4(header: &Ipv4<'_>, udp: &Udp) -> Self {
        let masked =
            Ipv4 { type_of_service: 0xff, time_to_live: 0xff, checksum: 0xffff, ..*header };
        let mut bytes = [0xff; Lrh::LENGTH + Ipv4::LENGTH_MAX + Udp::LENGTH];
        let udp_start = Lrh::LENGTH + masked.length();
        masked.emit(&mut bytes[Lrh::LENGTH..]);
        Udp { checksum: 0xffff, ..*udp }.emit(&mut bytes[udp_start..]);
        Self(crc32fast::hash(&bytes[..udp_start + Udp::LENGTH]))
    }

    /// The one of headers over IPv4 that differ from this one's only in the Identification, by
    /// `difference` (XOR). Cheaper than computing it anew: a CRC is linear.
    #[must_use]
    pub fn with_identification_changed(self, difference: u16) -> Self {
        let mut crc = self.0;
        let mut rest = difference;
        while rest != 0 {
            crc ^= IDENTIFICATION_BITS[rest.trailing_zeros() as usize];
            rest &= rest - 1;
        }
        Self(crc)
    }

    /// For RoCEv2 over IPv6.
    pub fn ipv6(header: &Ipv6, udp: &Udp) -> Self {
        let mut bytes = [0xff; Lrh::LENGTH + Ipv6::LENGTH + Udp::LENGTH];
        masked(header).emit(&mut bytes[Lrh::LENGTH..]);
        Udp { checksum: 0xffff, ..*udp }.emit(&mut bytes[Lrh::LENGTH + Ipv6::LENGTH..]);
        Self(crc32fast::hash(&bytes))
    }

    /// For a packet with a GRH, whether an LRH stands before it (InfiniBand) or not (RoCEv1).
    pub fn grh(header: &Grh) -> Self {
        let mut bytes = [0xff; Lrh::LENGTH + Grh::LENGTH];
        masked(&Ipv6::from(*header)).emit(&mut bytes[Lrh::LENGTH..]);
        Self(crc32fast::hash(&bytes))
    }

    /// For an InfiniBand packet without a GRH, whose LRH no router changes.
    pub fn lrh(header: &Lrh) -> Self {
        let mut bytes = [0; Lrh::LENGTH];
        Lrh { virtual_lane: 0xf, ..*header }.emit(&mut bytes);
        Self(crc32fast::hash(&bytes))
    }

    /// The CRC of the packet that consists of these headers and `transport`, which reaches from
    /// the BTH to the pad.
    pub fn icrc(self, transport: &[u8]) -> u32 {
        let (bth, rest) = transport.split_at(transport.len().min(Bth::LENGTH));
        let mut masked = [0; Bth::LENGTH];
        masked[..bth.len()].copy_from_slice(bth);
        masked[BTH_VARIANT_BYTE] = 0xff;
        let mut hasher = Hasher::new_with_initial(self.0);
        hasher.update(&masked[..bth.len()]);
        hasher.update(rest);
        hasher.finalize()
    }
}

/// The header with ones where routers may change it.
fn masked(header: &Ipv6) -> Ipv6 {
    Ipv6 { traffic_class: 0xff, flow_label: 0xf_ffff, hop_limit: 0xff, ..*header }
}

/// The byte of the BTH with F, B and six reserved bits.
const BTH_VARIANT_BYTE: usize = 4;

/// What each bit of the Identification, the lowest first, contributes to the CRC of headers over
/// IPv4 without options.
const IDENTIFICATION_BITS: [u32; 16] = {
    let mut contributions = [0; 16];
    let mut bit = 0;
    while bit < 16 {
        // The low byte is followed by the flags and what comes after their word; the high byte
        // comes before the low one.
        let bytes = 1 + bit / 8 + 2 + IPV4_WORD_TO_BTH;
        let mut register: u32 = 1 << (bit % 8);
        let mut steps = 8 * bytes;
        while steps > 0 {
            register = register >> 1 ^ 0xedb8_8320 & (register & 1).wrapping_neg();
            steps -= 1;
        }
        contributions[bit] = register;
        bit += 1;
    }
    contributions
};

#[cfg(test)]
mod tests;
