//! The slots that have come over from processes which have ended.

use std::sync::atomic::{AtomicU64, Ordering};

/// A set of slots. It takes no lock, for a slot is taken over while a queue pair is held, and whoever
/// receives may wait for that one with the table in its hands.
#[derive(Debug, Default)]
pub(crate) struct SlotSet([AtomicU64; SLOTS / 64]);

const SLOTS: usize = 1024;

impl SlotSet {
    pub(crate) fn insert(&self, slot: u16) {
        let (word, bit) = Self::place(slot);
        self.0[word].fetch_or(bit, Ordering::AcqRel);
    }

    pub(crate) fn contains(&self, slot: u16) -> bool {
        let (word, bit) = Self::place(slot);
        self.0[word].load(Ordering::Acquire) & bit != 0
    }

    fn place(slot: u16) -> (usize, u64) {
        let slot = usize::from(slot) % SLOTS;
        (slot / 64, 1 << (slot % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_told_apart() {
        let slots = SlotSet::default();
        for slot in [0, 63, 64, 1023] {
            assert!(!slots.contains(slot));
            slots.insert(slot);
            assert!(slots.contains(slot));
        }
        assert_eq!((0..1024).filter(|&slot| slots.contains(slot)).count(), 4);
    }
}
