//! A member's own ring of failures.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{FAILURES_MAX, FIRST_MAX, FOLLOWING_MAX, FOLLOWS, FailureWords, Record};

/// What a member remembers of its ring. The lock is the process's own: no other process, and none
/// that dies, can keep anybody waiting by it.
#[derive(Debug)]
pub struct Ring {
    own: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last_number: u64,
    next_first: usize,
    next_following: usize,
    /// The records that are there, and the key by which later ones are counted with them.
    places: [Option<(u64, Record)>; FAILURES_MAX],
}

impl Ring {
    /// An empty ring, which is called `own`.
    pub fn new(own: u64) -> Self {
        let places = [None; FAILURES_MAX];
        let state = State { last_number: 0, next_first: 0, next_following: 0, places };
        Self { own, state: Mutex::new(state) }
    }

    /// The bytes of all places.
    pub const SIZE: usize = FAILURES_MAX * Record::SIZE;

    /// Writes a failure into `memory`, which are the words of all places. If the ring still has one
    /// of the same `key`, it is counted with that, and tells the newer; key 0 is like no other.
    pub fn write(&self, memory: &[AtomicU64], key: u64, failure: &FailureWords) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let mut words = *failure;
        let alike = |place: &Option<(u64, Record)>| {
            place.is_some_and(|(other, _)| key != 0 && other == key)
        };
        let (place, number) = match state.places.iter().position(alike) {
            Some(place) => {
                let (_, before) = state.places[place].expect("it was just found");
                words[1] = count_together(before.words[1], words[1]);
                (place, before.number)
            }
            None => {
                let (next, start, places) = if words[1] & FOLLOWS == 0 {
                    (&mut state.next_first, 0, FIRST_MAX)
                } else {
                    (&mut state.next_following, FIRST_MAX, FOLLOWING_MAX)
                };
                let place = start + *next % places;
                *next += 1;
                state.last_number += 1;
                (place, state.last_number)
            }
        };
        let record = Record { ring: self.own, number, words };
        state.places[place] = Some((key, record));
        let to = &memory[place * Record::WORDS..][..Record::WORDS];
        for (to, from) in to.iter().zip(record.emit()) {
            to.store(from, Ordering::Relaxed);
        }
    }
}

/// The count of both, and the marks of the newer.
fn count_together(before: u64, now: u64) -> u64 {
    const COUNT: u64 = u32::MAX as u64;
    (now & !COUNT) | ((before & COUNT) + (now & COUNT)).min(COUNT)
}
