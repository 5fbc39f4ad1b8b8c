//! What is said when packets are lost, doubled or late.

mod conversation;

use converb_engine::work::Operation::{Read, Send, Write};
use conversation::{Terms, describe, pair};

#[test]
fn a_lost_packet_is_reported_once_and_sent_again_alone() {
    let [mut a, mut b] = pair(Terms::default());
    a.posts(1, Write(b.remote(0)), 4096);
    let sent = a.says(&[
        "WRITE_FIRST 100 of 4096",
        "WRITE_MIDDLE 101 +1024",
        "WRITE_MIDDLE 102 +1024",
        "WRITE_LAST 103 +1024 A",
    ]);
    b.hears_all([&sent[0], &sent[2], &sent[3]]);
    let nak = b.says(&["NAK SequenceError 101"]);
    a.hears(&nak[0]);
    let again = a.says(&["WRITE_MIDDLE 101 +1024 A"]);
    b.hears(&again[0]);
    let ack = b.says(&["ACK 103"]);
    a.hears(&ack[0]);
    a.completes(&["work 1: Success"]);
    assert_eq!(b.bytes(0, 4096), a.bytes(0, 4096));
}

#[test]
fn two_lost_neighbours_are_reported_one_after_the_other() {
    let [mut a, mut b] = pair(Terms::default());
    a.posts(1, Write(b.remote(0)), 5 * 1024);
    let sent = a.speaks();
    b.hears_all([&sent[0], &sent[3], &sent[4]]);
    let nak = b.says(&["NAK SequenceError 101"]);
    a.hears(&nak[0]);
    let again = a.says(&["WRITE_MIDDLE 101 +1024 A"]);
    b.hears(&again[0]);
    // No ACK of 101 in front of it: that would look like a peer that goes back.
    let nak = b.says(&["NAK SequenceError 102"]);
    a.hears(&nak[0]);
    let again = a.says(&["WRITE_MIDDLE 102 +1024 A"]);
    b.hears(&again[0]);
    let ack = b.says(&["ACK 104"]);
    a.hears(&ack[0]);
    a.completes(&["work 1: Success"]);
}

#[test]
fn a_peer_that_dropped_what_came_early_gets_everything_again() {
    let [mut a, mut b] = pair(Terms::default());
    a.posts(1, Write(b.remote(0)), 4096);
    let sent = a.speaks();
    b.hears_all([&sent[0], &sent[2]]);
    let nak = b.says(&["NAK SequenceError 101"]);
    a.hears(&nak[0]);
    a.says(&["WRITE_MIDDLE 101 +1024 A"]);
    // The peer kept nothing: another one plays it, which has seen no packet but 100.
    let [_, mut b] = pair(Terms::default());
    b.hears_all([&sent[0], &sent[1]]);
    b.says(&[]);
    let mut ack = nak[0].clone();
    // Says: 101 has come, and no more.
    ack[12] = 0x1f;
    a.hears(&ack);
    let again = a.says(&["WRITE_MIDDLE 102 +1024", "WRITE_LAST 103 +1024 A"]);
    b.hears_all(&again);
    let ack = b.says(&["ACK 103"]);
    a.hears(&ack[0]);
    a.completes(&["work 1: Success"]);
    // From now on it is known to go back.
    a.posts(2, Write(b.remote(0)), 3072);
    let sent = a.speaks();
    b.hears(&sent[1]);
    let nak = b.says(&["NAK SequenceError 104"]);
    a.hears(&nak[0]);
    a.says(&["WRITE_FIRST 104 of 3072", "WRITE_MIDDLE 105 +1024", "WRITE_LAST 106 +1024 A"]);
}

#[test]
fn a_duplicate_is_acknowledged_and_not_executed() {
    let [mut a, mut b] = pair(Terms::default());
    a.posts(1, Write(b.remote(0)), 8);
    let first = a.says(&["WRITE_ONLY 100 of 8 A"]);
    a.posts(2, Write(b.remote(4)), 8);
    let second = a.says(&["WRITE_ONLY 101 of 8 A"]);
    b.hears_all([&first[0], &second[0]]);
    b.says(&["ACK 101"]);
    let after = b.bytes(0, 16);
    b.hears(&first[0]);
    b.says(&["ACK 101"]);
    assert_eq!(b.bytes(0, 16), after);
}

#[test]
fn a_duplicate_read_is_answered_again_and_does_not_count_against_the_depth() {
    let [mut a, mut b] = pair(Terms { max_reads: 1, ..Terms::default() });
    a.posts(1, Read(b.remote(0)), 8);
    a.posts(2, Read(b.remote(8)), 8);
    let first = a.says(&["READ_REQUEST 100 of 8 A"]);
    b.hears(&first[0]);
    let answer = b.says(&["READ_RESPONSE_ONLY 100 +8"]);
    a.hears(&answer[0]);
    a.completes(&["work 1: Success"]);
    let second = a.says(&["READ_REQUEST 101 of 8 A"]);
    // The first comes a second time, just before the second.
    b.hears_all([&first[0], &second[0]]);
    let answers = b.says(&["READ_RESPONSE_ONLY 100 +8", "READ_RESPONSE_ONLY 101 +8"]);
    a.hears_all(&answers);
    a.completes(&["work 2: Success"]);
    assert_eq!(a.bytes(0, 8), b.bytes(8, 8));
}

