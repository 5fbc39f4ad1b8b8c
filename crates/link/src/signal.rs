//! The descriptor of a completion channel or of a context's asynchronous events.

use crate::kept::Kept;
use converb_driver::Signal;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// An eventfd that counts events that wait; each read takes one. The program sees it: it polls
/// it, sets O_NONBLOCK on it or not, and reads it through the verbs library. So it is, like the
/// kernel's, the lowest free descriptor. A program that closes it soon has a file of its own at
/// that number, which must not get our eight bytes: so we use a copy of our own, a high number.
#[derive(Debug)]
pub struct EventSignal {
    descriptor: OwnedFd,
    /// `None` where there was no room for another descriptor.
    own: Option<Kept>,
}

impl EventSignal {
    /// A signal that nobody has raised, close-on-exec and blocking.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> Result<Self, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE;
        let descriptor = eventfd(0, flags)?;
        let own = descriptor.try_clone().ok().map(Kept::new);
        Ok(Self { descriptor, own })
    }

    /// The copy that is used here, made again if the program has closed that one, as programs
    /// do that close what they do not know.
    fn own(&self) -> Result<BorrowedFd<'_>, Errno> {
        let Some(own) = &self.own else { return Ok(self.descriptor.as_fd()) };
        if !own.is_open() {
            self.copy_again(own)?;
        }
        own.get().ok_or(Errno::BADF)
    }

    #[cold]
    fn copy_again(&self, own: &Kept) -> Result<(), Errno> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if own.is_open() {
            return Ok(());
        }
        let link = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        // Another file there is the program's.
        let is_eventfd =
            std::fs::read_link(link).is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]");
        if !is_eventfd {
            return Err(Errno::BADF);
        }
        own.set(self.descriptor.try_clone().map_err(|_| Errno::MFILE)?);
        Ok(())
    }

    /// Takes one event. Waits for it unless the program has made the descriptor non-blocking.
    ///
    /// # Errors
    /// `AGAIN` if there is none and the descriptor is non-blocking, `INTR` if a signal handler
    /// ran meanwhile.
    pub fn take(&self) -> Result<(), Errno> {
        rustix::io::read(self.own()?, &mut [0u8; 8]).map(|_| ())
    }

    /// Takes back one event that has been raised and will never be told. If there is none any more
    /// somebody is about to look for it, and will not find it. Never waits, whatever the program
    /// has made of O_NONBLOCK.
    pub fn take_back(&self) {
        /// Without a position, which a stream does not have.
        const HERE: u64 = u64::MAX;
        let mut count = [0u8; 8];
        let mut buffer = [IoSliceMut::new(&mut count)];
        if let Ok(own) = self.own() {
            let _ = preadv2(own, &mut buffer, HERE, ReadWriteFlags::NOWAIT);
        }
    }
}

impl Signal for EventSignal {
    fn raise(&self) {
        // It fails only with 2^64 events waiting, or when the program has closed it.
        if let Ok(own) = self.own() {
            let _ = rustix::io::write(own, &1u64.to_ne_bytes());
        }
    }
}

impl AsFd for EventSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    fn close_own(signal: &EventSignal) {
        signal.own.as_ref().expect("room").clear();
    }

    #[test]
    fn a_number_that_the_program_uses_otherwise_gets_nothing() {
        let signal = EventSignal::new().expect("a descriptor");
        signal.raise();
        close_own(&signal);
        assert_eq!(signal.take(), Ok(()), "only the program's number was left");
        let (reader, writer) = rustix::pipe::pipe().expect("descriptors");
        // SAFETY: a program may do this.
        unsafe { libc::dup2(writer.as_raw_fd(), signal.as_fd().as_raw_fd()) };
        signal.raise();
        close_own(&signal);
        signal.raise();
        rustix::io::ioctl_fionbio(&reader, true).expect("a pipe");
        assert_eq!(rustix::io::read(&reader, &mut [0u8; 8]), Err(Errno::AGAIN));
    }

    #[test]
    fn each_event_is_taken_once() {
        let signal = EventSignal::new().expect("a descriptor");
        signal.raise();
        signal.raise();
        assert_eq!(signal.take(), Ok(()));
        assert_eq!(signal.take(), Ok(()));
        signal.raise();
        signal.raise();
        signal.take_back();
        assert_eq!(signal.take(), Ok(()));
        // It is blocking still, and this does not wait.
        signal.take_back();
        let flags = fcntl_getfl(&signal).expect("open");
        fcntl_setfl(&signal, flags | OFlags::NONBLOCK).expect("open");
        assert_eq!(signal.take(), Err(Errno::AGAIN));
    }
}
