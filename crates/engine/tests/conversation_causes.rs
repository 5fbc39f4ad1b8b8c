//! What went wrong, with the numbers of the check that failed: a test a check.

mod conversation;

use converb_engine::Status;
use converb_engine::iba::{Cause, Service, Side as Half};
use converb_engine::memory::Access;
use converb_engine::work::Operation::{FetchAndAdd, Read, Send, Write, WriteWithImmediate};
use converb_wire::Opcode;
use conversation::{BASE, MTU, SIZE, Side, Terms, pair};

const ALL: Access = Access(0xf);

/// Sends what `a` has to send and brings back the answers.
fn exchange(a: &mut Side, b: &mut Side) {
    let sent = a.speaks();
    b.hears_all(&sent);
    let answers = b.speaks();
    a.hears_all(&answers);
}

#[test]
fn a_local_key_that_nobody_has() {
    let [mut a, b] = pair(Terms::default());
    a.posts_with_wrong_key(1, Write(b.remote(0)), 8);
    a.speaks();
    let cause = a.cause();
    assert!(matches!(cause, Cause::LocalKeyUnknown { address: BASE, length: 8, .. }), "{cause:?}");
}

#[test]
fn local_memory_of_another_domain_without_a_right_too_short_or_gone() {
    for (domain, access, place, length, expected) in [
        (2, ALL, BASE, SIZE as u64, 0x107),
        (1, Access(0), BASE, SIZE as u64, 0x108),
        (1, ALL, BASE, 4, 0x109),
        (1, ALL, 0x10, SIZE as u64, 0x102),
    ] {
        let [mut a, mut b] = pair(Terms::default());
        a.registers(domain, access, place, length);
        a.posts(1, Read(b.remote(0)), 8);
        exchange(&mut a, &mut b);
        let cause = a.cause();
        assert_eq!(cause.number(), expected, "{cause:?}");
        if let Cause::LocalOutOfBounds { address, length, start, end, .. } = cause {
            assert_eq!((address, length, start, end), (BASE, 8, BASE, BASE + 4));
        }
    }
}

#[test]
fn a_receive_shorter_than_the_message_names_both_lengths_and_the_peer_its_packet() {
    let [mut a, mut b] = pair(Terms::default());
    b.posts_receive(7, 100);
    a.posts(1, Send, 4096);
    exchange(&mut a, &mut b);
    let failures = b.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    let failure = failures[0];
    assert_eq!(failure.cause, Cause::ReceiveTooShort { room: 100, message: MTU.into() });
    assert_eq!((failure.wr_id, failure.status), (7, Status::LocalLengthError));
    assert_eq!(failure.psn.unwrap().value(), 100);
    assert_eq!(failure.opcode, Some(Opcode::RC_SEND_FIRST));
    assert_eq!(failure.peer, a.qpn());
    let cause = a.cause();
    assert_eq!(cause, Cause::PeerInvalidRequest { key: 0, address: 0, length: 4096 });
}

#[test]
fn both_sides_know_which_remote_check_refused_a_write() {
    let beyond = BASE + SIZE as u64 - 4;
    let [mut a, mut b] = pair(Terms::default());
    let remote = b.remote(SIZE as u64 - 4);
    let key = u64::from(remote.rkey.0);
    a.posts(1, Write(remote), 8);
    a.posts(2, Write(remote), 8);
    a.posts(3, Write(remote), 8);
    exchange(&mut a, &mut b);
    let told = b.failures();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(!told[0].has_completion && told[0].side == Half::Receive);
    let (start, end) = (BASE, BASE + SIZE as u64);
    let expected = Cause::RemoteOutOfBounds { key, address: beyond, length: 8, start, end };
    assert_eq!((told[0].cause, told[0].status), (expected, Status::RemoteAccessError));
    let failures = a.failures();
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert_eq!(failures[0].cause, Cause::PeerAccess { key, address: beyond, length: 8 });
    assert_eq!(failures[0].psn.unwrap().value(), 100);
    // What was behind it is one line, which names it.
    let status = Status::RemoteAccessError as u64;
    let flushed = Cause::Flushed { wr_id: 1, status, cause: 0x202, is_ours: 1 };
    assert_eq!((failures[1].cause, failures[1].count), (flushed, 2));
}

