//! The invariant CRC of what travels between two UDP endpoints.

use converb_wire::icrc::{self, IPV4_WORD_TO_BTH, Prefix};
use converb_wire::{IpProtocol, Ipv4, Ipv6, Udp};
use core::net::{Ipv4Addr, Ipv6Addr};

/// Identification and flags of an IPv4 header with DF set and this Identification: what we send
/// and expect of peers.
pub(crate) const fn word_of(identification: u16) -> u32 {
    (identification as u32) << 16 | DONT_FRAGMENT
}

/// The Identification in such a word, if the flags are DF and the packet is no fragment.
pub(crate) const fn identification_of(word: u32) -> Option<u16> {
    if word & 0xffff == DONT_FRAGMENT { Some((word >> 16) as u16) } else { None }
}

const DONT_FRAGMENT: u32 = 0x4000;

/// The addresses and ports that the invariant CRC covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    addresses: Addresses,
    source_port: u16,
    destination_port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addresses {
    Ipv4(Ipv4Addr, Ipv4Addr),
    Ipv6(Ipv6Addr, Ipv6Addr),
}

impl Flow {
    /// From one endpoint to another; IPv4 addresses in their v4-mapped form. `None` if the
    /// addresses are of different families.
    pub(crate) fn new(
        (source, source_port): (Ipv6Addr, u16),
        (destination, destination_port): (Ipv6Addr, u16),
    ) -> Option<Self> {
        let addresses = match (source.to_ipv4_mapped(), destination.to_ipv4_mapped()) {
            (Some(source), Some(destination)) => Addresses::Ipv4(source, destination),
            (None, None) => Addresses::Ipv6(source, destination),
            _ => return None,
        };
        Some(Self { addresses, source_port, destination_port })
    }

    /// The source, if this is IPv4: then packets have an Identification.
    pub(crate) const fn ipv4_source(&self) -> Option<Ipv4Addr> {
        match self.addresses {
            Addresses::Ipv4(source, _) => Some(source),
            Addresses::Ipv6(..) => None,
        }
    }

    /// Whether this is IPv4.
    pub(crate) const fn is_ipv4(&self) -> bool {
        matches!(self.addresses, Addresses::Ipv4(..))
    }

    /// Writes the IP and UDP headers that a packet had on the wire, `payload` being its BTH to
    /// invariant CRC, over the first bytes of `into`; returns how many they are. The UDP checksum
    /// is the right one, whoever fills it in.
    pub(crate) fn headers(
        &self,
        identification: u16,
        traffic_class: u8,
        hop_limit: u8,
        payload: &[u8],
        into: &mut [u8; Self::HEADERS_MAX],
    ) -> usize {
        let udp = Udp::new(self.source_port, self.destination_port, payload.len() as u16);
        let start = match self.addresses {
            Addresses::Ipv4(source, destination) => {
                let mut ip = Ipv4::new(source, destination, IpProtocol::UDP, udp.length);
                ip.identification = identification;
                ip.type_of_service = traffic_class;
                ip.time_to_live = hop_limit;
                ip.checksum = ip.right_checksum();
                ip.emit(into);
                Ipv4::LENGTH
            }
            Addresses::Ipv6(source, destination) => {
                let ip = Ipv6::new(source, destination, IpProtocol::UDP, udp.length);
                Ipv6 { traffic_class, hop_limit, ..ip }.emit(into);
                Ipv6::LENGTH
            }
        };
        let checksum = self.udp_checksum(&udp, payload);
        Udp { checksum, ..udp }.emit(&mut into[start..]);
        start + Udp::LENGTH
    }

    /// IPv6 and UDP.
    pub(crate) const HEADERS_MAX: usize = Ipv6::LENGTH + Udp::LENGTH;

    /// RFC 768, RFC 8200 section 8.1.
    fn udp_checksum(&self, udp: &Udp, payload: &[u8]) -> u16 {
        let mut header = [0; Udp::LENGTH];
        udp.emit(&mut header);
        let pseudo = match self.addresses {
            Addresses::Ipv4(source, destination) => {
                sum(&source.octets()) + sum(&destination.octets())
            }
            Addresses::Ipv6(source, destination) => {
                sum(&source.octets()) + sum(&destination.octets())
            }
        };
        let protocol = u64::from(IpProtocol::UDP.0) + u64::from(udp.length);
        let mut total = pseudo + protocol + sum(&header) + sum(payload);
        while total > 0xffff {
            total = (total >> 16) + (total & 0xffff);
        }
        match !(total as u16) {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// What the invariant CRCs of packets of `transport_bytes`, BTH to pad, have in common.
    pub(crate) fn share(&self, transport_bytes: usize) -> Share {
        let length = (transport_bytes + icrc::LENGTH) as u16;
        let udp = Udp::new(self.source_port, self.destination_port, length);
        let length = length.saturating_add(Udp::LENGTH as u16);
        let prefix = match self.addresses {
            Addresses::Ipv4(source, destination) => {
                Prefix::ipv4(&Ipv4::new(source, destination, IpProtocol::UDP, length), &udp)
            }
            Addresses::Ipv6(source, destination) => {
                Prefix::ipv6(&Ipv6::new(source, destination, IpProtocol::UDP, length), &udp)
            }
        };
        Share { prefix, transport_bytes, is_ipv4: self.is_ipv4() }
    }
}

/// The 16-bit words of `bytes` added up; a last odd byte is the high half of one.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let words: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    words + rest.first().map_or(0, |last| u64::from(*last) << 8)
}

/// What the invariant CRCs of packets of one flow and length have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    prefix: Prefix,
    transport_bytes: usize,
    is_ipv4: bool,
}

