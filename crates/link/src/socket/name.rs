//! Socket addresses: `sockaddr_in` for AF_INET sockets, `sockaddr_in6` for dual-stack ones.

use super::Family;
use core::net::{Ipv4Addr, Ipv6Addr};

/// An address as the engine sees it, with its UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The address, IPv4 in its v4-mapped form.
    pub(crate) ip: Ipv6Addr,
    /// Interface of a link-local address, else 0.
    pub(crate) scope: u32,
    /// The UDP port.
    pub(crate) port: u16,
}

/// Bytes of the longest name, `sockaddr_in6`.
pub(crate) const NAME_BYTES: usize = 28;

/// An [`Endpoint`] in the kernel's form.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
pub(crate) struct SocketName {
    bytes: [u8; NAME_BYTES],
    length: u32,
}

impl SocketName {
    /// The name of `endpoint` for a socket of `family`; `None` if such a socket cannot reach it.
    pub(crate) fn new(endpoint: Endpoint, family: Family) -> Option<Self> {
        let mut bytes = [0; NAME_BYTES];
        bytes[2..4].copy_from_slice(&endpoint.port.to_be_bytes());
        let length = match family {
            Family::Inet4 => {
                let ip = endpoint.ip.to_ipv4_mapped()?;
                bytes[0..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                bytes[4..8].copy_from_slice(&ip.octets());
                16
            }
            Family::Dual => {
                bytes[0..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
                bytes[8..24].copy_from_slice(&endpoint.ip.octets());
                bytes[24..28].copy_from_slice(&endpoint.scope.to_ne_bytes());
                NAME_BYTES as u32
            }
        };
        Some(Self { bytes, length })
    }

    /// The bytes of the name.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }
}

/// The endpoint that the kernel wrote.
pub(crate) fn parse(name: &[u8]) -> Option<Endpoint> {
    let family = u16::from_ne_bytes(name.get(0..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(name.get(2..4)?.try_into().ok()?);
    match i32::from(family) {
        libc::AF_INET => {
            let ip: [u8; 4] = name.get(4..8)?.try_into().ok()?;
            Some(Endpoint { ip: Ipv4Addr::from(ip).to_ipv6_mapped(), scope: 0, port })
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = name.get(8..24)?.try_into().ok()?;
            let scope = u32::from_ne_bytes(name.get(24..28)?.try_into().ok()?);
            Some(Endpoint { ip: Ipv6Addr::from(ip), scope, port })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_were_made() {
        let mapped = Ipv4Addr::new(10, 1, 2, 3).to_ipv6_mapped();
        let four = Endpoint { ip: mapped, scope: 0, port: 4791 };
        let link_local = "fe80::1".parse().expect("an address");
        let six = Endpoint { ip: link_local, scope: 7, port: 4791 };
        for (endpoint, family) in [(four, Family::Inet4), (four, Family::Dual), (six, Family::Dual)]
        {
            let name = SocketName::new(endpoint, family).expect("reachable");
            assert_eq!(parse(name.bytes()), Some(endpoint));
            assert_eq!(parse(&name.bytes()[..3]), None);
        }
        assert!(SocketName::new(six, Family::Inet4).is_none());
    }
}
