//! The memory of a node: one vector behind an address.

use converb_engine::{Fault, Memory};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Where every node's memory begins.
pub const BASE: u64 = 0x7f00_0000_0000;

/// The memory of a virtual process.
pub struct NodeMemory(Mutex<Vec<u8>>);

impl NodeMemory {
    /// Memory with these contents, from [`BASE`] on.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Mutex::new(bytes))
    }

    /// Calls `look` with all of it.
    pub fn with<R>(&self, look: impl FnOnce(&[u8]) -> R) -> R {
        look(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn exchange(&self, address: u64, new: impl FnOnce(u64) -> u64) -> Result<u64, Fault> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let range = Self::range(address, 8, bytes.len())?;
        let word: [u8; 8] = bytes[range.clone()].try_into().map_err(|_| Fault { address })?;
        let old = u64::from_ne_bytes(word);
        bytes[range].copy_from_slice(&new(old).to_ne_bytes());
        Ok(old)
    }

    fn range(address: u64, length: usize, size: usize) -> Result<Range<usize>, Fault> {
        let offset = address.checked_sub(BASE).and_then(|offset| usize::try_from(offset).ok());
        let start = offset.ok_or(Fault { address })?;
        let end = start.checked_add(length).filter(|&end| end <= size).ok_or(Fault { address })?;
        Ok(start..end)
    }
}

impl Memory for NodeMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.with(|bytes| {
            into.copy_from_slice(&bytes[Self::range(address, into.len(), bytes.len())?]);
            Ok(())
        })
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let range = Self::range(address, from.len(), bytes.len())?;
        bytes[range].copy_from_slice(from);
        Ok(())
    }

    fn compare_and_swap(&self, address: u64, compare: u64, swap: u64) -> Result<u64, Fault> {
        self.exchange(address, |old| if old == compare { swap } else { old })
    }

    fn fetch_and_add(&self, address: u64, add: u64) -> Result<u64, Fault> {
        self.exchange(address, |old| old.wrapping_add(add))
    }
}
