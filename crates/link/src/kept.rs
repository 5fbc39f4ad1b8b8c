//! A descriptor that lives in a program which may close it, or fork.
//!
//! No lock: a fork child may find any lock taken for ever, and has to close these all the same.
//! And no `OwnedFd`: the program may have closed the number behind our back, which that type
//! takes for a bug of ours.

use core::sync::atomic::{AtomicI32, Ordering};
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// A place for one descriptor.
#[derive(Debug)]
pub struct Kept(AtomicI32);

const NONE: RawFd = -1;

impl Kept {
    /// An empty place.
    pub const fn none() -> Self {
        Self(AtomicI32::new(NONE))
    }

    /// A place with `descriptor`, which moves to a high number.
    pub fn new(descriptor: OwnedFd) -> Self {
        Self(AtomicI32::new(crate::raise(descriptor).into_raw_fd()))
    }

    /// Puts a descriptor in, and closes what was there.
    pub fn set(&self, descriptor: OwnedFd) {
        close(self.0.swap(crate::raise(descriptor).into_raw_fd(), Ordering::AcqRel));
    }

    /// Closes what is there.
    pub fn clear(&self) {
        close(self.0.swap(NONE, Ordering::AcqRel));
    }

    /// Whether there is something, and the program has not closed it.
    pub fn is_open(&self) -> bool {
        self.get().is_some_and(|descriptor| rustix::io::fcntl_getfd(descriptor).is_ok())
    }

    /// Gives away what is there.
    pub fn take(&self) -> Option<OwnedFd> {
        let descriptor = self.0.swap(NONE, Ordering::AcqRel);
        // SAFETY: the number was this place's own, and has just stopped being so.
        (descriptor != NONE).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// What is there. It may turn out to be closed: the program's doing, or another thread's.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        let descriptor = self.0.load(Ordering::Acquire);
        // SAFETY: the number is not -1. That it stays open is its owner's business: those who
        // replace it keep those out who use it. A program that closes it makes our next call fail
        // with EBADF, for its number is not given out again soon.
        (descriptor != NONE).then(|| unsafe { BorrowedFd::borrow_raw(descriptor) })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
    }
}

fn close(descriptor: RawFd) {
    if descriptor != NONE {
        // SAFETY: no memory is passed, and the number was this place's own. If the program has
        // closed it already, this fails and does nothing.
        unsafe { libc::syscall(libc::SYS_close, descriptor) };
    }
}
