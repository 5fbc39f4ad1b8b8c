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
///
/// As addresses come and go, an index keeps its GID for as long as that address is there; only one
/// that stands in for the other family yields to it. An index whose address has gone is empty until
/// the next address takes it, but for the first four, which pass to the next of their family. So
/// tables of processes that began at different times may differ beyond the first four.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GidTable(Vec<Gid>);

/// The indices before this have a meaning.
const FIXED: usize = 4;

impl GidTable {
    /// The table for the addresses that an interface has now.
    pub fn of(interface: &Interface) -> Self {
        Self(vec![Gid::ZERO; LENGTH_MIN]).updated(interface)
    }

    /// The table after the addresses have changed.
    #[must_use]
    pub fn updated(&self, interface: &Interface) -> Self {
        let ipv4: Vec<Gid> = interface.ipv4().map(|address| IpAddr::V4(address).into()).collect();
        let ipv6: Vec<Gid> = interface.ipv6().map(|address| IpAddr::V6(address).into()).collect();
        // Who is at the index that means its family stays there.
        let first = |family: &[Gid], index: usize| {
            let stays = self.0.get(index).filter(|gid| family.contains(gid));
            stays.or(family.first()).copied()
        };
        let mut table = match (first(&ipv4, 0), first(&ipv6, 2)) {
            (Some(four), Some(six)) => vec![four, four, six, four],
            (Some(only), None) | (None, Some(only)) => vec![only; FIXED],
            (None, None) => vec![Gid::ZERO; FIXED],
        };
        let addresses = || ipv4.iter().chain(&ipv6).copied();
        let kept = self.0.iter().skip(FIXED).copied();
        table.extend(kept.map(|old| addresses().find(|&gid| gid == old).unwrap_or(Gid::ZERO)));
        for new in addresses() {
            if table.contains(&new) {
                continue;
            }
            match table[FIXED..].iter().position(|&gid| gid == Gid::ZERO) {
                Some(free) => table[FIXED + free] = new,
                None if table.len() < LENGTH_MAX => table.push(new),
                None => break,
            }
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

    /// What the table holds after the addresses were these lists, one after the other, as
    /// `index address` without the first four unless they are asked for.
    fn history(lists: &[&[&str]], from: usize) -> Vec<String> {
        let mut table = GidTable::of(&Interface::for_tests("eth0", 2));
        for addresses in lists {
            let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
            table = table.updated(&Interface { addresses, ..Interface::for_tests("eth0", 2) });
        }
        let entries = table.entries().filter(|&(index, _)| index >= from);
        entries.map(|(index, gid)| format!("{index} {}", gid.ip().to_canonical())).collect()
    }

    #[test]
    fn what_stays_keeps_its_index() {
        let before: &[&str] = &["10.0.0.1", "10.0.0.2", "10.0.0.3", "fe80::1"];
        assert_eq!(history(&[before], 4), ["4 10.0.0.2", "5 10.0.0.3"]);
        // One goes and leaves a hole; the next to come takes it.
        let less: &[&str] = &["10.0.0.1", "10.0.0.3", "fe80::1"];
        assert_eq!(history(&[before, less], 4), ["5 10.0.0.3"]);
        let again: &[&str] = &["10.0.0.1", "10.0.0.3", "10.0.0.9", "10.0.0.8", "fe80::1"];
        assert_eq!(history(&[before, less, again], 4), ["4 10.0.0.9", "5 10.0.0.3", "6 10.0.0.8"]);
    }

    #[test]
    fn a_first_address_stays_first_until_it_goes() {
        let fixed = |lists: &[&[&str]]| history(lists, 0);
        let link_local: &[&str] = &["10.0.0.1", "fe80::1"];
        let wider: &[&str] = &["10.0.0.9", "10.0.0.1", "2001:db8::1", "fe80::1"];
        assert_eq!(
            fixed(&[link_local, wider]),
            ["0 10.0.0.1", "1 10.0.0.1", "2 fe80::1", "3 10.0.0.1", "4 10.0.0.9", "5 2001:db8::1"]
        );
        // Those that move up keep their old index too.
        assert_eq!(
            fixed(&[link_local, wider, &["10.0.0.9", "2001:db8::1"]]),
            [
                "0 10.0.0.9",
                "1 10.0.0.9",
                "2 2001:db8::1",
                "3 10.0.0.9",
                "4 10.0.0.9",
                "5 2001:db8::1"
            ]
        );
    }

    #[test]
    fn who_stands_in_for_the_other_family_yields_to_it() {
        assert_eq!(
            history(&[&["fe80::1"], &["10.0.0.1", "fe80::1"]], 0),
            ["0 10.0.0.1", "1 10.0.0.1", "2 fe80::1", "3 10.0.0.1"]
        );
        assert_eq!(
            history(&[&["10.0.0.1"], &["10.0.0.1", "fe80::1"], &["fe80::1"], &[]], 0),
            [""; 0]
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
