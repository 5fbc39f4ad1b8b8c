//! A member's own page of counters.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use converb_link::Kept;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{COUNTERS_MAX, CounterName, DEVICES_MAX, Layout};
use crate::failures::{FailureWords, Ring};
use crate::random::random;

/// Counters of one process, by device.
///
/// All devices have the same counters. Adding to one is an atomic addition on shared memory.
#[derive(Debug)]
pub struct CounterPage {
    memory: Kept,
    address: NonNull<u8>,
    layout: Layout,
    ring: Ring,
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
        let mut header = vec![0; layout.device(0)];
        header[0..4].copy_from_slice(&Layout::MAGIC);
        header[4..8].copy_from_slice(&Layout::VERSION.to_le_bytes());
        header[8..12].copy_from_slice(&(names.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&(DEVICES_MAX as u32).to_le_bytes());
        header[16..20].copy_from_slice(&(layout.failures() as u32).to_le_bytes());
        header[20..24].copy_from_slice(&(Ring::SIZE as u32).to_le_bytes());
        for (counter, name) in names.iter().enumerate() {
            let at = layout.counter_name(counter);
            let name = CounterName::new(name);
            header[at..at + name.bytes().len()].copy_from_slice(name.bytes());
        }
        let memory = sealed_memory(&header, layout.size())?;
        // SAFETY: a new mapping at a place of the kernel's choice touches no existing memory.
        let address =
            unsafe { mmap(null_mut(), layout.size(), WRITABLE, MapFlags::SHARED, &memory, 0)? };
        let address = NonNull::new(address.cast()).ok_or(ErrorKind::OutOfMemory)?;
        let devices = Mutex::new(Vec::new());
        // Tells this process's failures from those of others, in all process namespaces.
        let ring = Ring::new(random());
        Ok(Self { memory: Kept::new(memory), address, layout, ring, devices })
    }

    /// The page's descriptor, for the agent. If the program has closed it behind our back, the
    /// page moves to new memory, at the same address and with the same values.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // Held so that no device is added meanwhile, and nobody else does the same.
        let _devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if self.memory.is_open() {
            return self.memory.get();
        }
        let words = self.layout.size() / size_of::<AtomicU64>();
        // SAFETY: the whole mapping, as words, which is what it is read and written as.
        let words = unsafe {
            core::slice::from_raw_parts(self.address.as_ptr().cast::<AtomicU64>(), words)
        };
        let bytes: Vec<u8> =
            words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        let memory = sealed_memory(&bytes, bytes.len()).ok()?;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let (address, size) = (self.address.as_ptr().cast(), self.layout.size());
        // SAFETY: exactly our own mapping is replaced, in one step, by one of equal contents; who
        // counts in this moment uses atomics on either, and loses at most that count.
        unsafe { mmap(address, size, WRITABLE, flags, &memory, 0).ok()? };
        self.memory.set(memory);
        self.memory.get()
    }

    /// Adds a failure to those that the agent keeps. Costs no system call. `key` is that of other
    /// failures with which it is to be counted; 0 for none.
    pub fn record(&self, key: u64, failure: &FailureWords) {
        let start = self.layout.failures();
        // SAFETY: the ring lies within the mapping, which is sealed against shrinking and lives as
        // long as `self`, at a multiple of 64; everybody writes there through these atomics.
        let words = unsafe {
            let words = self.address.as_ptr().add(start).cast::<AtomicU64>();
            core::slice::from_raw_parts(words, Ring::SIZE / size_of::<AtomicU64>())
        };
        self.ring.write(words, key, failure);
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
                let start = self.layout.device(place);
                for (word, bytes) in name.bytes().chunks_exact(8).enumerate() {
                    let value = u64::from_ne_bytes(*bytes.first_chunk().expect("eight bytes"));
                    // SAFETY: within the mapping and aligned, as below.
                    let word = unsafe {
                        &*self.address.as_ptr().add(start + 8 * word).cast::<AtomicU64>()
                    };
                    // The name makes the place valid for the agent; its counters are zero.
                    word.store(value, Ordering::Release);
                }
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

impl Drop for CounterPage {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made at creation; references into it borrow `self` and so
        // are gone.
        let result = unsafe { munmap(self.address.as_ptr().cast(), self.layout.size()) };
        debug_assert_eq!(result, Ok(()));
    }
}

const WRITABLE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Memory of `size` bytes that begins with `bytes` and cannot shrink.
fn sealed_memory(bytes: &[u8], size: usize) -> Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = converb_link::raise(memfd_create("converb-counters", flags)?);
    converb_link::without_size_signal(|| ftruncate(&memory, size as u64))?;
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let memory = File::from(memory);
    memory.write_all_at(bytes, 0)?;
    Ok(memory.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::PageView;

    #[test]
    fn a_page_whose_descriptor_was_closed_moves_with_its_values() {
        let page = CounterPage::create(&["packets"]).expect("memory");
        let counter = &page.device("roce_lo").expect("a place")[0];
        counter.store(5, Ordering::Relaxed);
        page.memory.clear();
        let copy = page.descriptor().expect("open").try_clone_to_owned().expect("a descriptor");
        let seen = PageView::open(copy).expect("a page");
        counter.fetch_add(1, Ordering::Relaxed);
        page.device("roce_eth0").expect("a place")[0].store(7, Ordering::Relaxed);
        let mut values = Vec::new();
        seen.read(|device, _, value| values.push((device, value))).expect("readable");
        assert_eq!(
            values,
            [("roce_lo", 6), ("roce_eth0", 7)]
                .map(|(device, value)| { (CounterName::new(device), value) })
        );
    }
}
