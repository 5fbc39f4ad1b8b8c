//! The last failures of a user's programs: which outlive the programs, as their counters do.
//!
//! A member writes what failed into a ring in the memory that it shares with the agent
//! (`ring`), behind its counters, without a system call. The agent reads it when somebody asks,
//! and a last time when the member is dead, even by SIGKILL; then it keeps the newest (`history`)
//! in memory that a successor inherits.
//!
//! What a failure is, only members and `converb explain` know: here it is a few words, of which
//! the first say when, how often, and whether it only follows from another failure. Those that do
//! have places of their own, for one failure flushes many work requests, on many queue pairs.

mod history;
mod ring;

pub use history::History;
pub use ring::Ring;

use crate::protocol::Name;

/// The words of one failure.
pub const FAILURE_WORDS: usize = 20;

/// One failure, as a member tells it:
///
/// ```text
///   0: when, in nanoseconds since 1970          2..20: the members' own
///   1: how often (low half); 1 << 32 if it follows from another failure
/// ```
pub type FailureWords = [u64; FAILURE_WORDS];

/// How many failures are kept of a process, and in all.
pub const FAILURES_MAX: usize = FIRST_MAX + FOLLOWING_MAX;

/// Those that have a cause of their own.
const FIRST_MAX: usize = 48;
/// Those that follow from others.
const FOLLOWING_MAX: usize = 16;

/// Marks, in word 1, what follows from another failure.
pub const FOLLOWS: u64 = 1 << 32;

/// A failure in memory.
///
/// ```text
///   0          8            16       24
///   | checksum | the ring's | number | words ...
///                own number
/// ```
///
/// A member may die between two words, or write while the agent reads: the checksum covers all
/// others, so what is torn is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Tells processes apart, as far as they can be.
    pub ring: u64,
    /// Counts the failures of a process, from 1.
    pub number: u64,
    /// The failure.
    pub words: FailureWords,
}

impl Record {
    const WORDS: usize = 3 + FAILURE_WORDS;
    const SIZE: usize = 8 * Self::WORDS;

    fn emit(&self) -> [u64; Self::WORDS] {
        let mut all = [0; Self::WORDS];
        all[1] = self.ring;
        all[2] = self.number;
        all[3..].copy_from_slice(&self.words);
        all[0] = checksum(&all[1..]);
        all
    }

    /// The record in `bytes`; `None` if the place is empty, or its writer did not finish.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut all = [0; Self::WORDS];
        for (word, bytes) in all.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(*bytes.first_chunk().expect("eight bytes"));
        }
        let is_whole = all[2] != 0 && all[0] == checksum(&all[1..]);
        let words = *all[3..].first_chunk().expect("the rest");
        is_whole.then_some(Self { ring: all[1], number: all[2], words })
    }

    fn follows(&self) -> bool {
        self.words[1] & FOLLOWS != 0
    }

    fn when(&self) -> u64 {
        self.words[0]
    }
}

/// Not against attackers: a member may write what it likes about itself.
fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| {
        (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

/// A failure and whose it is, as the agent knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The process; 0 if the agent cannot see it.
    pub pid: u32,
    /// Its program.
    pub program: Name<16>,
    /// The failure.
    pub record: Record,
}

/// The newest of `all`, newest first, each once, and not too many of those that only follow.
fn newest(mut all: Vec<Kept>) -> Vec<Kept> {
    all.sort_by_key(|kept| core::cmp::Reverse((kept.record.when(), kept.record.number)));
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|kept| seen.insert((kept.record.ring, kept.record.number)));
    let (mut first, mut following) = (0, 0);
    all.retain(|kept| {
        let (count, most) = if kept.record.follows() {
            (&mut following, FOLLOWING_MAX)
        } else {
            (&mut first, FIRST_MAX)
        };
        *count += 1;
        *count <= most
    });
    all
}

/// The whole records in the bytes of a ring's places.
pub fn ring_records(bytes: &[u8]) -> Vec<Record> {
    bytes.chunks_exact(Record::SIZE).filter_map(Record::parse).collect()
}

#[cfg(test)]
mod tests;
