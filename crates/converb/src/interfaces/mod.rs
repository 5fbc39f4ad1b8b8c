//! The network interfaces of this network namespace, as the kernel tells them over rtnetlink.

mod attributes;
mod changes;
mod neighbour;
mod netlink;
mod speed;

use attributes::Attributes;
pub(crate) use changes::Changes;
pub(crate) use neighbour::next_hop_mac;
use netlink::Dump;
pub(crate) use netlink::Socket;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network interface and its addresses at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number in the kernel, above 0.
    pub index: u32,
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its MAC address; `None` for an interface that has none (loopback, tunnels).
    pub mac: Option<[u8; 6]>,
    /// The largest IP packet it carries, in bytes.
    pub mtu: u32,
    /// Whether it is administratively up (`ip link set up`).
    pub is_up: bool,
    /// Whether it has a carrier and can carry packets now.
    pub is_running: bool,
    /// The VLAN that it is a member of, if it is the interface of one.
    pub vlan: Option<u16>,
    /// Whether it is the loopback interface.
    pub is_loopback: bool,
    /// Whether it belongs to a bridge, a bond or the like, which has the addresses.
    pub has_master: bool,
    /// Whether a default route leaves through it.
    pub has_default_route: bool,
    /// Its usable addresses in the kernel's order, IPv4 first.
    pub addresses: Vec<IpAddr>,
}

impl Interface {
    /// All interfaces, in the order of their numbers.
    ///
    /// # Errors
    /// What the kernel says to a netlink socket (a sandbox may forbid it).
    pub fn all() -> io::Result<Vec<Self>> {
        Self::all_by(&mut Socket::open()?)
    }

    /// The same, asked for by a socket that is open already.
    pub(crate) fn all_by(socket: &mut Socket) -> io::Result<Vec<Self>> {
        let mut interfaces = Vec::new();
        socket
            .dump(Dump::Links, |header, attributes| interfaces.extend(link(header, attributes)))?;
        socket.dump(Dump::Addresses, |header, attributes| {
            let Some((index, address)) = address(header, attributes) else { return };
            if let Some(interface) = by_index(&mut interfaces, index) {
                interface.addresses.push(address);
            }
        })?;
        socket.dump(Dump::Routes, |header, attributes| {
            for index in default_route(header, attributes) {
                if let Some(interface) = by_index(&mut interfaces, index) {
                    interface.has_default_route = true;
                }
            }
        })?;
        interfaces.sort_by_key(|interface| interface.index);
        for interface in &mut interfaces {
            interface.addresses.sort_by_key(IpAddr::is_ipv6);
        }
        Ok(interfaces)
    }

    /// An interface that is up and has no addresses.
    #[cfg(test)]
    pub(crate) fn for_tests(name: &str, index: u32) -> Self {
        Self {
            index,
            name: name.to_owned(),
            mac: None,
            mtu: 1500,
            is_up: true,
            is_running: true,
            is_loopback: false,
            has_master: false,
            has_default_route: false,
            vlan: None,
            addresses: Vec::new(),
        }
    }

    /// The speed of the link in megabits per second, if the driver knows it.
    pub fn speed_megabits(&self) -> Option<u32> {
        speed::megabits(&self.name)
    }

    /// The IPv4 addresses, the primary one first.
    pub fn ipv4(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.addresses.iter().filter_map(|address| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        })
    }

    /// The IPv6 addresses, those that are valid beyond the link first.
    pub fn ipv6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        let all = || {
            self.addresses.iter().filter_map(|address| match address {
                IpAddr::V6(address) => Some(*address),
                IpAddr::V4(_) => None,
            })
        };
        all()
            .filter(|address| !address.is_unicast_link_local())
            .chain(all().filter(Ipv6Addr::is_unicast_link_local))
    }
}

fn by_index(interfaces: &mut [Interface], index: u32) -> Option<&mut Interface> {
    interfaces.iter_mut().find(|interface| interface.index == index)
}

/// IFF_LOWER_UP: the carrier itself. IFF_RUNNING follows it up to a second later, so that a program
/// started right after `ip link set up` would find its port down.
const LOWER_UP: u32 = 1 << 16;

