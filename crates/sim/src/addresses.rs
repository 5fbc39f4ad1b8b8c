//! Addresses of nodes: the simulated network counts its nodes, packets see one of its families.

use converb_engine::Address;
use core::net::{Ipv4Addr, Ipv6Addr};

/// What addresses look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Local identifiers.
    Lid,
    /// RoCEv2 over IPv4: 10.0.0.0/16.
    Ipv4,
    /// RoCEv2 over IPv6: fd00::/112.
    Ipv6,
}

impl Family {
    /// The address with this number.
    pub const fn address(self, number: u16) -> Address {
        let [high, low] = number.to_be_bytes();
        let ip = match self {
            Self::Lid => return Address::Lid(number),
            Self::Ipv4 => Ipv4Addr::new(10, 0, high, low).to_ipv6_mapped(),
            Self::Ipv6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number),
        };
        Address::Udp { ip, scope: 0 }
    }
}

/// The number of an address, in any family; one that no node has if it is none of ours.
pub const fn number_of(address: Address) -> u16 {
    match address {
        Address::Lid(number) => number,
        Address::Udp { ip, .. } => {
            let bytes = ip.octets();
            u16::from_be_bytes([bytes[14], bytes[15]])
        }
        Address::Ethernet(_) => u16::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_number_in_every_family() {
        for family in [Family::Lid, Family::Ipv4, Family::Ipv6] {
            assert_eq!(number_of(family.address(0x0102)), 0x0102);
        }
    }
}
