//! What is said when everything arrives: acknowledgements, credits, fences, refusals.

mod conversation;

use converb_engine::iba::{Mtu, State};
use converb_engine::work::Operation::{Read, Send, Write, WriteWithImmediate};
use conversation::{MTU, Terms, pair};

#[test]
fn one_ack_answers_all_that_came_together() {
    let [mut a, mut b] = pair(Terms::default());
    for work in 1..=5 {
        a.posts(work, Write(b.remote(0)), 8);
    }
    let sent = a.says(&[
        "WRITE_ONLY 100 of 8",
        "WRITE_ONLY 101 of 8",
        "WRITE_ONLY 102 of 8",
        "WRITE_ONLY 103 of 8",
        "WRITE_ONLY 104 of 8 A",
    ]);
    b.hears_all(&sent);
    let ack = b.says(&["ACK 104"]);
    a.hears(&ack[0]);
    a.completes(&[
        "work 1: Success",
        "work 2: Success",
        "work 3: Success",
        "work 4: Success",
        "work 5: Success",
    ]);
}

#[test]
fn messages_are_cut_at_the_path_mtu() {
    for (mtu, bytes) in [(Mtu::Bytes256, 256), (Mtu::Bytes1024, 1024), (Mtu::Bytes4096, 4096)] {
        let [mut a, mut b] = pair(Terms { mtu, ..Terms::default() });
        for (length, packets) in [
            (0, 1),
            (1, 1),
            (bytes - 1, 1),
            (bytes, 1),
            (bytes + 1, 2),
            (2 * bytes, 2),
            (2 * bytes + 1, 3),
        ] {
            a.posts(1, Write(b.remote(0)), length);
            let sent = a.speaks();
            assert_eq!(sent.len(), packets, "{length} bytes at {mtu:?}");
            b.hears_all(&sent);
            let acks = b.speaks();
            a.hears_all(&acks);
            a.completes(&["work 1: Success"]);
            assert_eq!(b.bytes(0, length as usize), a.bytes(0, length as usize));
        }
    }
}

#[test]
fn a_fence_waits_for_the_data_of_earlier_reads() {
    let [mut a, mut b] = pair(Terms::default());
    a.posts(1, Read(b.remote(0)), 8);
    a.posts(2, Write(b.remote(8)), 8);
    a.posts_fenced(3, Write(b.remote(0)), 8);
    let sent = a.says(&["READ_REQUEST 100 of 8 A", "WRITE_ONLY 101 of 8 A"]);
    b.hears_all(&sent);
    let answers = b.says(&["READ_RESPONSE_ONLY 100 +8", "ACK 101"]);
    a.hears(&answers[0]);
    a.completes(&["work 1: Success"]);
    a.says(&["WRITE_ONLY 102 of 8 A"]);
}

#[test]
fn no_more_reads_are_in_flight_than_agreed() {
    let [mut a, mut b] = pair(Terms { max_reads: 2, ..Terms::default() });
    for work in 1..=3 {
        a.posts(work, Read(b.remote(0)), 8);
    }
    let sent = a.says(&["READ_REQUEST 100 of 8 A", "READ_REQUEST 101 of 8 A"]);
    b.hears_all(&sent);
    let answers = b.says(&["READ_RESPONSE_ONLY 100 +8", "READ_RESPONSE_ONLY 101 +8"]);
    a.hears(&answers[0]);
    a.says(&["READ_REQUEST 102 of 8 A"]);
}

#[test]
fn a_peer_that_is_not_ready_is_tried_again_after_its_delay() {
    let [mut a, mut b] = pair(Terms::default());
    a.posts(1, Send, 8);
    a.posts(2, Write(b.remote(0)), 8);
    let sent = a.says(&["SEND_ONLY 100 +8", "WRITE_ONLY 101 of 8 A"]);
    b.hears_all(&sent);
    let nak = b.says(&["RNR NAK 100"]);
    a.hears(&nak[0]);
    b.posts_receive(7, 8);
    // Code 12 is 640 us.
    a.waits(639);
    a.says(&[]);
    a.waits(1);
    let again = a.says(&["SEND_ONLY 100 +8", "WRITE_ONLY 101 of 8 A"]);
    b.hears(&again[0]);
    let ack = b.says(&["ACK 101"]);
    a.hears(&ack[0]);
    b.completes(&["receive 7: Success"]);
    a.completes(&["work 1: Success", "work 2: Success"]);
}

#[test]
fn rnr_retries_are_counted() {
    let [mut a, mut b] = pair(Terms { rnr_retry: 2, ..Terms::default() });
    a.posts(1, WriteWithImmediate(b.remote(0), 5), 8);
    for _ in 0..3 {
        let sent = a.says(&["WRITE_ONLY_IMMEDIATE 100 of 8 A"]);
        b.hears(&sent[0]);
        let nak = b.says(&["RNR NAK 100"]);
        a.completes(&[]);
        a.hears(&nak[0]);
        a.waits(640);
    }
    a.completes(&["work 1: RnrRetryExceeded"]);
    assert_eq!(a.state(), State::Error);
}