/// `struct ifinfomsg`: family, padding, type (2 bytes), index, flags, change mask.
fn link(header: &[u8], attributes: Attributes<'_>) -> Option<Interface> {
    let index = word(header, 4)?;
    let flags = word(header, 8)?;
    let mut interface = Interface {
        index,
        name: String::new(),
        mac: None,
        mtu: 0,
        is_up: flags & libc::IFF_UP as u32 != 0,
        is_running: flags & LOWER_UP != 0,
        is_loopback: flags & libc::IFF_LOOPBACK as u32 != 0,
        has_master: false,
        has_default_route: false,
        vlan: None,
        addresses: Vec::new(),
    };
    for (kind, value) in attributes {
        match kind {
            libc::IFLA_IFNAME => interface.name = text(value)?,
            libc::IFLA_MTU => interface.mtu = word(value, 0)?,
            libc::IFLA_MASTER => interface.has_master = word(value, 0)? != 0,
            libc::IFLA_LINKINFO => interface.vlan = vlan(value),
            libc::IFLA_ADDRESS => {
                interface.mac =
                    <[u8; 6]>::try_from(value).ok().filter(|mac| mac.iter().any(|&byte| byte != 0));
            }
            _ => {}
        }
    }
    (!interface.name.is_empty()).then_some(interface)
}

/// The VLAN in an interface's kind-specific part.
fn vlan(information: &[u8]) -> Option<u16> {
    const KIND: u16 = libc::IFLA_INFO_KIND;
    const DATA: u16 = libc::IFLA_INFO_DATA;
    /// `IFLA_VLAN_ID`.
    const VLAN_ID: u16 = 1;
    let part = |wanted| Attributes(information).find(|&(kind, _)| kind == wanted);
    let (_, kind) = part(KIND)?;
    let (_, data) = part(DATA)?;
    let (_, id) = Attributes(data).find(|&(kind, _)| kind == VLAN_ID)?;
    (text(kind)? == "vlan").then(|| half(id, 0)).flatten()
}

/// `struct ifaddrmsg`: family, prefix length, flags, scope, index. Addresses that cannot be used
/// yet (duplicate address detection runs) or at all (it failed) are left out.
fn address(header: &[u8], attributes: Attributes<'_>) -> Option<(u32, IpAddr)> {
    let family = i32::from(*header.first()?);
    let mut flags = u32::from(*header.get(2)?);
    let index = word(header, 4)?;
    let mut address = None;
    for (kind, value) in attributes {
        match kind {
            // On a point-to-point link IFA_ADDRESS is the other end's; IFA_LOCAL, which IPv4
            // always has and IPv6 only there, comes after it.
            libc::IFA_ADDRESS | libc::IFA_LOCAL => address = ip(family, value),
            libc::IFA_FLAGS => flags = word(value, 0)?,
            _ => {}
        }
    }
    let is_unusable = flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) != 0
        && flags & libc::IFA_F_OPTIMISTIC == 0;
    if is_unusable { None } else { address.map(|address| (index, address)) }
}

/// `struct rtmsg`: family, destination length, source length, TOS, table, protocol, scope, type,
/// flags. The interfaces of a unicast route to everywhere in the main table.
fn default_route(header: &[u8], attributes: Attributes<'_>) -> Vec<u32> {
    let is_default = header.get(1) == Some(&0)
        && header.get(4) == Some(&libc::RT_TABLE_MAIN)
        && header.get(7) == Some(&libc::RTN_UNICAST);
    let mut indices = Vec::new();
    if !is_default {
        return indices;
    }
    for (kind, value) in attributes {
        match kind {
            libc::RTA_OIF => indices.extend(word(value, 0)),
            libc::RTA_MULTIPATH => {
                // `struct rtnexthop`: length (2 bytes), flags, hops, index; attributes follow.
                let mut rest = value;
                while let (Some(length), Some(index)) = (half(rest, 0), word(rest, 4)) {
                    indices.push(index);
                    let step = usize::from(length).next_multiple_of(4).max(8);
                    rest = rest.get(step..).unwrap_or_default();
                }
            }
            _ => {}
        }
    }
    indices
}

fn ip(family: i32, value: &[u8]) -> Option<IpAddr> {
    match family {
        libc::AF_INET => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        libc::AF_INET6 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
        _ => None,
    }
}

fn text(value: &[u8]) -> Option<String> {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8(value[..end].to_vec()).ok()
}

fn half(bytes: &[u8], offset: usize) -> Option<u16> {
    let bytes = bytes.get(offset..offset.checked_add(2)?)?;
    bytes.try_into().ok().map(u16::from_ne_bytes)
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset.checked_add(4)?)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests;
