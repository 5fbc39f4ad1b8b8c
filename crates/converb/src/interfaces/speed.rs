//! The speed of a link, as its driver tells it.

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::os::fd::AsRawFd;

/// `ETHTOOL_GSET`, the oldest way to ask and the one that every driver answers.
const ETHTOOL_GSET: u32 = 1;

/// `struct ethtool_cmd`.
#[repr(C)]
struct Settings {
    command: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    duplex: u8,
    port: u8,
    phy_address: u8,
    transceiver: u8,
    autonegotiation: u8,
    mdio_support: u8,
    max_tx_packets: u32,
    max_rx_packets: u32,
    speed_high: u16,
    mdix: u8,
    reserved: u8,
    partner_advertising: u32,
    more_reserved: [u32; 2],
}

/// `struct ifreq`, as far as this request goes.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut Settings,
    rest: [u8; 16],
}

/// Megabits per second; `None` if the driver does not know or there is none (loopback).
pub(super) fn megabits(name: &str) -> Option<u32> {
    let mut settings = Settings {
        command: ETHTOOL_GSET,
        supported: 0,
        advertising: 0,
        speed: 0,
        duplex: 0,
        port: 0,
        phy_address: 0,
        transceiver: 0,
        autonegotiation: 0,
        mdio_support: 0,
        max_tx_packets: 0,
        max_rx_packets: 0,
        speed_high: 0,
        mdix: 0,
        reserved: 0,
        partner_advertising: 0,
        more_reserved: [0; 2],
    };
    let mut request = Request { name: [0; libc::IFNAMSIZ], data: &raw mut settings, rest: [0; 16] };
    request.name.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    // One byte must stay zero.
    if request.name[libc::IFNAMSIZ - 1] != 0 {
        return None;
    }

    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .ok()?;
    // SAFETY: the request is at least as large as `struct ifreq` and points to settings of the
    // size and layout that ETHTOOL_GSET fills; both outlive the call.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if result != 0 {
        return None;
    }
    let speed = u32::from(settings.speed_high) << 16 | u32::from(settings.speed);
    // All ones in either width is "unknown".
    (speed != 0 && speed != u32::from(u16::MAX) && speed != u32::MAX).then_some(speed)
}
