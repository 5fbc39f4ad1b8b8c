//! The IP traffic class (IPv4: TOS), DSCP and ECN together.
//!
//! The entry goes by the destination's family, not the socket's: IPV6_TCLASS is silently ignored
//! for v4-mapped destinations. On receipt IPv4 brings a single byte.

use super::control::{Control, integer};

/// Sends with this traffic class.
pub(crate) fn traffic_class(control: &mut Control, is_ipv4: bool, class: u8) {
    if is_ipv4 {
        control.push(libc::IPPROTO_IP, libc::IP_TOS, &i32::from(class).to_ne_bytes());
    } else {
        control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &i32::from(class).to_ne_bytes());
    }
}

/// The traffic class, if this entry of a received message tells it.
pub(crate) fn traffic_class_of(level: i32, kind: i32, data: &[u8]) -> Option<u8> {
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            integer(data).map(|value| value as u8)
        }
        _ => None,
    }
}