#[test]
fn every_remote_check_has_a_cause_of_its_own() {
    // Domain and access of the region; the check that fails, for a READ of eight bytes.
    for (domain, access, expected) in [(2, ALL, 0x402), (1, Access(1), 0x403)] {
        let [mut a, mut b] = pair(Terms::default());
        b.registers(domain, access, BASE, SIZE as u64);
        a.posts(1, Read(b.remote(0)), 8);
        exchange(&mut a, &mut b);
        assert_eq!(b.cause().number(), expected);
        assert_eq!(a.cause().number(), 0x202);
    }
    let [mut a, mut b] = pair(Terms::default());
    a.posts(1, Write(b.wrong_remote(0)), 8);
    exchange(&mut a, &mut b);
    assert_eq!(b.cause().number(), 0x401);

    // The memory is gone under a registered region.
    let [mut a, mut b] = pair(Terms::default());
    b.registers(1, ALL, BASE, 2 * SIZE as u64);
    a.posts(1, Write(b.remote(SIZE as u64)), 8);
    exchange(&mut a, &mut b);
    assert_eq!(b.cause().number(), 0x406);
    assert_eq!(a.cause().number(), 0x203);

    let [mut a, mut b] = pair(Terms::default());
    a.posts(1, FetchAndAdd { remote: b.remote(4), add: 1 }, 8);
    exchange(&mut a, &mut b);
    assert_eq!(b.cause(), Cause::AtomicMisaligned { address: BASE + 4 });
}

#[test]
fn a_vanished_peer_is_told_with_timeout_and_retries() {
    let [mut a, _] = pair(Terms { timeout: 14, retry_count: 2, ..Terms::default() });
    a.posts(1, Send, 8);
    a.posts(2, Send, 8);
    a.speaks();
    for _ in 0..200 {
        a.waits(10_000);
        a.speaks();
    }
    let failures = a.failures();
    let timeout_ns = 3 * (4096 << 14);
    assert_eq!(failures[0].cause, Cause::NoAnswer { retries: 2, timeout_ns, timeout: 14 });
    assert_eq!(failures[0].psn.unwrap().value(), 100);
    assert_eq!(failures[1].cause.number(), 0x301);
}

#[test]
fn a_peer_without_receives_is_told_with_the_retries() {
    let [mut a, mut b] = pair(Terms { rnr_retry: 0, ..Terms::default() });
    a.posts(1, Send, 8);
    exchange(&mut a, &mut b);
    assert!(matches!(a.cause(), Cause::NoReceive { retries: 0, .. }));
    assert!(b.failures().is_empty());
}

#[test]
fn work_without_a_read_depth_on_either_side() {
    let [mut a, mut b] = pair(Terms { max_reads: 0, ..Terms::default() });
    a.posts(1, Read(b.remote(0)), 8);
    exchange(&mut a, &mut b);
    assert_eq!(a.cause(), Cause::NoReadDepth {});
}

#[test]
fn a_write_with_immediate_whose_memory_vanishes_flushes_its_receive_and_says_why() {
    let [mut a, mut b] = pair(Terms::default());
    b.registers(1, ALL, BASE, 2 * SIZE as u64);
    a.posts(1, WriteWithImmediate(b.remote(SIZE as u64), 5), 8);
    b.posts_receive(7, 8);
    exchange(&mut a, &mut b);
    let failures = b.failures();
    assert_eq!(failures[0].cause.number(), 0x406);
    assert!(matches!(failures[1].cause, Cause::Flushed { cause: 0x406, is_ours: 0, .. }));
}

#[test]
fn what_a_program_flushes_itself_has_no_culprit() {
    let [mut a, _] = pair(Terms::default());
    a.posts(1, Send, 8);
    a.posts_receive(2, 8);
    a.posts_receive(3, 8);
    a.speaks();
    a.gives_up();
    let failures = a.failures();
    assert_eq!(failures.len(), 2, "one line a half: {failures:?}");
    assert!(failures.iter().all(|failure| failure.cause == Cause::FlushedByProgram {}));
    assert_eq!(failures[1].count, 2);
}

#[test]
fn a_flood_of_refused_datagrams_leaves_few_notes() {
    let terms = Terms { service: Service::UnreliableConnection, ..Terms::default() };
    let [mut a, mut b] = pair(terms);
    for _ in 0..10 {
        for work in 0..8 {
            a.posts(work, Write(b.wrong_remote(0)), 8);
        }
        for packet in a.speaks() {
            if !conversation::describe(&packet).starts_with("CREDIT") {
                b.hears(&packet);
            }
        }
    }
    let notes = b.failures();
    assert_eq!(notes.len(), 16, "{notes:?}");
    assert!(notes.iter().all(|note| note.cause.number() == 0x401 && !note.has_completion));
}