impl Share {
    /// Whether it is that of packets of this length.
    pub(crate) const fn is_for(&self, transport_bytes: usize) -> bool {
        self.transport_bytes == transport_bytes
    }

    /// The invariant CRC of a packet, BTH to pad, that has this Identification and DF set. IPv6
    /// has none and does not look at it.
    pub(crate) fn icrc(&self, identification: u16, transport: &[u8]) -> u32 {
        debug_assert!(self.is_for(transport.len()));
        let prefix = if self.is_ipv4 {
            self.prefix.with_identification_changed(identification)
        } else {
            self.prefix
        };
        prefix.icrc(transport)
    }
}

/// The word with Identification and flags that a packet of `transport_bytes` (BTH to pad) was
/// sent with, given the CRC that came and the one that it has with `assumed` as that word. The
/// word of a damaged packet is arbitrary.
pub(crate) fn actual_word(
    received: u32,
    computed: u32,
    assumed: u32,
    transport_bytes: usize,
) -> u32 {
    // What the two CRCs differ by is the contribution of what the two words differ by.
    icrc::ipv4_word(received, computed, IPV4_WORD_TO_BTH + transport_bytes) ^ assumed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(last: u8) -> Ipv6Addr {
        Ipv4Addr::new(10, 0, 0, last).to_ipv6_mapped()
    }

    #[test]
    fn the_word_of_a_packet_is_read_from_its_crc() {
        let flow = Flow::new((mapped(1), 50_000), (mapped(2), 4791)).expect("one family");
        for bytes in [16, 60, 4112] {
            let transport: Vec<u8> = (0..bytes).map(|index| index as u8).collect();
            let share = flow.share(transport.len());
            let received = share.icrc(0xbeef, &transport);
            let computed = share.icrc(3, &transport);
            let word = actual_word(received, computed, word_of(3), transport.len());
            assert_eq!(identification_of(word), Some(0xbeef));
            let damaged = actual_word(received ^ 1, computed, word_of(3), transport.len());
            assert_eq!(identification_of(damaged), None);
        }
    }

    #[test]
    fn headers_are_those_that_a_packet_had() {
        let six = |last: u16| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
        for (source, destination) in [(mapped(1), mapped(2)), (six(1), six(2))] {
            let flow = Flow::new((source, 50_000), (destination, 4791)).expect("one family");
            for payload in [&[1u8, 2, 3, 4, 5][..], &[0xff; 100]] {
                let mut bytes = [0; Flow::HEADERS_MAX];
                let length = flow.headers(7, 96, 63, payload, &mut bytes);
                let bytes = [&bytes[..length], payload].concat();
                let (udp, addresses) = if flow.is_ipv4() {
                    let (ip, udp) = Ipv4::parse(&bytes).expect("a header");
                    assert_eq!((ip.identification, ip.type_of_service), (7, 96));
                    assert_eq!(ip.checksum, ip.right_checksum());
                    (udp, sum(&ip.source.octets()) + sum(&ip.destination.octets()))
                } else {
                    let (ip, udp) = Ipv6::parse(&bytes).expect("a header");
                    assert_eq!((ip.traffic_class, ip.hop_limit), (96, 63));
                    (udp, sum(&ip.source.octets()) + sum(&ip.destination.octets()))
                };
                // With its checksum, all of it adds up to minus zero (RFC 1071).
                let total = addresses + 17 + udp.len() as u64 + sum(udp);
                assert_eq!(total % 0xffff, 0);
            }
        }
    }

    #[test]
    fn a_flow_has_one_family_and_ipv6_no_identification() {
        let six: Ipv6Addr = "fd00::1".parse().expect("an address");
        assert!(Flow::new((six, 1), (mapped(1), 2)).is_none());
        let flow = Flow::new((six, 1), (six, 2)).expect("one family");
        let share = flow.share(20);
        assert_eq!(share.icrc(1, &[0; 20]), share.icrc(2, &[0; 20]));
        assert_eq!(flow.ipv4_source(), None);
    }
}
