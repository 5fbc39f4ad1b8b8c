//! The IP hop limit (IPv4: time to live). The entry goes by the destination's family.

use super::control::{Control, integer};

/// What senders use unless a message says otherwise.
pub(crate) const USUAL: u8 = 64;

/// Sends with this hop limit.
pub(crate) fn hop_limit(control: &mut Control, is_ipv4: bool, limit: u8) {
    if is_ipv4 {
        control.push(libc::IPPROTO_IP, libc::IP_TTL, &i32::from(limit).to_ne_bytes());
    } else {
        control.push(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &i32::from(limit).to_ne_bytes());
    }
}

/// The hop limit, if this entry of a received message tells it.
pub(crate) fn hop_limit_of(level: i32, kind: i32, data: &[u8]) -> Option<u8> {
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
            integer(data).map(|value| value as u8)
        }
        _ => None,
    }
}
