//! Copies that the kernel makes: safe whatever the program did to its signals, but slow (1.4 us,
//! and 0.3 us for each page).

use converb_engine::Fault;
use rustix::process::getpid;

/// Copies out of the program's memory.
pub(super) fn read(address: u64, into: &mut [u8]) -> Result<(), Fault> {
    transfer(libc::SYS_process_vm_readv, into.as_mut_ptr(), address, into.len())
}

/// Copies into the program's memory.
pub(super) fn write(address: u64, from: &[u8]) -> Result<(), Fault> {
    transfer(libc::SYS_process_vm_writev, from.as_ptr().cast_mut(), address, from.len())
}

/// Changes the 8 bytes at `address`, and returns what they were. Atomic only among these calls:
/// the kernel has no such operation on memory that may not be there.
pub(super) fn update(address: u64, change: impl FnOnce(u64) -> u64) -> Result<u64, Fault> {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut bytes = [0; 8];
    read(address, &mut bytes)?;
    let before = u64::from_ne_bytes(bytes);
    // Also where nothing changes, since memory that cannot be written must say so.
    write(address, &change(before).to_ne_bytes())?;
    Ok(before)
}

fn transfer(call: libc::c_long, ours: *mut u8, address: u64, length: usize) -> Result<(), Fault> {
    if length == 0 {
        return Ok(());
    }
    let local = libc::iovec { iov_base: ours.cast(), iov_len: length };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: length };
    let process = getpid().as_raw_nonzero().get();
    // SAFETY: `ours` is valid for `length` bytes, as the callers have it from a slice, which the
    // kernel only writes in a read; it checks the other side itself.
    let moved = unsafe {
        libc::syscall(call, process, &raw const local, 1usize, &raw const remote, 1usize, 0usize)
    };
    if usize::try_from(moved) == Ok(length) {
        return Ok(());
    }
    Err(Fault { address: address.saturating_add(moved.max(0).cast_unsigned()) })
}
