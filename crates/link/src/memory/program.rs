//! Moves bytes from and to the program's memory.

use converb_engine::{Fault, Memory};
use rustix::process::getpid;

/// The memory of the process that this library lives in.
#[derive(Debug, Default)]
pub struct ProgramMemory;

impl ProgramMemory {
    /// The memory of this process.
    pub const fn new() -> Self {
        Self
    }
}

fn transfer(call: libc::c_long, ours: *mut u8, address: u64, length: usize) -> Result<(), Fault> {
    let local = libc::iovec { iov_base: ours.cast(), iov_len: length };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: length };
    let process = getpid().as_raw_nonzero().get();
    // SAFETY: `ours` is valid for `length` bytes as the callers have it from a slice; the kernel
    // checks the other side.
    let moved = unsafe {
        libc::syscall(call, process, &raw const local, 1usize, &raw const remote, 1usize, 0usize)
    };
    if usize::try_from(moved) == Ok(length) {
        return Ok(());
    }
    Err(Fault { address: address.saturating_add(moved.max(0) as u64) })
}

impl Memory for ProgramMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        transfer(libc::SYS_process_vm_readv, into.as_mut_ptr(), address, into.len())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        transfer(libc::SYS_process_vm_writev, from.as_ptr().cast_mut(), address, from.len())
    }

    fn compare_and_swap(&self, address: u64, _: u64, _: u64) -> Result<u64, Fault> {
        Err(Fault { address })
    }

    fn fetch_and_add(&self, address: u64, _: u64) -> Result<u64, Fault> {
        Err(Fault { address })
    }
}