#[test]
fn a_gap_in_the_responses_is_asked_for_alone() {
    let [mut a, mut b] = pair(Terms::default());
    a.posts(1, Read(b.remote(0)), 4096);
    let request = a.says(&["READ_REQUEST 100 of 4096 A"]);
    b.hears(&request[0]);
    let answer = b.says(&[
        "READ_RESPONSE_FIRST 100 +1024",
        "READ_RESPONSE_MIDDLE 101 +1024",
        "READ_RESPONSE_MIDDLE 102 +1024",
        "READ_RESPONSE_LAST 103 +1024",
    ]);
    a.hears_all([&answer[0], &answer[3]]);
    let again = a.says(&["READ_REQUEST 101 of 2048 A"]);
    b.hears(&again[0]);
    let answer = b.says(&["READ_RESPONSE_FIRST 101 +1024", "READ_RESPONSE_LAST 102 +1024"]);
    a.hears_all(&answer);
    a.completes(&["work 1: Success"]);
    assert_eq!(a.bytes(0, 4096), b.bytes(0, 4096));
}

#[test]
fn a_read_that_fails_at_home_waits_for_those_before_it() {
    let [mut a, mut b] = pair(Terms::default());
    a.posts(1, Read(b.remote(0)), 8);
    a.posts_with_wrong_key(2, Read(b.remote(8)), 8);
    let requests = a.says(&["READ_REQUEST 100 of 8 A", "READ_REQUEST 101 of 8 A"]);
    b.hears_all(&requests);
    let answers = b.says(&["READ_RESPONSE_ONLY 100 +8", "READ_RESPONSE_ONLY 101 +8"]);
    a.hears(&answers[1]);
    a.completes(&[]);
    a.waits(1_000);
    let again = a.says(&["READ_REQUEST 100 of 8 A"]);
    b.hears(&again[0]);
    let answer = b.says(&["READ_RESPONSE_ONLY 100 +8"]);
    a.hears(&answer[0]);
    a.completes(&["work 1: Success", "work 2: LocalProtectionError"]);
    assert_eq!(a.bytes(0, 8), b.bytes(0, 8));
}

#[test]
fn a_lost_tail_is_probed_and_then_counted_retries_end_it() {
    let [mut a, mut b] = pair(Terms { retry_count: 1, ..Terms::default() });
    a.posts(1, Write(b.remote(0)), 8);
    a.posts(2, Write(b.remote(8)), 8);
    a.says(&["WRITE_ONLY 100 of 8", "WRITE_ONLY 101 of 8 A"]);
    a.waits(999);
    a.says(&[]);
    a.waits(1);
    a.says(&["WRITE_ONLY 101 of 8 A"]);
    a.waits(2_000);
    a.says(&["WRITE_ONLY 100 of 8 A"]);
    // Three times 16 ms, the shortest timeout there is.
    a.waits(45_000);
    a.says(&["WRITE_ONLY 100 of 8", "WRITE_ONLY 101 of 8 A"]);
    a.waits(48_000);
    a.completes(&["work 1: RetryExceeded", "work 2: WorkRequestFlushed"]);
    b.completes(&[]);
}

#[test]
fn a_lost_ack_is_had_for_a_probe() {
    let [mut a, mut b] = pair(Terms::default());
    b.posts_receive(7, 100);
    a.posts(1, Send, 100);
    let sent = a.says(&["SEND_ONLY 100 +100 A"]);
    b.hears(&sent[0]);
    b.says(&["ACK 100"]);
    b.completes(&["receive 7: Success"]);
    a.waits(1_000);
    let probe = a.says(&["SEND_ONLY 100 +100 A"]);
    b.hears(&probe[0]);
    let ack = b.says(&["ACK 100"]);
    a.hears(&ack[0]);
    a.completes(&["work 1: Success"]);
    b.completes(&[]);
}

#[test]
fn a_round_trip_over_a_probe_does_not_delay_the_next_one() {
    let [mut a, mut b] = pair(Terms { timeout: 0, ..Terms::default() });
    a.posts(1, Write(b.remote(0)), 8);
    a.says(&["WRITE_ONLY 100 of 8 A"]);
    for _ in 0..8 {
        a.waits(300_000);
    }
    let probe = a.says(&["WRITE_ONLY 100 of 8 A"]);
    b.hears(&probe[0]);
    let ack = b.says(&["ACK 100"]);
    a.hears(&ack[0]);
    a.completes(&["work 1: Success"]);
    a.posts(2, Write(b.remote(0)), 8);
    a.says(&["WRITE_ONLY 101 of 8 A"]);
    a.waits(1_000);
    a.says(&["WRITE_ONLY 101 of 8 A"]);
}

#[test]
fn who_leaves_a_lossy_network_says_the_last_ack_several_times() {
    let [mut a, mut b] = pair(Terms::default());
    a.posts(1, Write(b.remote(0)), 8);
    let first = a.speaks();
    b.hears(&first[0]);
    b.says(&["ACK 100"]);
    assert!(b.parts().is_empty(), "nothing was lost so far");
    // The ACK is lost, and the peer asks again.
    b.hears(&first[0]);
    b.says(&["ACK 100"]);
    let words = b.parts();
    assert_eq!(words.iter().map(|word| describe(word)).collect::<Vec<_>>(), ["ACK 100"; 4]);
    for word in &words[1..] {
        a.hears(word);
    }
    a.completes(&["work 1: Success"]);
    assert!(a.parts().is_empty(), "who executed nothing has nothing to acknowledge");
}
