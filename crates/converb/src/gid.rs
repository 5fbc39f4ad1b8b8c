//! GIDs: the addresses of a port, and the table of them that programs choose from by index.

use crate::interfaces::Interface;
use std::net::{IpAddr, Ipv6Addr};

/// A global identifier: an IPv6 address, or an IPv4 address in its v4-mapped form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The GID that says "no GID".
    pub const ZERO: Self = Self([0; 16]);

    /// The IP address, IPv4 in its v4-mapped form.
    pub fn ip(self) -> Ipv6Addr {
        Ipv6Addr::from(self.0)
    }
}

impl From<IpAddr> for Gid {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self(address.to_ipv6_mapped().octets()),
            IpAddr::V6(address) => Self(address.octets()),
        }
    }
}

impl std::fmt::Display for Gid {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, pair) in self.0.chunks_exact(2).enumerate() {
            let separator = if position == 0 { "" } else { ":" };
            write!(formatter, "{separator}{:02x}{:02x}", pair[0], pair[1])?;
        }
        Ok(())
    }
}

/// How many entries a table has at least.
const LENGTH_MIN: usize = 16;
/// An index is one byte in `struct ibv_global_route`.
const LENGTH_MAX: usize = 256;

/// The GID table of a port; every entry is RoCEv2.
///
/// People copy GID indices from guides that were written for different NICs. So 0, 1 and 3 are the
/// primary IPv4 address and 2 is the first IPv6 address (one that is valid beyond the link, if
/// there is any); the other addresses follow. An interface with only one family has its first
/// address in all four.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GidTable(Vec<Gid>);

impl GidTable {
    /// The table for the addresses that an interface has now.
    pub fn of(interface: &Interface) -> Self {
        let mut ipv4 = interface.ipv4().map(|address| Gid::from(IpAddr::V4(address)));
        let mut ipv6 = interface.ipv6().map(|address| Gid::from(IpAddr::V6(address)));
        let mut table = match (ipv4.next(), ipv6.next()) {
            (Some(four), Some(six)) => vec![four, four, six, four],
            (Some(only), None) | (None, Some(only)) => vec![only; 4],
            (None, None) => Vec::new(),
        };
        table.extend(ipv4);
        table.extend(ipv6);
        table.truncate(LENGTH_MAX);
        if table.len() < LENGTH_MIN {
            table.resize(LENGTH_MIN, Gid::ZERO);
        }
        Self(table)
    }

    /// The number of entries (`gid_tbl_len`), empty ones included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no entry holds a GID.
    pub fn is_empty(&self) -> bool {
        self.entries().next().is_none()
    }

    /// The GID at an index, the zero GID for an empty entry; `None` beyond the end.
    pub fn get(&self, index: usize) -> Option<Gid> {
        self.0.get(index).copied()
    }

    /// The entries that hold a GID, with their indices.
    pub fn entries(&self) -> impl Iterator<Item = (usize, Gid)> + '_ {
        self.0.iter().copied().enumerate().filter(|&(_, gid)| gid != Gid::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(addresses: &[&str]) -> Vec<Ipv6Addr> {
        let interface = Interface {
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            ..Interface::for_tests("eth0", 2)
        };
        GidTable::of(&interface).entries().map(|(_, gid)| gid.ip()).collect()
    }

    fn ips(addresses: &[&str]) -> Vec<Ipv6Addr> {
        addresses.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn indices_0_1_and_3_are_ipv4_and_2_is_the_wider_ipv6() {
        assert_eq!(
            table(&["10.0.0.1", "10.0.0.2", "fe80::1", "2001:db8::1", "2001:db8::2"]),
            ips(&[
                "::ffff:10.0.0.1",
                "::ffff:10.0.0.1",
                "2001:db8::1",
                "::ffff:10.0.0.1",
                "::ffff:10.0.0.2",
                "2001:db8::2",
                "fe80::1",
            ])
        );
    }

    #[test]
    fn one_family_alone_fills_the_first_four() {
        assert_eq!(table(&["fe80::1"]), ips(&["fe80::1"; 4]));
        assert_eq!(table(&["10.0.0.1"]), ips(&["::ffff:10.0.0.1"; 4]));
    }

    #[test]
    fn the_rest_of_the_table_is_empty_but_there() {
        let none = GidTable::of(&Interface::for_tests("eth0", 2));
        assert!(none.is_empty());
        assert_eq!((none.len(), none.get(15), none.get(16)), (16, Some(Gid::ZERO), None));
    }

    #[test]
    fn many_addresses_make_the_table_longer_up_to_what_an_index_can_name() {
        let many: Vec<String> = (0..300).map(|n| format!("10.0.{}.{}", n / 250, n % 250)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(table(&many).len(), 256);
    }

    #[test]
    fn a_gid_is_written_in_full() {
        let gid = Gid::from("10.0.0.1".parse::<IpAddr>().unwrap());
        assert_eq!(gid.to_string(), "0000:0000:0000:0000:0000:ffff:0a00:0001");
    }
}
