//! Random numbers that a seed decides, the same on every machine.

/// A generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// A generator for a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own, so that what one part of a run draws does not change another's.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// Any number.
    #[allow(clippy::should_implement_trait, reason = "it is no iterator, for it never ends")]
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if there is none.
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.next() as u128 * end as u128) >> 64) as u64
    }

    /// A number from `first` to `last`, both included.
    pub const fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// Yes, this often in a thousand.
    pub const fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < per_mille as u64
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Fills bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let number = self.next().to_le_bytes();
            piece.copy_from_slice(&number[..piece.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_range_and_follow_the_seed() {
        let (mut one, mut two) = (Dice::new(7), Dice::new(7));
        for _ in 0..1000 {
            let number = one.between(3, 9);
            assert!((3..=9).contains(&number));
            assert_eq!(number, two.between(3, 9));
        }
        assert!(!one.chance(0));
        assert!(one.chance(1000));
        assert_ne!(one.fork().next(), two.next());
    }
}
