//! UDP_SEGMENT: one call sends many datagrams, cut by the kernel or the network card.

use super::control::Control;
use super::options::Family;
use super::{Endpoint, SendBatch, SocketName};
use core::net::Ipv4Addr;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// The most segments of one send on every kernel that has UDP_SEGMENT.
const SEGMENTS_ALWAYS: usize = 64;
/// The most segments of one send on newer kernels. A receiver takes the Identification of each
/// for granted below this number, so it is not to grow.
const SEGMENTS_NEWER: usize = 128;

/// Asks for segments of `bytes` each; the last may be shorter.
pub(crate) fn segmentation(control: &mut Control, bytes: u16) {
    control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &bytes.to_ne_bytes());
}

/// How many segments one send may have: 0 if the kernel has no UDP_SEGMENT.
///
/// Tries it: `socket`, which listens on `port` and drops all that it receives, is sent a datagram
/// in 65 segments. Kernels that take 64 at most refuse it before they do anything else.
pub(crate) fn segments_max(socket: BorrowedFd<'_>, family: Family, port: u16) -> usize {
    let loopback = Endpoint { ip: Ipv4Addr::LOCALHOST.to_ipv6_mapped(), scope: 0, port };
    let Some(name) = SocketName::new(loopback, family) else { return SEGMENTS_ALWAYS };
    let mut control = Control::new();
    segmentation(&mut control, 1);
    let attempt = |bytes: &[u8]| {
        let mut batch = SendBatch::new();
        batch.push(&name, control.bytes(), bytes);
        batch.send(socket)
    };
    if attempt(&[0; SEGMENTS_ALWAYS + 1]).is_ok() {
        return SEGMENTS_NEWER;
    }
    match attempt(&[0; 2]) {
        // Too old to know the option, or it was refused for the loopback device.
        Err(Errno::OPNOTSUPP | Errno::NOPROTOOPT | Errno::IO | Errno::INVAL) => 0,
        // An interface that is down or a filter says nothing about segments.
        _ => SEGMENTS_ALWAYS,
    }
}
