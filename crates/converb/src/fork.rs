//! Telling a fork child from the process that made our objects.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// A place in memory that the kernel fills with zeros in every fork child.
#[repr(C)]
pub(crate) struct ForkWord {
    /// The number of the process's runtime; 0 before there is one, and in children.
    owner: AtomicU32,
    /// 1 while a thread creates the runtime. A child of a process that did so when it forked finds
    /// it free.
    creating: AtomicU32,
    /// 1 in a child that has given up what it inherited.
    abandoned: AtomicU32,
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

    /// Says that this process has a runtime; returns its number, which is another one in every
    /// generation of children.
    pub(crate) fn adopt(&self) -> u32 {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        self.owner.store(number, Ordering::Release);
        number
    }

    /// Whether this process made the runtime with this number, and not one it was forked from.
    pub(crate) fn is_owner(&self, number: u32) -> bool {
        self.owner.load(Ordering::Relaxed) == number
    }

    /// Whether this is the first call in this process.
    pub(crate) fn first_to_abandon(&self) -> bool {
        self.abandoned.swap(1, Ordering::AcqRel) == 0
    }

    /// Waits until no other thread holds the lock. Creating a runtime takes milliseconds and
    /// happens once, so waiting in small steps is good enough.
    pub(crate) fn lock(&self) -> Creating<'_> {
        while self.creating.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Creating(self)
    }
}

/// Holds the lock until dropped.
pub(crate) struct Creating<'a>(&'a ForkWord);

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
        let word = ForkWord::of_process().unwrap();
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
