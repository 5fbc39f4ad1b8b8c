//! PKTINFO: which of our addresses a datagram leaves from, or came to.
//!
//! Sockets are bound to no address, so without it the kernel would choose the source by its
//! routes, and the invariant CRC, computed over the address that the queue pair was given, would
//! not fit.

use super::control::Control;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Sends from `ip` (v4-mapped for IPv4), by interface `scope` if it is link-local.
pub(crate) fn source_address(control: &mut Control, ip: Ipv6Addr, scope: u32) {
    match ip.to_ipv4_mapped() {
        Some(ip) => {
            // struct in_pktinfo: interface (0: by the routes), source, unused destination.
            let mut data = [0; 12];
            data[4..8].copy_from_slice(&ip.octets());
            control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &data);
        }
        None => {
            // struct in6_pktinfo: source, interface.
            let mut data = [0; 20];
            data[..16].copy_from_slice(&ip.octets());
            data[16..].copy_from_slice(&scope.to_ne_bytes());
            control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data);
        }
    }
}

/// The address that a datagram was sent to and the interface it came by, if this entry of a
/// received message tells it.
pub(crate) fn local_address(level: i32, kind: i32, data: &[u8]) -> Option<(Ipv6Addr, u32)> {
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            // The destination in the header, not the local address that answers for it: they
            // differ for multicast, and the header's is what the CRC covers.
            let interface = u32::from_ne_bytes(data.get(0..4)?.try_into().ok()?);
            let ip: [u8; 4] = data.get(8..12)?.try_into().ok()?;
            Some((Ipv4Addr::from(ip).to_ipv6_mapped(), interface))
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let ip: [u8; 16] = data.get(0..16)?.try_into().ok()?;
            let interface = u32::from_ne_bytes(data.get(16..20)?.try_into().ok()?);
            Some((Ipv6Addr::from(ip), interface))
        }
        _ => None,
    }
}
