//! The agent's answer about failures.

use super::fields::{Malformed, Name, Reader, Writer};
use crate::failures::{FAILURE_WORDS, FailureWords};

/// Some failures, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailuresReply {
    /// How many there are in all.
    pub total: u16,
    /// Those from the place that was asked for, at most [`FailuresReply::ENTRIES_MAX`].
    pub entries: Vec<FailureEntry>,
}

/// One failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureEntry {
    /// The process; 0 if it cannot be seen from the agent's process namespace.
    pub pid: u32,
    /// Its program's name.
    pub program: Name<16>,
    /// What the process wrote about it.
    pub words: FailureWords,
}

impl FailuresReply {
    /// The most failures in one reply.
    pub const ENTRIES_MAX: usize = 40;

    pub(super) fn write(&self, writer: &mut Writer) {
        let entries = &self.entries[..self.entries.len().min(Self::ENTRIES_MAX)];
        writer.u16(self.total);
        writer.u16(entries.len() as u16);
        for entry in entries {
            writer.u32(entry.pid);
            writer.name(&entry.program);
            for &word in &entry.words {
                writer.u64(word);
            }
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let total = reader.u16()?;
        let count = reader.count(Self::ENTRIES_MAX)?;
        let entry = |_| {
            let (pid, program) = (reader.u32()?, reader.name()?);
            let mut words = [0; FAILURE_WORDS];
            for word in &mut words {
                *word = reader.u64()?;
            }
            Ok(FailureEntry { pid, program, words })
        };
        Ok(Self { total, entries: (0..count).map(entry).collect::<Result<_, _>>()? })
    }
}
