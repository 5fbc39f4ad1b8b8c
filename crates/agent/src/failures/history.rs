//! The failures of members that are gone, in memory that a successor inherits.

use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;

use super::{FAILURES_MAX, Kept, Record, newest};
use crate::protocol::Name;

/// The newest failures, newest first. They lie behind the totals of counters, in the same memory,
/// where an agent that knows nothing of them leaves them alone.
///
/// ```text
///   | "CVFH" words | failure | failure | ...       a failure: pid, program, record
/// ```
#[derive(Debug)]
pub struct History {
    memory: File,
    start: u64,
    kept: Vec<Kept>,
}

const HEADER: u64 = u32::from_le_bytes(*b"CVFH") as u64 | (ENTRY_SIZE as u64) << 32;
const HEADER_SIZE: usize = 8;
const ENTRY_SIZE: usize = 8 + 16 + Record::SIZE;

impl History {
    /// The failures in `memory` from `start` on: those that a predecessor left, or none.
    pub fn open(memory: File, start: u64) -> Self {
        let kept = read(&memory, start).unwrap_or_default();
        Self { memory, start, kept }
    }

    /// Adds those of a member that is gone.
    ///
    /// # Errors
    /// The memory cannot be written; then only a successor does not know them.
    pub fn add(&mut self, failures: impl IntoIterator<Item = Kept>) -> Result<()> {
        let before = self.kept.len();
        self.kept.extend(failures);
        if self.kept.len() == before {
            return Ok(());
        }
        self.kept = newest(core::mem::take(&mut self.kept));
        self.write()
    }

    /// All of them, and those of living members, newest first.
    pub fn with(&self, living: impl IntoIterator<Item = Kept>) -> Vec<Kept> {
        newest(self.kept.iter().copied().chain(living).collect())
    }

    fn write(&self) -> Result<()> {
        let mut bytes = Vec::with_capacity(HEADER_SIZE + FAILURES_MAX * ENTRY_SIZE);
        bytes.extend_from_slice(&HEADER.to_ne_bytes());
        for kept in &self.kept {
            bytes.extend_from_slice(&u64::from(kept.pid).to_ne_bytes());
            bytes.extend_from_slice(kept.program.bytes());
            bytes.extend(kept.record.emit().iter().flat_map(|word| word.to_ne_bytes()));
        }
        // Empty places after the last, in case there were more before.
        bytes.resize(HEADER_SIZE + FAILURES_MAX * ENTRY_SIZE, 0);
        self.memory.write_all_at(&bytes, self.start)
    }
}

fn read(memory: &File, start: u64) -> Option<Vec<Kept>> {
    let mut bytes = vec![0; HEADER_SIZE + FAILURES_MAX * ENTRY_SIZE];
    memory.read_exact_at(&mut bytes, start).ok()?;
    let (header, entries) = bytes.split_at(HEADER_SIZE);
    if header != HEADER.to_ne_bytes() {
        return None;
    }
    // An agent that was killed while it wrote leaves at most one torn.
    let entry = |bytes: &[u8]| {
        let pid = u64::from_ne_bytes(*bytes.first_chunk()?) as u32;
        let program = Name::from_bytes(*bytes[8..].first_chunk::<16>()?);
        Some(Kept { pid, program, record: Record::parse(&bytes[24..])? })
    };
    Some(newest(entries.chunks_exact(ENTRY_SIZE).filter_map(entry).collect()))
}
