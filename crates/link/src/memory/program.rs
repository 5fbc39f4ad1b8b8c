//! Moves bytes from and to the program's memory, by whichever way is safe now.

use super::by_kernel;
#[cfg(target_arch = "x86_64")]
use super::{guarded, trust};
use converb_engine::{Fault, Memory};

/// The memory of the process that this library lives in.
#[derive(Debug, Default)]
pub struct ProgramMemory(());

impl ProgramMemory {
    /// The memory of this process.
    pub const fn new() -> Self {
        Self(())
    }

    /// Prepares for copies: installs the handler that catches their faults, if that was not yet
    /// done, and looks whether it is still there and can run in this thread. Called when memory
    /// is registered, before which no signal's handling is changed.
    pub fn arm(&self) {
        #[cfg(target_arch = "x86_64")]
        trust::renew();
    }
}

/// The fault at `found`, if that lies in the range that was asked for: the processor does not
/// tell some addresses.
#[cfg(target_arch = "x86_64")]
fn fault(found: u64, address: u64, length: usize) -> Fault {
    let offset = found.wrapping_sub(address);
    Fault { address: if offset < length as u64 { found } else { address } }
}

#[cfg(target_arch = "x86_64")]
impl Memory for ProgramMemory {
    #[inline]
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        if !trust::is_trusted() {
            return by_kernel::read(address, into);
        }
        let (to, from) = (into.as_mut_ptr().cast(), address as *const _);
        // SAFETY: `into` is ours and as long as that; this thread is trusted with faults.
        let outcome = unsafe { guarded::copy(to, from, into.len(), address) };
        outcome.result().map(|_| ()).map_err(|found| fault(found, address, into.len()))
    }

    #[inline]
    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        if !trust::is_trusted() {
            return by_kernel::write(address, from);
        }
        let (to, source) = (address as *mut _, from.as_ptr().cast());
        // SAFETY: `from` is ours and as long as that; this thread is trusted with faults.
        let outcome = unsafe { guarded::copy(to, source, from.len(), address) };
        outcome.result().map(|_| ()).map_err(|found| fault(found, address, from.len()))
    }

    fn compare_and_swap(&self, address: u64, compare: u64, swap: u64) -> Result<u64, Fault> {
        if !trust::is_trusted() {
            return by_kernel::update(address, |old| if old == compare { swap } else { old });
        }
        // SAFETY: this thread is trusted with faults.
        let outcome = unsafe { guarded::compare_and_swap(address, compare, swap) };
        outcome.result().map_err(|found| fault(found, address, 8))
    }

    fn fetch_and_add(&self, address: u64, add: u64) -> Result<u64, Fault> {
        if !trust::is_trusted() {
            return by_kernel::update(address, |old| old.wrapping_add(add));
        }
        // SAFETY: this thread is trusted with faults.
        let outcome = unsafe { guarded::fetch_and_add(address, add) };
        outcome.result().map_err(|found| fault(found, address, 8))
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Memory for ProgramMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        by_kernel::read(address, into)
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        by_kernel::write(address, from)
    }

    fn compare_and_swap(&self, address: u64, compare: u64, swap: u64) -> Result<u64, Fault> {
        by_kernel::update(address, |old| if old == compare { swap } else { old })
    }

    fn fetch_and_add(&self, address: u64, add: u64) -> Result<u64, Fault> {
        by_kernel::update(address, |old| old.wrapping_add(add))
    }
}
