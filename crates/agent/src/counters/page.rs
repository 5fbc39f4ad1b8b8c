//! A member's own page of counters.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::AtomicU64;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{COUNTERS_MAX, CounterName, DEVICES_MAX, Layout};
use crate::descriptor;

/// Counters of one process, by device.
///
/// All devices have the same counters. Adding to one is an atomic addition on shared memory.
#[derive(Debug)]
pub struct CounterPage {
    memory: File,
    address: NonNull<u8>,
    layout: Layout,
    /// The devices that have a place, in order.
    devices: Mutex<Vec<CounterName>>,
}

// SAFETY: after its creation the mapping is reached only through atomics.
unsafe impl Send for CounterPage {}
// SAFETY: as above; places are given out under the lock.
unsafe impl Sync for CounterPage {}

impl CounterPage {
    /// A page for devices that each have the counters `names`, at most 128, of which 32 bytes
    /// count.
    ///
    /// # Errors
    /// Too many names, or no memory or descriptor to be had.
    pub fn create(names: &[&str]) -> Result<Self> {
        if names.len() > COUNTERS_MAX {
            return Err(Error::new(ErrorKind::InvalidInput, "too many counters"));
        }
        let layout = Layout { counters: names.len() };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = descriptor::raise(memfd_create("converb-counters", flags)?);
        ftruncate(&memory, layout.size() as u64)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = File::from(memory);
        let mut header = vec![0; layout.device(0)];
        header[0..4].copy_from_slice(&Layout::MAGIC);
        header[4..8].copy_from_slice(&Layout::VERSION.to_le_bytes());
        header[8..12].copy_from_slice(&(names.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&(DEVICES_MAX as u32).to_le_bytes());
        for (counter, name) in names.iter().enumerate() {
            let at = layout.counter_name(counter);
            let name = CounterName::new(name);
            header[at..at + name.bytes().len()].copy_from_slice(name.bytes());
        }
        memory.write_all_at(&header, 0)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice touches no existing memory.
        let address =
            unsafe { mmap(null_mut(), layout.size(), protection, MapFlags::SHARED, &memory, 0)? };
        let address = NonNull::new(address.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { memory, address, layout, devices: Mutex::new(Vec::new()) })
    }

    /// The counters of the device called `name`, in the order of the names at creation. The first
    /// call for a name takes one of the 16 places; `None` if all are taken.
    pub fn device(&self, name: &str) -> Option<&[AtomicU64]> {
        let name = CounterName::new(name);
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let place = match devices.iter().position(|&device| device == name) {
            Some(place) => place,
            None if devices.len() == DEVICES_MAX || name.is_empty() => return None,
            None => {
                let place = devices.len();
                // The name makes the place valid for the agent; its counters are zero already.
                self.memory.write_all_at(name.bytes(), self.layout.device(place) as u64).ok()?;
                devices.push(name);
                place
            }
        };
        let offset = self.layout.device_counters(place);
        // SAFETY: the place lies within the mapping, which is sealed against shrinking and lives
        // as long as `self`; every offset is a multiple of 8 and the mapping starts a page;
        // everybody else who writes there does it through these atomics as well.
        Some(unsafe {
            let counters = self.address.as_ptr().add(offset).cast::<AtomicU64>();
            core::slice::from_raw_parts(counters, self.layout.counters)
        })
    }
}

impl AsFd for CounterPage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

impl Drop for CounterPage {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made at creation; references into it borrow `self` and so
        // are gone.
        let result = unsafe { munmap(self.address.as_ptr().cast(), self.layout.size()) };
        debug_assert_eq!(result, Ok(()));
    }
}
