//! Faults on purpose happen to packets in both directions, are counted, and are the same again
//! with the same seed.

mod pair;

use converb_driver::{Interest, Port};
use converb_link::{Faults, Settings, UdpPort};
use pair::*;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

fn faulty(text: &str) -> Pair {
    let faults: Faults = text.parse().expect("faults");
    let settings = Settings { faults, ..Settings::default() };
    Pair::with(IpAddr::V6(Ipv6Addr::UNSPECIFIED), settings)
}

/// Sends packets a few at a time, and returns the numbers of those that came, in their order.
fn exchange(pair: &Pair, count: u32) -> Vec<u32> {
    let mut incoming = pair.receiver.new_incoming();
    let mut came = Vec::new();
    for first in (0..count).step_by(8) {
        let packets: Vec<_> = (first..first + 8).map(|number| packet(number, 64)).collect();
        send_all(&pair.sender, &path(LOOPBACK_4), &packets);
        take(&pair.receiver, &mut incoming, &mut came);
    }
    let end = Instant::now() + Duration::from_millis(200);
    while Instant::now() < end {
        // What is delayed leaves, and comes in, while somebody waits.
        let timeout = Some(Duration::from_millis(5));
        pair.sender.wait(Interest { timeout, ..Interest::default() });
        take(&pair.receiver, &mut incoming, &mut came);
    }
    came
}

fn take(port: &UdpPort, incoming: &mut converb_link::Incoming, came: &mut Vec<u32>) {
    while port.receive(incoming) {
        while let Some(received) = port.next(incoming) {
            let psn = &received.bytes[9..12];
            came.push(u32::from_be_bytes([0, psn[0], psn[1], psn[2]]));
        }
    }
}

/// Both ways of the same fault: on the sender's side, and on the receiver's.
fn each_way(terms: &str, check: impl Fn(&Pair, &UdpPort, Vec<u32>)) {
    for (direction, is_sending) in [("tx", true), ("rx", false)] {
        let text: Vec<_> = terms.split(',').map(|term| format!("{direction}:{term}")).collect();
        let pair = faulty(&format!("{},seed=3", text.join(",")));
        let came = exchange(&pair, 2000);
        check(&pair, if is_sending { &pair.sender } else { &pair.receiver }, came);
    }
}

#[test]
fn packets_are_lost() {
    each_way("drop=10%", |_, port, came| {
        let lost = count(port, "fault_dropped");
        assert!((100..300).contains(&lost), "{lost}");
        assert_eq!(came.len() as u64 + lost, 2000);
        assert!(came.is_sorted());
    });
}

#[test]
fn packets_come_twice() {
    each_way("dup=10%", |_, port, came| {
        let doubled = count(port, "fault_duplicated");
        assert!((100..300).contains(&doubled), "{doubled}");
        assert_eq!(came.len() as u64, 2000 + doubled);
        assert!(came.is_sorted());
    });
}

#[test]
fn damaged_packets_are_found_by_the_receiver() {
    each_way("corrupt=10%", |pair, port, came| {
        let damaged = count(port, "fault_corrupted");
        assert!((100..300).contains(&damaged), "{damaged}");
        let found = count(&pair.receiver, "dropped_bad_icrc")
            + count(&pair.receiver, "dropped_identification");
        assert_eq!(found, damaged);
        assert_eq!(came.len() as u64, 2000 - damaged);
    });
}

#[test]
fn packets_are_overtaken_by_a_few() {
    each_way("reorder=10%", |_, port, mut came| {
        let reordered = count(port, "fault_reordered");
        assert!((100..300).contains(&reordered), "{reordered}");
        assert!(!came.is_sorted());
        let farthest =
            came.iter().enumerate().map(|(place, &number)| place.abs_diff(number as usize));
        assert!(farthest.max().expect("packets came") < 20);
        came.sort_unstable();
        assert_eq!(came, (0..2000).collect::<Vec<_>>());
    });
}

#[test]
fn packets_are_late_and_in_order() {
    each_way("delay=20ms", |pair, port, came| {
        assert_eq!(count(port, "fault_delayed"), 2000);
        assert_eq!(came, (0..2000).collect::<Vec<_>>());
        let mut incoming = pair.receiver.new_incoming();
        let begin = Instant::now();
        send_all(&pair.sender, &path(LOOPBACK_4), &[packet(1, 64)]);
        let mut came = Vec::new();
        while came.is_empty() && begin.elapsed() < Duration::from_secs(10) {
            let timeout = Some(Duration::from_millis(100));
            let end = Instant::now();
            let woken =
                pair.receiver.wait(Interest { receivable: true, timeout, ..Interest::default() });
            pair.sender.wait(Interest { timeout: Some(Duration::ZERO), ..Interest::default() });
            take(&pair.receiver, &mut incoming, &mut came);
            // Who waits is woken for what is delayed.
            assert!(woken.receivable || end.elapsed() >= Duration::from_millis(100));
        }
        assert!(begin.elapsed() >= Duration::from_millis(20));
        assert_eq!(came, [1]);
    });
}

#[test]
fn the_same_seed_does_the_same_again() {
    let text = "drop=5%,dup=5%,corrupt=5%";
    let run = |seed| exchange(&faulty(&format!("{text},seed={seed}")), 1000);
    let first = run(1);
    assert_eq!(run(1), first);
    assert_ne!(run(2), first);
}

#[test]
fn a_sender_that_sleeps_wakes_for_what_it_delayed() {
    let pair = faulty("tx:delay=5ms");
    let mut incoming = pair.receiver.new_incoming();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let long = Some(Duration::from_secs(20));
            // Woken when there is something to wait for, and then it leaves.
            for _ in 0..2 {
                let timeout = long;
                pair.sender.wait(Interest { receivable: true, timeout, ..Interest::default() });
            }
        });
        std::thread::sleep(Duration::from_millis(20));
        send_all(&pair.sender, &path(LOOPBACK_4), &[packet(1, 64)]);
        let begin = Instant::now();
        let mut came = Vec::new();
        while came.is_empty() && begin.elapsed() < Duration::from_secs(10) {
            take(&pair.receiver, &mut incoming, &mut came);
        }
        assert_eq!(came, [1]);
        pair.sender.wake();
        sleeper.join().expect("it ends");
    });
}

#[test]
fn what_is_delayed_at_the_end_leaves_at_once() {
    let pair = faulty("tx:delay=50s");
    send_all(&pair.sender, &path(LOOPBACK_4), &[packet(1, 64), packet(2, 64)]);
    let mut incoming = pair.receiver.new_incoming();
    assert_eq!(receive_all(&pair.receiver, &mut incoming, 1).len(), 0);
    pair.sender.send_delayed();
    assert_eq!(receive_all(&pair.receiver, &mut incoming, 2).len(), 2);
}
