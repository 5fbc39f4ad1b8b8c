//! What is said without acknowledgements: gaps, late packets, and waiting for credit.

mod conversation;

use converb_engine::iba::Service;
use converb_engine::work::Operation::{Send, SendWithImmediate};
use conversation::{MTU, Side, Terms, pair};

fn unreliable() -> [Side; 2] {
    let [mut a, b] = pair(Terms { service: Service::UnreliableConnection, ..Terms::default() });
    a.posts(0, Send, 0);
    let first = a.says(&["CREDIT Question 0", "UC_SEND_ONLY 100 +0"]);
    a.completes(&["work 0: Success"]);
    drop(first);
    [a, b]
}

#[test]
fn a_message_with_a_gap_is_dropped_and_its_receive_kept() {
    let [mut a, mut b] = unreliable();
    b.posts_receive(7, 4 * MTU);
    a.posts(1, Send, 3 * MTU);
    a.posts(2, Send, 8);
    let sent = a.speaks();
    b.hears_all([&sent[0], &sent[2]]);
    b.completes(&[]);
    b.hears(&sent[3]);
    b.completes(&["receive 7: Success"]);
}

#[test]
fn what_comes_late_or_twice_is_not_delivered() {
    let [mut a, mut b] = unreliable();
    for receive in 7..12 {
        b.posts_receive(receive, 2 * MTU);
    }
    a.posts(1, Send, 8);
    a.posts(2, Send, 8);
    a.posts(3, Send, 2 * MTU);
    let sent = a.says(&[
        "UC_SEND_ONLY 101 +8",
        "UC_SEND_ONLY 102 +8",
        "UC_SEND_FIRST 103 +1024",
        "UC_SEND_LAST 104 +1024",
    ]);
    b.hears_all([&sent[1], &sent[0], &sent[1]]);
    b.completes(&["receive 7: Success"]);
    // Nor does it end the message that is coming in.
    b.hears_all([&sent[2], &sent[0], &sent[3], &sent[3]]);
    b.completes(&["receive 8: Success"]);
}

#[test]
fn the_first_packet_may_have_any_number() {
    let [mut a, mut b] = unreliable();
    b.posts_receive(7, 8);
    // Two hundred packets before the one that it was told to expect.
    let mut late = {
        a.posts(1, SendWithImmediate(5), 8);
        a.speaks().remove(0)
    };
    late[9..12].copy_from_slice(&[0xff, 0xff, 0x9c]);
    b.hears(&late);
    b.completes(&["receive 7: Success"]);
}

#[test]
fn a_wait_for_credit_that_is_over_is_not_waited_for_again() {
    let [mut a, _] = unreliable();
    for work in 1..30 {
        a.posts(work, Send, 2 * MTU);
    }
    a.speaks();
    let due = a.is_due_in().expect("it waits for an answer");
    a.waits(due);
    // While the network is full it is not asked to send.
    assert_eq!(a.is_due_in(), None);
    assert!(!a.speaks().is_empty());
}
