//! Waiting for packets, for room to send, or to be woken.
//!
//! Several threads may wait at once, in poll(2): unlike an epoll it keeps nothing in the kernel
//! between calls, so a forked child or a program that closes descriptors cannot confuse it, and
//! it reports once, which is what the progress thread's rule asks for.

use super::arriving::Arriving;
use super::faults::DepartingFaults;
use super::outgoing::Departure;
use super::relay::Relay;
use super::sender::SENDERS_MAX;
use crate::clock;
use crate::counters::Counters;
use crate::fault::NEVER;
use crate::kept::Kept;
use converb_driver::{Interest, Woken};
use core::sync::atomic::{AtomicU64, Ordering};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Ends waits.
pub(crate) struct Waker {
    /// Counts the waits that are to end; each takes one.
    tokens: Kept,
}

impl Waker {
    pub(crate) fn new() -> Result<Self, Errno> {
        let waker = Self { tokens: Kept::none() };
        waker.renew()?;
        Ok(waker)
    }

    /// Makes it anew, after the program has closed it. Waits that began before do not end by it.
    pub(crate) fn renew(&self) -> Result<(), Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE;
        self.tokens.set(eventfd(0, flags)?);
        Ok(())
    }

    /// Ends one wait, the current or the next.
    pub(crate) fn wake(&self) {
        // It fails only when 2^64 waits are to end already, or the program has closed it: then
        // waits end by themselves.
        if let Some(tokens) = self.tokens.get_open() {
            let _ = rustix::io::write(tokens, &1u64.to_ne_bytes());
        }
    }

    /// What it is made of.
    pub(crate) const fn descriptor(&self) -> &Kept {
        &self.tokens
    }

    /// Takes a token. `BADF`: it is no waker any more.
    fn take(&self) -> Result<bool, Errno> {
        let tokens = self.tokens.get().ok_or(Errno::BADF)?;
        match rustix::io::read(tokens, &mut [0u8; 8]) {
            Ok(8) => Ok(true),
            // Another wait was faster.
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            // The program has put another file there, which may be readable for ever.
            Ok(_) | Err(_) => Err(Errno::BADF),
        }
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
        let sockets = self.sockets.iter().filter_map(Arriving::watched);
        sockets.chain(self.relay.and_then(Relay::descriptor))
    }

    /// Whether there is a socket that cannot be watched, for the agent that fed it is gone.
    fn has_parted(&self) -> bool {
        self.sockets.iter().any(Arriving::has_parted)
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

/// Waits for `timeout` at most; see [`converb_driver::Port::wait`] and, for the signal,
/// [`converb_driver::Port::wait_with`].
pub(crate) fn wait(watched: &Watched<'_>, interest: Interest, timeout: Duration) -> Woken {
    let deadline = Instant::now() + timeout;
    loop {
        let tokens = watched.waker.tokens.get();
        let Some(tokens) = tokens.filter(|_| watched.sockets.iter().all(Arriving::is_there)) else {
            watched.counters.descriptors_lost.add(1);
            return lost(timeout);
        };
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
        // It stands last among those. Fed by an agent, a port has none.
        let relay_index = first_blocked - 1;
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
            Duration::ZERO
        } else {
            let left = deadline.saturating_duration_since(Instant::now());
            let parted = watched.has_parted().then_some(PARTED);
            let sooner = watched.delayed(interest).into_iter().chain(parted);
            sooner.fold(left, Duration::min)
        };
        let entries = &mut entries[..count];
        watched.counters.wait_calls.add(1);
        let result = poll_for(entries, left);
        // Only who waits for the program has to know.
        woken.by_handler = result == Err(Errno::INTR) && watched.signal.is_some();
        if result.is_ok() {
            for (index, entry) in entries.iter().enumerate() {
                let events = entry.revents();
                if events.contains(PollFlags::NVAL) {
                    watched.counters.descriptors_lost.add(1);
                    return lost(left);
                }
                match index {
                    _ if events.is_empty() => (),
                    0 => match watched.waker.take() {
                        Ok(taken) => woken.by_request = taken,
                        Err(_) => {
                            watched.counters.descriptors_lost.add(1);
                            return lost(left);
                        }
                    },
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
        if woken != Woken::default() || Instant::now() >= deadline {
            return woken;
        }
    }
}

/// The program has closed our descriptors: wait a little, that nobody spins, and let the caller
/// look for itself.
fn lost(left: Duration) -> Woken {
    let _ = poll_for(&mut [], left.min(LOST));
    Woken { receivable: true, ..Woken::default() }
}

fn poll_for(entries: &mut [PollFd<'_>], timeout: Duration) -> Result<usize, Errno> {
    let timeout = Timespec::try_from(timeout).ok();
    poll(entries, timeout.as_ref())
}

/// The most slots of a port.
pub(crate) const SLOTS_MAX: usize = 32;
/// The waker, slots, the relay, senders, a signal.
const ENTRIES_MAX: usize = 1 + SLOTS_MAX + 1 + SENDERS_MAX + 1;
/// How often all that wait look whether another agent carries what the last one did.
const PARTED: Duration = Duration::from_millis(20);
/// How long a wait lasts when the program has closed some of our descriptors.
const LOST: Duration = Duration::from_millis(10);
