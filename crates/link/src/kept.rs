//! A descriptor that lives in a program which may close it, put another file at its number, or fork.
//!
//! No lock: a fork child may find any lock taken for ever, and has to close these all the same.
//! And no `OwnedFd`: the program may have closed the number behind our back, which that type
//! takes for a bug of ours. What is there is only closed if it still is what was put there: the
//! number may be the program's by now.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// A place for one descriptor.
#[derive(Debug)]
pub struct Kept {
    number: AtomicI32,
    /// What the file is known by; written before the number.
    identity: AtomicU64,
}

const NONE: RawFd = -1;

impl Kept {
    /// An empty place.
    pub const fn none() -> Self {
        Self { number: AtomicI32::new(NONE), identity: AtomicU64::new(0) }
    }

    /// A place with `descriptor`, which moves to a high number.
    pub fn new(descriptor: OwnedFd) -> Self {
        let kept = Self::none();
        kept.set(descriptor);
        kept
    }

    /// Puts a descriptor in, and closes what was there. One thread at a time.
    pub fn set(&self, descriptor: OwnedFd) {
        let descriptor = crate::raise(descriptor);
        let before = self.identity.swap(identity(descriptor.as_fd()), Ordering::AcqRel);
        close(self.number.swap(descriptor.into_raw_fd(), Ordering::AcqRel), before);
    }

    /// Closes what is there.
    pub fn clear(&self) {
        let before = self.identity.load(Ordering::Acquire);
        close(self.number.swap(NONE, Ordering::AcqRel), before);
    }

    /// Whether there is something, and the program has neither closed it nor put a file of
    /// another kind in its place. (Files without a place in any file system, such as eventfds, are
    /// all one kind.)
    pub fn is_open(&self) -> bool {
        self.get()
            .is_some_and(|descriptor| identity(descriptor) == self.identity.load(Ordering::Acquire))
    }

    /// Gives away what is there.
    pub fn take(&self) -> Option<OwnedFd> {
        let descriptor = self.number.swap(NONE, Ordering::AcqRel);
        // SAFETY: the number was this place's own, and has just stopped being so.
        (descriptor != NONE).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// What is there. It may turn out to be closed: the program's doing, or another thread's.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        let descriptor = self.number.load(Ordering::Acquire);
        // SAFETY: the number is not -1. That it stays open is its owner's business: those who
        // replace it keep those out who use it. A program that closes it makes our next call fail
        // with EBADF, for its number is not given out again soon.
        (descriptor != NONE).then(|| unsafe { BorrowedFd::borrow_raw(descriptor) })
    }
}

impl Default for Kept {
    fn default() -> Self {
        Self::none()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Of an open file, never 0; of a closed number 0.
fn identity(descriptor: BorrowedFd<'_>) -> u64 {
    rustix::fs::fstat(descriptor)
        .map_or(0, |status| (status.st_dev << 40 ^ status.st_ino) | 1 << 63)
}

fn close(descriptor: RawFd, expected: u64) {
    if descriptor == NONE {
        return;
    }
    // SAFETY: it is only looked at, and nothing fails worse than with EBADF if it is closed.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    if identity(borrowed) == expected {
        // SAFETY: no memory is passed, and the number is this place's own.
        unsafe { libc::syscall(libc::SYS_close, borrowed.as_raw_fd()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn a_file_that_the_program_put_there_is_not_closed() {
        let kept = Kept::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
        assert!(kept.is_open());
        let number = kept.get().expect("there").as_raw_fd();
        let null = std::fs::File::open("/dev/null").expect("readable");
        // SAFETY: the number is ours to do with as a program might.
        assert_eq!(unsafe { libc::dup2(null.as_raw_fd(), number) }, number);
        assert!(!kept.is_open(), "it is another file");
        kept.set(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
        assert!(kept.is_open());
        assert_ne!(kept.get().expect("there").as_raw_fd(), number);
        // SAFETY: still open: it was the program's. Now it is closed.
        assert_eq!(unsafe { libc::close(number) }, 0);
    }

    #[test]
    fn what_is_replaced_is_closed() {
        let kept = Kept::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
        let number = kept.get().expect("there").as_raw_fd();
        kept.set(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
        // SAFETY: only asks.
        assert_eq!(unsafe { libc::fcntl(number, libc::F_GETFD) }, -1);
    }
}
