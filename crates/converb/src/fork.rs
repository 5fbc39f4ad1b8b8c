//! Telling a fork child from the process that made our objects.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// A place in memory that the kernel fills with zeros in every fork child.
#[repr(C)]
pub(crate) struct ForkWord {
    /// Of the process's part in the network.
    pub(crate) runtime: Claim,
    /// Of its watch over interfaces.
    pub(crate) watch: Claim,
    /// 1 in a child that has given up what it inherited.
    abandoned: AtomicU32,
}

/// Whose something is that a process has once.
#[repr(C)]
pub(crate) struct Claim {
    /// The number of what this process has made; 0 before there is anything, and in children.
    owner: AtomicU32,
    /// 1 while a thread makes it. A child of a process that did so when it forked finds it free.
    creating: AtomicU32,
}

/// The word of this process and all it forks: made once, since children inherit it, emptied.
static WORD: AtomicPtr<ForkWord> = AtomicPtr::new(core::ptr::null_mut());

const PAGE_BYTES: usize = 4096;

impl ForkWord {
    /// The word of this process.
    pub(crate) fn of_process() -> io::Result<&'static Self> {
        let word = WORD.load(Ordering::Acquire);
        if !word.is_null() {
            // SAFETY: the mapping is never removed.
            return Ok(unsafe { &*word });
        }
        // SAFETY: a new mapping, where the kernel likes.
        let page = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                PAGE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        // SAFETY: the page is ours, and zeroing it in children is what it is for.
        unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) }?;
        let new = page.cast::<Self>();
        let word = match WORD.compare_exchange(
            core::ptr::null_mut(),
            new,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => new,
            // Another thread was faster; a page that is never used is no harm.
            Err(winner) => winner,
        };
        // SAFETY: the page is zeroed, aligned and never unmapped, and zero is a valid word.
        Ok(unsafe { &*word })
    }

    /// Whether this is the first call in this process.
    pub(crate) fn first_to_abandon(&self) -> bool {
        self.abandoned.swap(1, Ordering::AcqRel) == 0
    }
}

impl Claim {
    /// Says that this process has made it; returns its number, which is another one in every
    /// generation of children.
    pub(crate) fn adopt(&self) -> u32 {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        self.owner.store(number, Ordering::Release);
        number
    }

    /// Whether this process made the one with this number, and not one it was forked from.
    pub(crate) fn is_owner(&self, number: u32) -> bool {
        self.owner.load(Ordering::Relaxed) == number
    }

    /// Waits until no other thread holds the lock. Creating takes milliseconds and
    /// happens once, so waiting in small steps is good enough.
    pub(crate) fn lock(&self) -> Creating<'_> {
        while self.creating.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Creating(self)
    }
}

/// A door that a background thread goes through to work with what a fork child may need too, and
/// that a thread about to fork keeps closed: no child begins with a lock that the thread held, for
/// in a child nobody would release it.
pub(crate) struct Gate(AtomicBool);

impl Gate {
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Waits until nobody is inside.
    pub(crate) fn close(&self) {
        while self.0.swap(true, Ordering::Acquire) {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Lets the next one in: called by the same thread, or by what has become of it in a child.
    pub(crate) fn open(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Holds the lock until dropped.
pub(crate) struct Creating<'a>(&'a Claim);

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        self.0.creating.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_does_not_own_what_its_parent_made() {
        let word = &ForkWord::of_process().unwrap().watch;
        let number = word.adopt();
        let _held = word.lock();
        // SAFETY: the child calls nothing but the functions under test and _exit, none of which
        // takes a lock of libc's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mistaken = word.is_owner(number);
            drop(word.lock());
            let is_wrong = mistaken || !word.is_owner(word.adopt()) || word.is_owner(number);
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(i32::from(is_wrong)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status));
        assert_eq!(libc::WEXITSTATUS(status), 0, "the child took the word for its own");
        assert!(word.is_owner(number));
    }
}
