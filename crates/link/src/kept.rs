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
    /// What tells it from other files without a place in any file system; 0 for other files.
    mark: AtomicU64,
    /// How many losses had been noticed in this process when it was put here; `LOST` if this is one.
    losses: AtomicU64,
}

/// Descriptors of which was noticed that the program has closed them. It has closed others at the same
/// moment, probably, and numbers of eventfds are given again as descriptors are: what was there before
/// may be told from the program's own no more.
static LOSSES: AtomicU64 = AtomicU64::new(0);
const LOST: u64 = u64::MAX;

const NONE: RawFd = -1;

impl Kept {
    /// An empty place.
    pub const fn none() -> Self {
        Self {
            number: AtomicI32::new(NONE),
            identity: AtomicU64::new(0),
            mark: AtomicU64::new(0),
            losses: AtomicU64::new(0),
        }
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
        let known = self.known();
        self.identity.store(identity(descriptor.as_fd()), Ordering::Release);
        self.mark.store(mark(descriptor.as_fd()), Ordering::Release);
        self.losses.store(LOSSES.load(Ordering::Acquire), Ordering::Release);
        close(self.number.swap(descriptor.into_raw_fd(), Ordering::AcqRel), &known);
    }

    /// Closes what is there.
    pub fn clear(&self) {
        let known = self.known();
        close(self.number.swap(NONE, Ordering::AcqRel), &known);
    }

    fn known(&self) -> Known {
        Known {
            identity: self.identity.load(Ordering::Acquire),
            mark: self.mark.load(Ordering::Acquire),
            has_seen_loss: self.losses.load(Ordering::Acquire) != LOSSES.load(Ordering::Acquire),
        }
    }

    /// Whether there is something, and the program has neither closed it nor put a file of
    /// another kind in its place. (Files without a place in any file system, such as eventfds, are
    /// all one kind.)
    pub fn is_open(&self) -> bool {
        let Some(descriptor) = self.get() else { return false };
        let is_open = identity(descriptor) == self.identity.load(Ordering::Acquire);
        if !is_open && self.losses.swap(LOST, Ordering::AcqRel) != LOST {
            LOSSES.fetch_add(1, Ordering::AcqRel);
        }
        is_open
    }

    /// What is there, unless [`is_open`](Self::is_open) says that it is not ours any more: for who
    /// would change another's file.
    pub fn get_open(&self) -> Option<BorrowedFd<'_>> {
        self.get().filter(|_| self.is_open())
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

/// What tells a file that has no place in a file system from others of its kind, as far as the kernel
/// says: the number of an eventfd, the interval of a timer, the largest of the marks in an epoll
/// set. So whoever makes one of the latter two puts a number there that nobody else has. 0 for a file
/// that has a type, for its identity is its own.
fn mark(descriptor: BorrowedFd<'_>) -> u64 {
    let has_type = rustix::fs::fstat(descriptor).is_ok_and(|status| status.st_mode & S_IFMT != 0);
    if has_type {
        return 0;
    }
    let path = format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd());
    // Without /proc one of a kind is as good as another.
    std::fs::read_to_string(path).map_or(0, |text| mark_in(&text))
}

/// The bits of a file's mode that are its type.
const S_IFMT: u32 = 0o170_000;

fn mark_in(text: &str) -> u64 {
    let words = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        match words.next()? {
            "eventfd-id:" => words.next()?.parse().ok(),
            "it_interval:" => {
                let mut digits =
                    line.split(|c: char| !c.is_ascii_digit()).filter(|d| !d.is_empty());
                let seconds: u64 = digits.next()?.parse().ok()?;
                Some(seconds << 30 | digits.next()?.parse::<u64>().ok()?)
            }
            "tfd:" => {
                words.find(|word| *word == "data:")?;
                u64::from_str_radix(words.next()?, 16).ok()
            }
            _ => None,
        }
    });
    words.max().unwrap_or(0)
}

/// What is known of a file that is to be closed.
struct Known {
    identity: u64,
    mark: u64,
    /// Losses were noticed while it was here.
    has_seen_loss: bool,
}

fn close(descriptor: RawFd, known: &Known) {
    if descriptor == NONE {
        return;
    }
    // SAFETY: it is only looked at, and nothing fails worse than with EBADF if it is closed.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    if identity(borrowed) != known.identity || mark(borrowed) != known.mark {
        return;
    }
    // In doubt a descriptor stays open: better than to close the program's.
    if known.mark == 0 || !known.has_seen_loss {
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
    fn a_file_of_the_same_kind_is_not_closed_either() {
        let kept = Kept::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
        let number = kept.get().expect("there").as_raw_fd();
        let other = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        // SAFETY: the number is ours to do with as a program might.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        kept.clear();
        // SAFETY: still open: it was the program's. Now it is closed.
        assert_eq!(unsafe { libc::close(number) }, 0);
    }

    #[test]
    fn the_kernel_says_what_tells_them_apart() {
        assert_eq!(mark_in("pos:\t0\nflags:\t02\neventfd-count:  0\neventfd-id: 17\n"), 17);
        assert_eq!(mark_in("it_value: (0, 0)\nit_interval: (3, 5)\n"), 3 << 30 | 5);
        let set = "tfd:  5 events:  19 data: fe00000000000001  pos:0 ino:3d\n\
                   tfd:  6 events:  19 data:                2  pos:0 ino:3d\n";
        assert_eq!(mark_in(set), 0xfe00_0000_0000_0001);
        assert_eq!(mark_in(""), 0);
    }

    #[test]
    fn what_is_replaced_is_closed() {
        for _ in 0..100 {
            let losses = LOSSES.load(Ordering::Acquire);
            let kept = Kept::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
            let number = kept.get().expect("there").as_raw_fd();
            kept.set(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
            // After a loss in another test it stays open on purpose.
            if LOSSES.load(Ordering::Acquire) == losses {
                // SAFETY: only asks.
                assert_eq!(unsafe { libc::fcntl(number, libc::F_GETFD) }, -1);
                return;
            }
        }
        panic!("other tests lose descriptors all the time");
    }
}
