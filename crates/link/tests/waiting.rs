//! Waits end when they should, and only then.

mod pair;

use converb_driver::{Interest, Port, Signal, Woken};
use converb_link::EventSignal;
use pair::*;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

fn interest(receivable: bool, sendable: bool, timeout: Option<Duration>) -> Interest {
    Interest { receivable, sendable, timeout }
}

#[test]
fn a_wait_lasts_as_long_as_it_should() {
    let pair = Pair::new();
    let start = Instant::now();
    let wait = interest(true, false, Some(Duration::from_millis(20)));
    assert_eq!(pair.receiver.wait(wait), Woken::default());
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert!(start.elapsed() < LONG);
}

#[test]
fn a_packet_ends_a_wait_for_packets() {
    let pair = Pair::new();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| pair.receiver.wait(interest(true, false, Some(LONG))));
        std::thread::sleep(Duration::from_millis(10));
        send_all(&pair.sender, &path(LOOPBACK_4), &[packet(1, 20)]);
        let woken = waiter.join().expect("no panic");
        assert_eq!(woken, Woken { receivable: true, ..Woken::default() });
    });
    // Who does not ask for packets is not woken by them.
    let short = interest(false, false, Some(Duration::from_millis(5)));
    assert_eq!(pair.receiver.wait(short), Woken::default());
}

#[test]
fn one_wake_ends_one_wait_the_current_or_the_next() {
    let pair = Pair::new();
    let by_request = Woken { by_request: true, ..Woken::default() };
    pair.receiver.wake();
    assert_eq!(pair.receiver.wait(interest(true, false, None)), by_request);
    let short = interest(true, false, Some(Duration::from_millis(5)));
    assert_eq!(pair.receiver.wait(short), Woken::default(), "it counts once");
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| pair.receiver.wait(interest(true, false, Some(LONG)))))
            .collect();
        std::thread::sleep(Duration::from_millis(10));
        for _ in 0..3 {
            pair.receiver.wake();
        }
        for waiter in waiters {
            assert_eq!(waiter.join().expect("no panic"), by_request);
        }
    });
}

#[test]
fn with_room_to_send_nobody_waits_for_it() {
    let pair = Pair::new();
    let woken = pair.sender.wait(interest(false, true, None));
    assert_eq!(woken, Woken { sendable: true, ..Woken::default() });
}

#[test]
fn a_raised_signal_ends_a_wait_with_it_and_stays_raised() {
    let pair = Pair::new();
    let signal = EventSignal::new().expect("a descriptor");
    let short = interest(true, false, Some(Duration::from_millis(5)));
    let start = Instant::now();
    pair.receiver.wait_with(&signal, short);
    assert!(start.elapsed() >= Duration::from_millis(5));
    signal.raise();
    for _ in 0..2 {
        let woken = pair.receiver.wait_with(&signal, interest(true, false, Some(LONG)));
        assert_eq!(woken, Woken { by_signal: true, ..Woken::default() });
    }
    assert!(start.elapsed() < LONG);
    assert_eq!(signal.take(), Ok(()));
}
