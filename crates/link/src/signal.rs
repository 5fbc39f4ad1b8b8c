//! The descriptor of a completion channel or of a context's asynchronous events.

use converb_driver::Signal;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An eventfd that counts events that wait; each read takes one. The program sees it: it polls
/// it, sets O_NONBLOCK on it or not, and reads it through the verbs library. So it is, like the
/// kernel's, the lowest free descriptor.
#[derive(Debug)]
pub struct EventSignal {
    descriptor: OwnedFd,
}

impl EventSignal {
    /// A signal that nobody has raised, close-on-exec and blocking.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> Result<Self, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE;
        Ok(Self { descriptor: eventfd(0, flags)? })
    }

    /// Takes one event. Waits for it unless the program has made the descriptor non-blocking.
    ///
    /// # Errors
    /// `AGAIN` if there is none and the descriptor is non-blocking, `INTR` if a signal handler
    /// ran meanwhile.
    pub fn take(&self) -> Result<(), Errno> {
        rustix::io::read(&self.descriptor, &mut [0u8; 8]).map(|_| ())
    }

    /// Takes back one event that has been raised and will never be told. If there is none any more
    /// somebody is about to look for it, and will not find it. Never waits, whatever the program
    /// has made of O_NONBLOCK.
    pub fn take_back(&self) {
        /// Without a position, which a stream does not have.
        const HERE: u64 = u64::MAX;
        let mut count = [0u8; 8];
        let mut buffer = [IoSliceMut::new(&mut count)];
        let _ = preadv2(&self.descriptor, &mut buffer, HERE, ReadWriteFlags::NOWAIT);
    }
}

impl Signal for EventSignal {
    fn raise(&self) {
        // It fails only with 2^64 events waiting, or when the program has closed it.
        let _ = rustix::io::write(&self.descriptor, &1u64.to_ne_bytes());
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
