//! Which device is behind an IP address, and which address of ours leads to a peer's.

use crate::device::Device;
use crate::error::Error;
use crate::gid::Gid;
use converb_agent::At;
use converb_cm::manager::Place;
use converb_engine::Address;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

/// The devices that were found, for ever: an identifier's device is the same as another's.
static DEVICES: Mutex<Vec<Arc<Device>>> = Mutex::new(Vec::new());

/// The device that has an address.
///
/// # Errors
/// `ENODEV`: none has.
pub(super) fn device_of(address: SocketAddr) -> Result<Arc<Device>, Error> {
    let mut known = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = known.iter().find(|device| has(device, address)) {
        return Ok(Arc::clone(device));
    }
    for device in Device::list()? {
        if !known.iter().any(|other| other.is_same(&device)) {
            known.push(device);
        }
    }
    let found = known.iter().find(|device| has(device, address)).map(Arc::clone);
    found.ok_or_else(no_device)
}

fn has(device: &Device, address: SocketAddr) -> bool {
    let gid = Gid::from(address.ip());
    let scope = scope_of(address);
    (scope == 0 || scope == device.interface_index())
        && device.gids().entries().any(|(_, own)| own == gid)
}

fn no_device() -> Error {
    Error::system("find a device with this address")(io::Error::from_raw_os_error(libc::ENODEV))
}

/// The address of ours from which packets to a peer leave, with its port if one was asked for.
///
/// # Errors
/// What the kernel says: `ENETUNREACH` without a route.
pub(super) fn source_for(peer: SocketAddr, source: Option<SocketAddr>) -> io::Result<SocketAddr> {
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut from = source.unwrap_or(SocketAddr::new(any, 0));
    let port = from.port();
    // The kernel is asked for the way; nothing is sent, and no port is taken.
    from.set_port(0);
    let socket = UdpSocket::bind(from)?;
    let mut to = peer;
    to.set_port(1);
    socket.connect(to)?;
    let mut own = socket.local_addr()?;
    own.set_port(port);
    Ok(own)
}

/// The interface of a link-local address, else 0.
pub(super) fn scope_of(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => v6.scope_id(),
        _ => 0,
    }
}

/// An address as packets have it.
pub(super) fn on_wire(address: SocketAddr) -> Address {
    Address::Udp { ip: mapped(address.ip()), scope: scope_of(address) }
}

/// An address as programs know it.
pub(super) fn of_packet(address: Address, port: u16) -> SocketAddr {
    let Address::Udp { ip, scope } = address else {
        return SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
    };
    match ip.to_ipv4_mapped() {
        Some(v4) => SocketAddr::new(v4.into(), port),
        None => SocketAddrV6::new(ip, port, 0, scope).into(),
    }
}

/// An address as GIDs have it: IPv4 in its v4-mapped form.
pub(super) fn mapped(ip: IpAddr) -> Ipv6Addr {
    Gid::from(ip).ip()
}

/// Where an identifier that is bound to an address serves: for the agent, and for our own manager.
pub(super) fn served_at(address: SocketAddr, only_own_family: bool) -> (At, Place) {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => {
            (At::All { v4: true, v6: false }, Place::Ipv4)
        }
        SocketAddr::V6(v6) if v6.ip().is_unspecified() && only_own_family => {
            (At::All { v4: false, v6: true }, Place::Ipv6)
        }
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            (At::All { v4: true, v6: true }, Place::All)
        }
        _ => {
            let at = At::One { ip: mapped(address.ip()), scope: scope_of(address) };
            (at, Place::One(on_wire(address)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_leads_to_loopback() {
        let peer: SocketAddr = "127.0.0.1:7174".parse().unwrap();
        let own = source_for(peer, None).unwrap();
        assert_eq!(own, "127.0.0.1:0".parse().unwrap());
        assert_eq!(device_of(own).unwrap().interface().name, "lo");
        let bound: SocketAddr = "127.0.0.1:99".parse().unwrap();
        assert_eq!(source_for(peer, Some(bound)).unwrap(), bound, "the port stays");
    }

    #[test]
    fn an_address_that_nobody_has_has_no_device() {
        let error = device_of("203.0.113.77:1".parse().unwrap()).unwrap_err();
        assert_eq!(error.errno(), libc::ENODEV);
        assert!(
            source_for("127.0.0.1:1".parse().unwrap(), Some("203.0.113.77:0".parse().unwrap()))
                .is_err()
        );
    }

    #[test]
    fn addresses_survive_the_wire() {
        for text in ["10.1.2.3:80", "[2001:db8::1]:80", "[fe80::1%3]:80"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(of_packet(on_wire(address), 80), address, "{text}");
        }
    }
}