#[test]
fn beyond_the_credits_one_message_is_tried_at_a_time() {
    let [mut a, mut b] = pair(Terms::default());
    b.posts_receive(7, 8);
    a.posts(1, Send, 8);
    let sent = a.says(&["SEND_ONLY 100 +8 A"]);
    b.hears(&sent[0]);
    // This ACK says that there is no receive left.
    let ack = b.says(&["ACK 100"]);
    a.hears(&ack[0]);
    a.posts(2, Send, 8);
    a.posts(3, Send, 8);
    a.says(&["SEND_ONLY 101 +8 A"]);
    // A WRITE needs none.
    a.posts(4, Write(b.remote(0)), 8);
    a.says(&[]);
}

#[test]
fn a_wrong_key_ends_both_sides() {
    let [mut a, mut b] = pair(Terms::default());
    b.posts_receive(7, 8);
    let before = b.bytes(0, 16);
    a.posts(1, Write(b.remote(0)), 0);
    a.posts(2, Write(b.wrong_remote(0)), 8);
    a.posts(3, Write(b.remote(8)), 8);
    let sent = a.says(&["WRITE_ONLY 100 of 0", "WRITE_ONLY 101 of 8", "WRITE_ONLY 102 of 8 A"]);
    b.hears_all(&sent);
    let nak = b.says(&["NAK RemoteAccessError 101"]);
    b.completes(&["receive 7: WorkRequestFlushed"]);
    assert_eq!(b.state(), State::Error);
    a.hears(&nak[0]);
    a.completes(&["work 1: Success", "work 2: RemoteAccessError", "work 3: WorkRequestFlushed"]);
    assert_eq!(a.state(), State::Error);
    assert_eq!(b.bytes(0, 16), before);
}

#[test]
fn a_message_longer_than_its_receive_ends_both_sides() {
    let [mut a, mut b] = pair(Terms::default());
    b.posts_receive(7, MTU + 1);
    a.posts(1, Send, MTU + 2);
    let sent = a.says(&["SEND_FIRST 100 +1024", "SEND_LAST 101 +2 A"]);
    b.hears_all(&sent);
    let nak = b.says(&["NAK InvalidRequest 101"]);
    b.completes(&["receive 7: LocalLengthError"]);
    a.hears(&nak[0]);
    a.completes(&["work 1: RemoteInvalidRequest"]);
}

#[test]
fn a_read_without_depth_fails_when_it_is_its_turn() {
    let [mut a, mut b] = pair(Terms { max_reads: 0, ..Terms::default() });
    a.posts(1, Write(b.remote(0)), 8);
    a.posts(2, Read(b.remote(0)), 8);
    a.posts(3, Write(b.remote(0)), 8);
    let sent = a.says(&["WRITE_ONLY 100 of 8"]);
    a.completes(&[]);
    b.hears(&sent[0]);
    b.says(&[]);
    // The next request was about to ask for the answer.
    a.waits(10_000);
    let probe = a.says(&["WRITE_ONLY 100 of 8 A"]);
    b.hears(&probe[0]);
    let ack = b.says(&["ACK 100"]);
    a.hears(&ack[0]);
    a.completes(&[
        "work 1: Success",
        "work 2: LocalQpOperationError",
        "work 3: WorkRequestFlushed",
    ]);
    assert_eq!(a.state(), State::Error);
}

#[test]
fn data_for_a_request_that_returns_none_is_a_bad_response() {
    let [mut a, mut b] = pair(Terms::default());
    a.posts(1, Read(b.remote(0)), 8);
    b.hears(&a.speaks()[0]);
    // It answers packet 100.
    let response = b.says(&["READ_RESPONSE_ONLY 100 +8"]);

    let [mut a, b] = pair(Terms::default());
    a.posts(1, Write(b.remote(0)), 8);
    a.posts(2, Write(b.remote(0)), 8);
    a.speaks();
    a.hears(&response[0]);
    a.completes(&["work 1: BadResponse", "work 2: WorkRequestFlushed"]);

    // Before what is expected it is an old one.
    let [mut a, mut b] = pair(Terms::default());
    a.posts(1, Write(b.remote(0)), 8);
    let sent = a.speaks();
    b.hears(&sent[0]);
    let ack = b.says(&["ACK 100"]);
    a.hears(&ack[0]);
    a.posts(2, Write(b.remote(0)), 8);
    a.speaks();
    a.hears(&response[0]);
    a.completes(&["work 1: Success"]);
}
