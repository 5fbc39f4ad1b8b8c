//! The MAC address behind an IP address: which neighbour leads there, and where it is.

use super::netlink::{Dump, ROUTE_BYTES, Socket};
use super::{Attributes, half, ip, word};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

/// For how long a neighbour is looked for.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);
/// The port that discards what it gets: a packet to it makes the kernel look for the neighbour.
const DISCARD_PORT: u16 = 9;
/// `NUD_INCOMPLETE` and `NUD_FAILED`: there is no address (yet).
const WITHOUT_ADDRESS: u16 = 0x01 | 0x20;

/// The MAC address that packets to `destination` are sent to, when they leave by the interface
/// with this number. `None` for an address of this host.
///
/// # Errors
/// There is no route, or no neighbour answers.
pub(crate) fn next_hop_mac(interface: u32, destination: Ipv6Addr) -> io::Result<Option<[u8; 6]>> {
    let destination = destination.to_canonical();
    if let Some(mac) = multicast_mac(destination) {
        return Ok(Some(mac));
    }
    let mut socket = Socket::open()?;
    let Some(hop) = next_hop(&mut socket, interface, destination)? else { return Ok(None) };
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(mac) = neighbour(&mut socket, interface, hop)? {
            return Ok(Some(mac));
        }
        if Instant::now() >= deadline {
            return Err(io::Error::from_raw_os_error(libc::EHOSTUNREACH));
        }
        knock(interface, hop)?;
        std::thread::sleep(PAUSE);
    }
}

/// The addresses that groups have by rule (RFC 1112, RFC 2464).
fn multicast_mac(address: IpAddr) -> Option<[u8; 6]> {
    match address {
        IpAddr::V4(address) if address.is_multicast() => {
            let [_, b, c, d] = address.octets();
            Some([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(address) if address.is_multicast() => {
            let octets = address.octets();
            Some([0x33, 0x33, octets[12], octets[13], octets[14], octets[15]])
        }
        _ => None,
    }
}

/// The gateway, or the destination itself if it is on the link; `None` if it is this host.
fn next_hop(
    socket: &mut Socket,
    interface: u32,
    destination: IpAddr,
) -> io::Result<Option<IpAddr>> {
    let (family, octets) = match destination {
        IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
    };
    // `struct rtmsg`: family, and how many bits of the destination count.
    let mut request = vec![0; ROUTE_BYTES];
    request[0] = family as u8;
    request[1] = (octets.len() * 8) as u8;
    attribute(&mut request, libc::RTA_DST, &octets);
    // A link-local address means nothing without its interface; for the others the kernel knows
    // best, and local addresses are found on any interface.
    let is_link_local = matches!(destination, IpAddr::V6(v6) if v6.is_unicast_link_local());
    if is_link_local {
        attribute(&mut request, libc::RTA_OIF, &interface.to_ne_bytes());
    }
    let reply = socket.route(&request)?;
    if reply.get(7) == Some(&libc::RTN_LOCAL) {
        return Ok(None);
    }
    let attributes = Attributes(reply.get(ROUTE_BYTES..).unwrap_or_default());
    let gateway = attributes
        .filter(|&(kind, _)| kind == libc::RTA_GATEWAY)
        .find_map(|(_, value)| ip(family, value));
    Ok(Some(gateway.unwrap_or(destination)))
}

/// What the kernel's neighbour table says.
fn neighbour(socket: &mut Socket, interface: u32, address: IpAddr) -> io::Result<Option<[u8; 6]>> {
    let mut found = None;
    socket.dump(Dump::Neighbours, |header, attributes| {
        // `struct ndmsg`: family, padding (3 bytes), interface, state (2 bytes), flags, type.
        let (Some(&family), Some(index), Some(state)) =
            (header.first(), word(header, 4), half(header, 8))
        else {
            return;
        };
        let (mut its_address, mut mac) = (None, None);
        for (kind, value) in attributes {
            match kind {
                libc::NDA_DST => its_address = ip(family.into(), value),
                libc::NDA_LLADDR => mac = value.try_into().ok(),
                _ => {}
            }
        }
        if index == interface && its_address == Some(address) && state & WITHOUT_ADDRESS == 0 {
            found = mac;
        }
    })?;
    Ok(found)
}

/// Makes the kernel look for a neighbour.
fn knock(interface: u32, address: IpAddr) -> io::Result<()> {
    let target = match address {
        IpAddr::V4(_) => SocketAddr::new(address, DISCARD_PORT),
        IpAddr::V6(address) => SocketAddrV6::new(address, DISCARD_PORT, 0, interface).into(),
    };
    let local: IpAddr = if address.is_ipv4() {
        std::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((local, 0))?;
    // An error of an earlier packet may be reported here; the table tells what came of it.
    let _ = socket.send_to(&[], target);
    Ok(())
}

fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_no_neighbour_for_itself() {
        for own in ["::ffff:127.0.0.1", "::1"] {
            assert_eq!(next_hop_mac(1, own.parse().unwrap()).unwrap(), None);
        }
    }

    #[test]
    fn groups_have_their_addresses_by_rule() {
        let mac = |address: &str| next_hop_mac(1, address.parse().unwrap()).unwrap().unwrap();
        assert_eq!(mac("::ffff:239.129.2.3"), [0x01, 0x00, 0x5e, 1, 2, 3]);
        assert_eq!(mac("ff02::1:ff00:1"), [0x33, 0x33, 0xff, 0, 0, 1]);
    }
}
