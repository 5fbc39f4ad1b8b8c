use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::File;

use rustix::fs::{MemfdFlags, memfd_create};

use super::*;

fn memory() -> Vec<AtomicU64> {
    (0..Ring::SIZE / 8).map(|_| AtomicU64::new(0)).collect()
}

fn records(memory: &[AtomicU64]) -> Vec<Record> {
    let bytes: Vec<u8> =
        memory.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
    ring_records(&bytes)
}

fn failure(when: u64, marks: u64) -> FailureWords {
    let mut words = [when; FAILURE_WORDS];
    words[1] = 1 | marks;
    words
}

fn kept(records: Vec<Record>) -> Vec<Kept> {
    let program = Name::new("program");
    records.into_iter().map(|record| Kept { pid: 7, program, record }).collect()
}

#[test]
fn a_ring_keeps_the_newest_and_floods_of_flushes_push_out_no_cause() {
    let (ring, memory) = (Ring::new(1), memory());
    ring.write(&memory, 0, &failure(1, 0));
    for when in 2..100_000 {
        ring.write(&memory, 0, &failure(when, FOLLOWS));
    }
    let all = newest(kept(records(&memory)));
    assert_eq!(all.len(), 1 + FOLLOWING_MAX);
    assert_eq!(all[0].record.when(), 99_999);
    assert_eq!(all.last().expect("some").record.when(), 1);
    for when in 100_000..100_100 {
        ring.write(&memory, 0, &failure(when, 0));
    }
    let all = newest(kept(records(&memory)));
    assert_eq!(all.len(), FAILURES_MAX);
    assert_eq!(all[0].record.when(), 100_099);
    assert!(all.iter().all(|kept| kept.record.when() != 1));
}

#[test]
fn failures_of_one_key_are_counted_together() {
    let (ring, memory) = (Ring::new(1), memory());
    for when in 1..=1_000_000 {
        ring.write(&memory, 5, &failure(when, FOLLOWS));
    }
    ring.write(&memory, 6, &failure(3, FOLLOWS));
    let all = newest(kept(records(&memory)));
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].record.words[1], FOLLOWS | 1_000_000);
    assert_eq!(all[0].record.words[19], 1_000_000, "it tells the newest");
}

#[test]
fn a_torn_record_is_none_whatever_word_is_missing() {
    let (ring, memory) = (Ring::new(1), memory());
    ring.write(&memory, 0, &failure(1, 0));
    let old = ring_words(&memory);
    for place in 1..49 {
        ring.write(&memory, 0, &failure(place + 1, 0));
    }
    let new = ring_words(&memory);
    assert_ne!(old, new);
    for written in 1..Record::WORDS {
        // Its writer died after so many words.
        for word in 0..Record::WORDS {
            let value = if word < written { new[word] } else { old[word] };
            memory[word].store(value, Ordering::Relaxed);
        }
        assert_eq!(records(&memory).len(), FIRST_MAX - 1, "after {written} words");
    }
}

#[test]
fn threads_that_write_at_once_leave_whole_records() {
    let (ring, memory) = (Ring::new(1), memory());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (ring, memory) = (&ring, &memory);
            scope.spawn(move || {
                for number in 0..1000 {
                    ring.write(memory, 0, &failure(thread << 32 | number, 0));
                }
            });
        }
    });
    let all = records(&memory);
    assert_eq!(all.len(), FIRST_MAX);
    assert!(all.iter().all(|record| record.words[2..] == [record.when(); FAILURE_WORDS - 2]));
}

#[test]
fn a_history_is_inherited_and_knows_each_failure_once() {
    let memory = File::from(memfd_create("test", MemfdFlags::CLOEXEC).expect("memory"));
    let copy = |memory: &File| memory.try_clone().expect("a descriptor");
    let mut history = History::open(copy(&memory), 4096);
    assert!(history.with([]).is_empty());
    let (ring, words) = (Ring::new(1), self::memory());
    ring.write(&words, 0, &failure(10, 0));
    let member = kept(records(&words));
    history.add(member.clone()).expect("room");
    // It came back although it had been given up.
    assert_eq!(history.with(member.clone()), member);
    let history = History::open(copy(&memory), 4096);
    assert_eq!(history.with([]), member);
    for number in 0..1000 {
        let ring = Ring::new(100 + number);
        ring.write(&words, 0, &failure(number, 0));
    }
    drop(history);
    let mut history = History::open(copy(&memory), 4096);
    for number in 0..1000 {
        let record = Record { ring: number, number: 1, words: failure(number, 0) };
        history.add(kept(vec![record])).expect("room");
    }
    assert_eq!(History::open(memory, 4096).with([]).len(), FIRST_MAX);
}

fn ring_words(memory: &[AtomicU64]) -> Vec<u64> {
    memory[..Record::WORDS].iter().map(|word| word.load(Ordering::Relaxed)).collect()
}
