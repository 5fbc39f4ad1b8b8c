//! The counters of members that are gone, by device, in memory that a successor inherits.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::failures::History;

use super::{CounterName, NAME_SIZE, PageView};

/// Sums by device and counter.
#[derive(Debug)]
pub struct Totals {
    memory: File,
    /// In the order of appearance, which is also the order in memory: a sum never moves, so an
    /// agent that is killed while it writes leaves each sum old or new.
    sums: Vec<Sum>,
}

/// One counter of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The device.
    pub device: CounterName,
    /// The counter.
    pub counter: CounterName,
    /// Its value.
    pub value: u64,
}

/// The most sums that are kept. Programs choose the names, so there is a limit; what is beyond it
/// is not counted.
const SUMS_MAX: usize = 64 * 128;

const MAGIC: u32 = u32::from_le_bytes(*b"CVCT");
const HEADER_SIZE: usize = 8;
/// What follows in the same memory: the history of failures.
const END: u64 = ((HEADER_SIZE + SUMS_MAX * SUM_SIZE) as u64).next_multiple_of(4096);
const SUM_SIZE: usize = 2 * NAME_SIZE + 8;

impl Totals {
    /// Totals without any sum.
    pub fn create() -> Result<Self> {
        let memory = File::from(memfd_create("converb-totals", MemfdFlags::CLOEXEC)?);
        let totals = Self { memory, sums: Vec::new() };
        totals.write()?;
        Ok(totals)
    }

    /// The totals that a predecessor left.
    pub fn inherit(memory: OwnedFd) -> Result<Self> {
        let memory = File::from(memory);
        let mut header = [0; HEADER_SIZE];
        memory.read_exact_at(&mut header, 0)?;
        let word = |at: usize| u32::from_le_bytes(*header[at..].first_chunk().expect("4 bytes"));
        let count = word(4) as usize;
        if word(0) != MAGIC || count > SUMS_MAX {
            return Err(Error::new(ErrorKind::InvalidData, "not the totals of counters"));
        }
        let mut bytes = vec![0; count * SUM_SIZE];
        memory.read_exact_at(&mut bytes, HEADER_SIZE as u64)?;
        let name = |bytes: &[u8]| {
            CounterName::from_bytes(*bytes.first_chunk::<NAME_SIZE>().expect("32 bytes"))
        };
        let sums = bytes
            .chunks_exact(SUM_SIZE)
            .map(|sum| Sum {
                device: name(sum),
                counter: name(&sum[NAME_SIZE..]),
                value: u64::from_le_bytes(*sum[2 * NAME_SIZE..].first_chunk().expect("8 bytes")),
            })
            .collect();
        Ok(Self { memory, sums })
    }

    /// The failures of members that are gone, which lie behind the sums.
    ///
    /// # Errors
    /// No descriptor is to be had.
    pub fn history(&self) -> Result<History> {
        Ok(History::open(self.memory.try_clone()?, END))
    }

    /// Adds the page of a member that is gone.
    ///
    /// # Errors
    /// The page or the totals' own memory could not be read or written.
    pub fn fold(&mut self, page: &PageView) -> Result<()> {
        page.read(|device, counter, value| add(&mut self.sums, device, counter, value))?;
        self.write()
    }

    /// The totals, with the pages of living members added.
    pub fn with<'a>(&self, living: impl Iterator<Item = &'a PageView>) -> Vec<Sum> {
        let mut sums = self.sums.clone();
        for page in living {
            // A page that cannot be read counts nothing.
            let _ = page.read(|device, counter, value| add(&mut sums, device, counter, value));
        }
        sums
    }

    fn write(&self) -> Result<()> {
        let mut bytes = Vec::with_capacity(self.sums.len() * SUM_SIZE);
        for sum in &self.sums {
            bytes.extend_from_slice(sum.device.bytes());
            bytes.extend_from_slice(sum.counter.bytes());
            bytes.extend_from_slice(&sum.value.to_le_bytes());
        }
        self.memory.write_all_at(&bytes, HEADER_SIZE as u64)?;
        // The count last: sums beyond it are not there yet.
        let mut header = [0; HEADER_SIZE];
        header[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        header[4..8].copy_from_slice(&(self.sums.len() as u32).to_le_bytes());
        self.memory.write_all_at(&header, 0)
    }
}

impl AsFd for Totals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

fn add(sums: &mut Vec<Sum>, device: CounterName, counter: CounterName, value: u64) {
    match sums.iter().position(|sum| sum.device == device && sum.counter == counter) {
        Some(place) => sums[place].value = sums[place].value.wrapping_add(value),
        None if sums.len() < SUMS_MAX => sums.push(Sum { device, counter, value }),
        None => {}
    }
}
