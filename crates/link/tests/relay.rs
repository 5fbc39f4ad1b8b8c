//! Packets that the kernel gave to the wrong process reach the right one.

mod pair;

use converb_driver::{Interest, Port};
use converb_link::{Others, Peers, RingDescriptors, RingReceiver, RingSender};
use pair::*;
use std::sync::Arc;
use std::time::Duration;

/// Lets the receiver of the pair pass packets of its slot on to the sender, as if that were the
/// process they are for.
fn connect(pair: &Pair) -> Arc<Others> {
    let ring = RingReceiver::create().expect("memory");
    let descriptors = RingDescriptors {
        memory: ring.descriptors().memory.try_clone().expect("a descriptor"),
        bell: ring.descriptors().bell.try_clone().expect("a descriptor"),
    };
    let others = Arc::new(Others::default());
    others.insert(SLOT, Arc::new(RingSender::open(descriptors).expect("a ring")));
    let own = RingReceiver::create().expect("memory");
    let (here, there) =
        (Peers::new(own, Arc::clone(&others)), Peers::new(ring, Arc::new(Others::default())));
    pair.receiver.set_relay(Box::new(here.expect("a descriptor")));
    pair.sender.set_relay(Box::new(there.expect("a descriptor")));
    others
}

#[test]
fn a_packet_for_another_slot_is_passed_on_and_taken_over() {
    let pair = Pair::new();
    let others = connect(&pair);
    let sent: Vec<_> = (0..3).map(|number| packet(number, 100)).collect();
    send_all(&pair.sender, &path(LOOPBACK_6), &sent);
    let (mut here, mut there) = (pair.receiver.new_incoming(), pair.sender.new_incoming());
    assert!(!pair.sender.receive(&mut there));
    let wait = |timeout| {
        let interest = Interest { receivable: true, timeout: Some(timeout), ..Interest::default() };
        pair.sender.wait(interest).receivable
    };
    assert!(!wait(Duration::from_millis(5)));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| wait(Duration::from_secs(20)));
        std::thread::sleep(Duration::from_millis(10));
        assert!(pair.receiver.receive(&mut here));
        while let Some(received) = pair.receiver.next(&mut here) {
            assert!(pair.receiver.pass_on(SLOT, &received));
        }
        assert!(waiter.join().expect("no panic"), "the ring's bell ends the wait");
    });
    assert_eq!(receive_all(&pair.sender, &mut there, 3), sent);
    while wait(Duration::from_millis(5)) {
        assert!(!pair.sender.receive(&mut there), "nothing else is there");
    }
    assert_eq!(count(&pair.receiver, "passed_on_packets"), 3);
    assert_eq!(count(&pair.sender, "taken_over_packets"), 3);

    others.remove(SLOT);
    send_all(&pair.sender, &path(LOOPBACK_6), &sent);
    assert!(pair.receiver.receive(&mut here));
    let received = pair.receiver.next(&mut here).expect("a packet");
    assert!(!pair.receiver.pass_on(SLOT, &received), "nobody has that slot any more");
    assert_eq!(count(&pair.receiver, "passed_on_packets"), 3);
}

#[test]
fn a_slot_that_is_missed_is_told_once() {
    let others = Arc::new(Others::watched().expect("a descriptor"));
    let own = RingReceiver::create().expect("memory");
    let pair = Pair::new();
    let relay = Peers::new(own, Arc::clone(&others)).expect("a descriptor");
    pair.receiver.set_relay(Box::new(relay));
    let mut incoming = pair.receiver.new_incoming();
    let mut miss = || {
        let sent: Vec<_> = (0..2).map(|number| packet(number, 100)).collect();
        send_all(&pair.sender, &path(LOOPBACK_6), &sent);
        let mut count = 0;
        while count < sent.len() {
            assert!(pair.receiver.receive(&mut incoming), "loopback loses nothing");
            while let Some(received) = pair.receiver.next(&mut incoming) {
                assert!(!pair.receiver.pass_on(SLOT, &received));
                count += 1;
            }
        }
    };
    let is_ringing = || {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let bell = others.missed_bell().expect("it is watched");
        let mut entries = [PollFd::from_borrowed_fd(bell, PollFlags::IN)];
        poll(&mut entries, Some(&Timespec::default())).expect("open") == 1
    };
    assert!(!is_ringing());
    miss();
    assert!(is_ringing());
    assert_eq!(others.take_missed(), [SLOT]);
    miss();
    assert!(!is_ringing());
    assert_eq!(others.take_missed(), []);
    others.tell_again();
    assert_eq!(others.take_missed(), []);
    miss();
    assert!(is_ringing());
    assert_eq!(others.take_missed(), [SLOT]);
}
