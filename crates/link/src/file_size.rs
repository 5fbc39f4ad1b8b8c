//! Where the size of files is limited (RLIMIT_FSIZE, `ulimit -f`), who makes one larger gets a signal
//! that ends the program; memory that is shared by a descriptor counts as a file. The program has
//! asked for neither.

use rustix::process::{Resource, getrlimit};

/// Does something to a file that may be too much for the limit: it gets `FBIG` then, and the program
/// no SIGXFSZ.
pub fn without_size_signal<T>(attempt: impl FnOnce() -> T) -> T {
    if getrlimit(Resource::Fsize).current.is_none() {
        return attempt();
    }
    let signals = size_signal();
    let mut before = size_signal();
    // SAFETY: both sets are whole, and only this thread's mask changes.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, &raw mut before) };
    let was_pending = is_pending();
    let result = attempt();
    if !was_pending && is_pending() {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: takes the signal that waits for this thread, and waits for no other.
        unsafe { libc::sigtimedwait(&raw const signals, core::ptr::null_mut(), &raw const now) };
    }
    // SAFETY: as before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut()) };
    result
}

fn size_signal() -> libc::sigset_t {
    // SAFETY: zero is a set of signals, and these functions only write to it.
    unsafe {
        let mut signals = core::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGXFSZ);
        signals
    }
}

fn is_pending() -> bool {
    let mut pending = size_signal();
    // SAFETY: writes to the set, then reads it.
    unsafe {
        libc::sigpending(&raw mut pending) == 0
            && libc::sigismember(&raw const pending, libc::SIGXFSZ) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::io::Errno;
    use rustix::process::{Rlimit, setrlimit};

    #[test]
    fn too_large_a_file_is_an_error_and_no_signal() {
        // SAFETY: the child makes system calls, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let memory = memfd_create("test", MemfdFlags::CLOEXEC);
            let limit = Rlimit { current: Some(4096), maximum: Some(4096) };
            let is_good = setrlimit(Resource::Fsize, limit).is_ok()
                && memory.is_ok_and(|memory| {
                    without_size_signal(|| ftruncate(&memory, 4096)) == Ok(())
                        && without_size_signal(|| ftruncate(&memory, 4097)) == Err(Errno::FBIG)
                        && !is_pending()
                });
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(if is_good { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
