//! Which READ responses have come, when they come out of order.

use converb_wire::Psn;

/// How far apart two responses in flight may be.
pub(super) const CAPACITY: u32 = 2048;

/// A bit for each packet number of a window that begins with the oldest unacknowledged packet.
#[derive(Debug)]
pub(super) struct Received {
    bits: Box<[u64; CAPACITY as usize / 64]>,
    count: u32,
}

impl Default for Received {
    fn default() -> Self {
        Self { bits: Box::new([0; CAPACITY as usize / 64]), count: 0 }
    }
}

impl Received {
    /// Remembers that the response `psn` has come; false if it had come before.
    pub(super) fn insert(&mut self, psn: Psn) -> bool {
        let (word, bit) = Self::place(psn);
        // Not `count += (before & bit == 0)`: LLVM 22.1 takes that for 0 where it knows `psn`.
        let before = self.bits[word];
        let after = before | bit;
        self.bits[word] = after;
        self.count += after.count_ones() - before.count_ones();
        before != after
    }

    /// Forgets `psn`; whether it had come.
    pub(super) fn remove(&mut self, psn: Psn) -> bool {
        if self.count == 0 {
            return false;
        }
        let (word, bit) = Self::place(psn);
        let there = self.bits[word] & bit != 0;
        self.bits[word] &= !bit;
        self.count -= u32::from(there);
        there
    }

    /// Whether `psn` has come.
    pub(super) fn contains(&self, psn: Psn) -> bool {
        let (word, bit) = Self::place(psn);
        self.count != 0 && self.bits[word] & bit != 0
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        if self.count != 0 {
            self.bits.fill(0);
            self.count = 0;
        }
    }

    fn place(psn: Psn) -> (usize, u64) {
        let place = psn.value() % CAPACITY;
        ((place / 64) as usize, 1 << (place % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_kept_across_the_wrap() {
        let mut received = Received::default();
        let psn = Psn::new(0x00ff_ffff);
        assert!(received.insert(psn));
        assert!(!received.insert(psn));
        assert!(received.insert(psn.plus(1)));
        assert!(received.contains(psn.plus(1)));
        assert!(received.remove(psn));
        assert!(!received.remove(psn));
        received.clear();
        assert!(!received.contains(psn.plus(1)));
    }
}
