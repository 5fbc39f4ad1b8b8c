//! A member's page as the agent sees it: bytes of another process, to be checked.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{SealFlags, fcntl_get_seals};

use crate::failures::{Record, Ring, ring_records};

use super::{COUNTERS_MAX, CounterName, DEVICES_MAX, Layout, NAME_SIZE};

/// A page that a member has handed over.
///
/// It is read with pread(), never mapped: whatever the member does to it, the agent gets bytes
/// or an error.
#[derive(Debug)]
pub struct PageView {
    memory: File,
    layout: Layout,
    /// Where its ring of failures is, if it has one of our kind.
    failures: Option<u64>,
}

impl PageView {
    /// Checks that `memory` is a counter page.
    ///
    /// # Errors
    /// It is something else, or of another version.
    pub fn open(memory: OwnedFd) -> Result<Self> {
        // Reading from anything else could wait for ever; only such memory has seals.
        if !fcntl_get_seals(&memory)?.contains(SealFlags::SHRINK) {
            return Err(Error::new(ErrorKind::InvalidData, "not sealed memory"));
        }
        let memory = File::from(memory);
        let mut header = [0; 24];
        memory.read_exact_at(&mut header, 0)?;
        let word = |at: usize| u32::from_le_bytes(*header[at..].first_chunk().expect("4 bytes"));
        let counters = word(8) as usize;
        let is_page = header[0..4] == Layout::MAGIC
            && word(4) == Layout::VERSION
            && counters <= COUNTERS_MAX
            && word(12) as usize == DEVICES_MAX;
        if !is_page {
            return Err(Error::new(ErrorKind::InvalidData, "not a counter page"));
        }
        let has_failures = word(16) != 0 && word(20) as usize == Ring::SIZE;
        let failures = has_failures.then(|| word(16).into());
        Ok(Self { memory, layout: Layout { counters }, failures })
    }

    /// The failures that its ring has now. One that is being written at this moment is left out.
    pub fn failures(&self) -> Vec<Record> {
        let Some(start) = self.failures else { return Vec::new() };
        let mut bytes = vec![0; Ring::SIZE];
        match self.memory.read_exact_at(&mut bytes, start) {
            Ok(()) => ring_records(&bytes),
            Err(_) => Vec::new(),
        }
    }

    /// Calls `each` with every device, counter and value.
    ///
    /// # Errors
    /// The page cannot be read any more.
    pub fn read(&self, mut each: impl FnMut(CounterName, CounterName, u64)) -> Result<()> {
        let mut page = vec![0; self.layout.counters_size()];
        self.memory.read_exact_at(&mut page, 0)?;
        let name = |at: usize| {
            CounterName::from_bytes(*page[at..].first_chunk::<NAME_SIZE>().expect("within"))
        };
        for device in 0..DEVICES_MAX {
            let device_name = name(self.layout.device(device));
            if device_name.is_empty() {
                continue;
            }
            for counter in 0..self.layout.counters {
                let counter_name = name(self.layout.counter_name(counter));
                let at = self.layout.device_counters(device) + 8 * counter;
                let value = u64::from_le_bytes(*page[at..].first_chunk().expect("within"));
                if !counter_name.is_empty() {
                    each(device_name, counter_name, value);
                }
            }
        }
        Ok(())
    }
}
