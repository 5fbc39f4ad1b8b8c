//! A program that closes our descriptors, or a fork child that must: nothing spins, nothing
//! reaches a stranger's file. A program of its own, for it closes numbers behind their owners.

mod pair;

use converb_driver::{Interest, Port, Sent};
use converb_link::UdpPort;
use pair::*;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

#[test]
fn calls_on_closed_descriptors_fail_quietly_and_are_told() {
    let pair = Pair::new();
    send_all(&pair.sender, &path(LOOPBACK_4), &[packet(1, 20)]);
    // Never dropped: their descriptors are not theirs any more.
    let sender: &'static UdpPort = Box::leak(Box::new(pair.sender));
    let receiver: &'static UdpPort = Box::leak(Box::new(pair.receiver));
    assert!(!sender.has_lost_descriptors());
    sender.abandon_in_child();
    receiver.abandon_in_child();
    // The numbers that come next are the lowest, so they are not those just closed.
    let file = std::fs::File::open("/dev/null").expect("readable");
    assert!(file.as_raw_fd() < 500, "{}", file.as_raw_fd());

    let mut batch = sender.new_outgoing();
    assert!(append(&mut batch, &path(LOOPBACK_4), QPN, &packet(2, 20)));
    assert_eq!(sender.send(&mut batch), Sent::All);
    assert!(sender.has_lost_descriptors());
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
