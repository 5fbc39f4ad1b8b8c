//! A program that closes our descriptors, or a fork child that must: nothing spins, nothing
//! reaches a stranger's file. A program of its own, for it closes numbers behind their owners.

mod pair;

use converb_driver::{Interest, Port, Sent};
use converb_link::{Settings, Slot, UdpPort};
use pair::*;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

#[test]
fn calls_on_closed_descriptors_fail_quietly_and_are_made_good() {
    let pair = Pair::new();
    let (socket, udp_port) = slot_socket(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    // What the agent has of it. Its number is low.
    let vault = socket.try_clone().expect("a descriptor");
    let settings = Settings::default();
    let receiver =
        UdpPort::new(vec![Slot { index: SLOT, socket }], settings.clone()).expect("a port");
    receiver.set_slot_source(Box::new(move || Some(vec![(SLOT, vault.try_clone().ok()?)])));
    let (socket, _) = slot_socket(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    let settings = Settings { destination_port: udp_port, ..settings };
    let sender = UdpPort::new(vec![Slot { index: 6, socket }], settings).expect("a port");
    send_all(&sender, &path(LOOPBACK_4), &[packet(1, 20)]);
    close_all_from(500);
    // The sender opens its socket again in the middle of the call, so that nothing is lost.
    send_all(&sender, &path(LOOPBACK_4), &[packet(2, 20)]);
    assert!(sender.has_lost_descriptors());
    let mut incoming = receiver.new_incoming();
    assert!(!receiver.receive(&mut incoming));
    assert!(receiver.has_lost_descriptors());
    receiver.mend();
    assert!(!receiver.has_lost_descriptors());
    let wanted = [packet(1, 20), packet(2, 20)];
    assert_eq!(receive_all(&receiver, &mut incoming, 2), wanted, "what waited is there still");
    // Nobody can give the sender its slot back.
    sender.mend();
    assert!(sender.has_lost_descriptors());

    // Never dropped: their descriptors are not theirs any more.
    let sender: &'static UdpPort = Box::leak(Box::new(pair.sender));
    let receiver: &'static UdpPort = Box::leak(Box::new(pair.receiver));
    sender.abandon_in_child();
    receiver.abandon_in_child();
    // The numbers that come next are the lowest, so they are not those just closed.
    let file = std::fs::File::open("/dev/null").expect("readable");
    assert!(file.as_raw_fd() < 500, "{}", file.as_raw_fd());

    let mut batch = sender.new_outgoing();
    assert!(append(&mut batch, &path(LOOPBACK_4), QPN, &packet(2, 20)));
    assert_eq!(sender.send(&mut batch), Sent::All);
    assert!(!receiver.receive(&mut receiver.new_incoming()));
    assert!(receiver.has_lost_descriptors());

    let start = Instant::now();
    for _ in 0..3 {
        let interest = Interest { receivable: true, timeout: None, ..Interest::default() };
        assert!(receiver.wait(interest).receivable, "the caller looks for itself");
    }
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(25), "nobody spins: {took:?}");
    receiver.wake();
}

/// What programs do, in their ignorance.
fn close_all_from(first: u32) {
    // SAFETY: the descriptors are those of the ports under test, whose part it is to bear it.
    assert_eq!(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }, 0);
}
