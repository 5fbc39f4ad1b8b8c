//! Nothing is allocated for a packet or a batch once a conversation is under way. A program of its
//! own, for its allocator counts what every thread does.

mod pair;

use converb_driver::{Port, Sent};
use pair::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

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

#[test]
fn nothing_is_allocated_for_packets_and_batches() {
    for ip in [LOOPBACK_4, LOOPBACK_6] {
        let pair = Pair::new();
        let (mut outgoing, mut incoming) =
            (pair.sender.new_outgoing(), pair.receiver.new_incoming());
        let path = path(ip);
        let packets: Vec<_> = (0..40).map(|number| packet(number, 200)).collect();
        let last = packet(40, 20);
        let mut converse = || {
            for bytes in packets.iter().chain([&last]) {
                assert!(append(&mut outgoing, &path, QPN, bytes));
            }
            assert_eq!(pair.sender.send(&mut outgoing), Sent::All);
            let mut count = 0;
            while count < packets.len() + 1 {
                pair.receiver.receive(&mut incoming);
                while pair.receiver.next(&mut incoming).is_some() {
                    count += 1;
                }
            }
        };
        // The first round opens sockets and remembers the destination and the source.
        converse();
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for _ in 0..100 {
            converse();
        }
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before, "over {ip}");
    }
}
