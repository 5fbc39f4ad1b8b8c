//! What an operation costs once a connection is under way, counted, not timed: allocations,
//! system calls, waits and copied bytes, through the driver and a real port. A program of its own,
//! for its allocator counts what every thread does.

mod steady;

use converb_driver::Port;
use converb_engine::iba::Service;
use converb_engine::work::{Operation, RemoteAddress};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use steady::{Ends, How};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator; only a number is kept besides.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are the system allocator's, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the system allocator's, too.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const WARM_UP: u64 = 300;
const COUNTED: u64 = 1000;

/// What one operation may cost; both ends together.
struct Bound {
    sends: u64,
    receives: u64,
    waits: u64,
    /// Bytes copied from and to the program's memory.
    copied: u64,
}

fn hold(name: &str, ends: &Ends, how: How, length: u32, operation: Operation, bound: &Bound) {
    for _ in 0..WARM_UP {
        ends.run(how, length, operation);
    }
    let before = (counts(ends), ALLOCATIONS.load(Ordering::Relaxed));
    for _ in 0..COUNTED {
        ends.run(how, length, operation);
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before.1;
    let now = counts(ends);
    let cost: Vec<u64> = now.iter().zip(before.0).map(|(now, before)| now - before).collect();
    println!("{name:24} of {COUNTED}: sends, receives, waits, copied bytes {cost:?}");
    assert_eq!(allocations, 0, "{name}: something is allocated per operation");
    let bounds = [bound.sends, bound.receives, bound.waits, bound.copied];
    for (what, (cost, bound)) in
        ["send calls", "receive calls", "waits", "copied bytes"].iter().zip(cost.iter().zip(bounds))
    {
        // A tail probe under a busy machine may add one here and there.
        let allowed = bound * COUNTED + bound * COUNTED / 50;
        assert!(*cost <= allowed, "{name}: {cost} {what} for {COUNTED} operations");
    }
}

fn counts(ends: &Ends) -> [u64; 4] {
    let mut sum = [0; 4];
    for end in [&ends.client, &ends.server] {
        let port = end.driver.port();
        let counters = port.inner.counters();
        sum[0] += counters.send_calls.value();
        sum[1] += counters.receive_calls.value();
        sum[2] += counters.wait_calls.value();
        sum[3] += port.memory().copied();
    }
    sum
}

#[test]
fn an_operation_costs_no_more_than_it_did() {
    let rc = Ends::new(24_001, Service::ReliableConnection);
    let remote = RemoteAddress { address: rc.server.address(), rkey: rc.server.region.key };
    let write = Operation::Write(remote);
    let read = Operation::Read(remote);
    let add = Operation::FetchAndAdd { remote, add: 1 };
    // The request and its answer.
    let small = |copied| Bound { sends: 2, receives: 2, waits: 0, copied };
    hold("SEND 8 B", &rc, How::Poll, 8, Operation::Send, &small(16));
    hold("WRITE 8 B", &rc, How::Poll, 8, write, &small(16));
    hold("READ 8 B", &rc, How::Poll, 8, read, &small(16));
    hold("fetch and add", &rc, How::Poll, 8, add, &small(8));
    // The waiter also finds that nothing more has come, and then waits for the event it raised.
    let event = Bound { sends: 2, receives: 3, waits: 1, copied: 16 };
    hold("SEND 8 B by event", &rc, How::Event, 8, Operation::Send, &event);
    // 16 packets of 4 KiB leave in one call, each byte is copied once at each end.
    let large = |sends| Bound { sends, receives: 8, waits: 0, copied: 2 << 16 };
    hold("WRITE 64 KiB", &rc, How::Poll, 1 << 16, write, &large(2));
    hold("READ 64 KiB", &rc, How::Poll, 1 << 16, read, &large(2));
    let uc = Ends::new(24_003, Service::UnreliableConnection);
    // Now and then a credit is asked for and given.
    let small = |copied| Bound { sends: 1, receives: 1, waits: 0, copied };
    hold("UC SEND 8 B", &uc, How::Poll, 8, Operation::Send, &small(16));
    let ud = Ends::new(24_005, Service::UnreliableDatagram);
    hold("UD SEND 8 B", &ud, How::Poll, 8, Operation::Send, &small(16 + 40));
    replies_take_acks_along();
}

/// Who replies at once has its ACKs leave with its replies: a call for each message, not two.
fn replies_take_acks_along() {
    let ends = Ends::new(24_007, Service::ReliableConnection);
    ends.with_progress(|| {
        let are_pausing = || [&ends.client, &ends.server].map(|end| end.driver.port().is_pausing());
        let deadline = Instant::now() + Duration::from_secs(30);
        while are_pausing() != [true; 2] {
            assert!(Instant::now() < deadline, "the progress threads see somebody poll");
            ends.ping_pong(8);
        }
        for length in [8, 4096] {
            for _ in 0..WARM_UP {
                ends.ping_pong(length);
            }
            let before = (counts(&ends), ALLOCATIONS.load(Ordering::Relaxed));
            for _ in 0..COUNTED {
                ends.ping_pong(length);
            }
            let sends = counts(&ends)[0] - before.0[0];
            let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before.1;
            println!("ping-pong of {length:4} B: {sends} send calls, {} messages", 2 * COUNTED);
            // A tail probe under a busy machine may add one here and there.
            assert!(sends <= 2 * COUNTED + COUNTED / 25, "{sends} send calls");
            assert_eq!(allocations, 0);
        }
    });
}
