//! Waiting for packets, for room to send, or to be woken.
//!
//! Several threads may wait at once, in poll(2): unlike an epoll it keeps nothing in the kernel
//! between calls, so a forked child or a program that closes descriptors cannot confuse it, and
//! it reports once, which is what the progress thread's rule asks for.

use super::faults::DepartingFaults;
use super::incoming::Arriving;
use super::outgoing::Departure;
use super::relay::Relay;
use super::sender::SENDERS_MAX;
use crate::clock;
use crate::counters::Counters;
use crate::fault::NEVER;
use converb_driver::{Interest, Woken};
use core::sync::atomic::{AtomicU64, Ordering};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Ends waits.
pub(crate) struct Waker {
    /// Counts the waits that are to end; each takes one.
    tokens: OwnedFd,
}

impl Waker {
    pub(crate) fn new() -> Result<Self, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE;
        Ok(Self { tokens: crate::raise(eventfd(0, flags)?) })
    }

    /// Ends one wait, the current or the next.
    pub(crate) fn wake(&self) {
        // It fails only when 2^64 waits are to end already, or the program has closed it: then
        // waits end by themselves.
        let _ = rustix::io::write(&self.tokens, &1u64.to_ne_bytes());
    }

    /// What it is made of.
    pub(crate) const fn descriptor(&self) -> &OwnedFd {
        &self.tokens
    }

    fn take(&self) -> bool {
        rustix::io::read(&self.tokens, &mut [0u8; 8]) == Ok(8)
    }
}

/// What a wait looks at.
pub(crate) struct Watched<'a> {
    pub(crate) waker: &'a Waker,
    pub(crate) sockets: &'a [Arriving],
    pub(crate) relay: Option<&'a dyn Relay>,
    pub(crate) signal: Option<BorrowedFd<'a>>,
    pub(crate) counters: &'a Counters,
    pub(crate) departure: &'a Departure,
    /// When packets that were delayed on purpose come in, in nanoseconds of the monotonic clock.
    pub(crate) arriving_due: &'a AtomicU64,
}

impl<'a> Watched<'a> {
    /// What is readable when something was received.
    fn received(&self) -> impl Iterator<Item = BorrowedFd<'a>> + use<'a> {
        let sockets = self.sockets.iter().map(|arriving| arriving.slot.socket.as_fd());
        sockets.chain(self.relay.and_then(Relay::descriptor))
    }

    /// How long until something that was delayed on purpose is due; `None`: there is nothing.
    fn delayed(&self, interest: Interest) -> Option<Duration> {
        let leaves = self.departure.faults.as_ref().map_or(NEVER, DepartingFaults::due);
        let arrives =
            if interest.receivable { self.arriving_due.load(Ordering::Acquire) } else { NEVER };
        let due = leaves.min(arrives);
        (due < NEVER).then(|| Duration::from_nanos(due.saturating_sub(clock::now())))
    }

    /// Whether packets that were delayed on purpose come in now.
    fn arrives(&self, interest: Interest) -> bool {
        let due = self.arriving_due.load(Ordering::Acquire);
        interest.receivable && due < NEVER && due <= clock::now()
    }
}

/// Waits; see [`converb_driver::Port::wait`] and, for the signal,
/// [`converb_driver::Port::wait_with`].
pub(crate) fn wait(watched: &Watched<'_>, interest: Interest) -> Woken {
    let deadline = interest.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let tokens = watched.waker.tokens.as_fd();
        let mut entries: [PollFd<'_>; ENTRIES_MAX] =
            core::array::from_fn(|_| PollFd::from_borrowed_fd(tokens, PollFlags::IN));
        let received = watched.received().filter(|_| interest.receivable);
        let blocked = watched.departure.senders.blocked().filter(|_| interest.sendable);
        let mut count = 1;
        for (entry, descriptor) in entries[count..].iter_mut().zip(received) {
            *entry = PollFd::from_borrowed_fd(descriptor, PollFlags::IN);
            count += 1;
        }
        let first_blocked = count;
        let relay_index = 1 + watched.sockets.len();
        for (entry, socket) in entries[count..].iter_mut().zip(blocked) {
            *entry = PollFd::from_borrowed_fd(socket, PollFlags::OUT);
            count += 1;
        }
        let first_signal = count;
        if let Some(signal) = watched.signal {
            entries[count] = PollFd::from_borrowed_fd(signal, PollFlags::IN);
            count += 1;
        }
        let mut woken = Woken {
            // With nothing in the way of sending there is nothing to wait for.
            sendable: interest.sendable && first_blocked == first_signal,
            ..Woken::default()
        };
        let left = if woken.sendable {
            Some(Duration::ZERO)
        } else {
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            left.into_iter().chain(watched.delayed(interest)).min()
        };
        let entries = &mut entries[..count];
        watched.counters.wait_calls.add(1);
        let result = poll_for(entries, left);
        if result.is_ok() {
            for (index, entry) in entries.iter().enumerate() {
                let events = entry.revents();
                if events.contains(PollFlags::NVAL) {
                    watched.counters.descriptors_lost.add(1);
                    return lost(left);
                }
                match index {
                    _ if events.is_empty() => (),
                    0 => woken.by_request = watched.waker.take(),
                    _ if index < first_blocked => {
                        woken.receivable = true;
                        if let Some(relay) = watched.relay.filter(|_| index == relay_index) {
                            relay.quieten();
                        }
                    }
                    _ if index < first_signal => woken.sendable = true,
                    _ => woken.by_signal = true,
                }
            }
        }
        watched.departure.flush_if_due();
        woken.receivable |= watched.arrives(interest);
        let is_over = || deadline.is_some_and(|end| Instant::now() >= end);
        if woken != Woken::default() || is_over() {
            return woken;
        }
    }
}

/// The program has closed our descriptors: wait a little, that nobody spins, and let the caller
/// look for itself.
fn lost(left: Option<Duration>) -> Woken {
    let _ = poll_for(&mut [], Some(left.unwrap_or(LOST).min(LOST)));
    Woken { receivable: true, ..Woken::default() }
}

fn poll_for(entries: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize, Errno> {
    // A time too long for the kernel's clock is as good as none.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    poll(entries, timeout.as_ref())
}

/// The most slots of a port.
pub(crate) const SLOTS_MAX: usize = 32;
/// The waker, slots, the relay, senders, a signal.
const ENTRIES_MAX: usize = 1 + SLOTS_MAX + 1 + SENDERS_MAX + 1;
/// How long a wait lasts when the program has closed some of our descriptors.
const LOST: Duration = Duration::from_millis(10);
