//! What the receive buffer had no room for is counted once, by who had the socket then.

mod pair;

use converb_driver::Port;
use converb_link::{Settings, Slot, UdpPort};
use pair::*;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsFd;

#[test]
fn what_an_earlier_owner_lost_is_not_counted_again() {
    let (socket, udp_port) = slot_socket(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    let forger = Forger::new(LOOPBACK_4, udp_port);
    let take = |socket: &std::os::fd::OwnedFd| {
        let settings = Settings { receive_buffer_bytes_max: Some(8192), ..Settings::default() };
        let socket = socket.as_fd().try_clone_to_owned().expect("a descriptor");
        UdpPort::new(vec![Slot { index: SLOT, socket }], settings).expect("a port")
    };
    let flood_and_empty = |port: &UdpPort| {
        for number in 0..200 {
            forger.send(&forger.seal(&packet(number, 1000), 0));
        }
        let mut incoming = port.new_incoming();
        receive_all(port, &mut incoming, usize::MAX);
        // The count comes with the next one that has room.
        forger.send(&forger.seal(&packet(201, 100), 0));
        assert_eq!(receive_all(port, &mut incoming, 1).len(), 1);
    };
    let first = take(&socket);
    flood_and_empty(&first);
    let lost = count(&first, "dropped_overflow");
    assert!((50..200).contains(&lost), "{lost}");
    let second = take(&socket);
    forger.send(&forger.seal(&packet(202, 100), 0));
    assert_eq!(receive_all(&second, &mut second.new_incoming(), 1).len(), 1);
    assert_eq!(count(&second, "dropped_overflow"), 0);
    flood_and_empty(&second);
    assert!((50..200).contains(&count(&second, "dropped_overflow")));
}
