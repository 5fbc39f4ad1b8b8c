//! Going on after the program has closed our descriptors, or put files of its own in their places.
//!
//! Calls on them fail with EBADF or ENOTSOCK then, and are counted; whoever comes by without a
//! lock mends. A sender is opened again at its old port, by who finds it closed in the middle of a
//! send. A slot's socket still exists, with all that it has received, in the agent's vault, and is
//! fetched from there. So nothing is lost but what somebody was just about to receive.

use super::arriving::Arriving;
use super::port::UdpPort;
use super::waiting::{Watched, wait};
use crate::clock;
use converb_driver::{Interest, Woken};
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Where slots can be fetched again: their sockets by their indices, or `None` for now.
pub type SlotSource = Box<dyn Fn() -> Option<Vec<(u16, OwnedFd)>> + Send + Sync>;

/// What a port knows of its losses.
#[derive(Default)]
pub(crate) struct Mending {
    source: OnceLock<SlotSource>,
    /// How many failed calls have been made good.
    mended: AtomicU64,
    /// When descriptors were last looked at in doubt.
    doubted: AtomicU64,
    /// Held by who mends. When to try again, if the last attempt was in vain.
    again: Mutex<Option<Instant>>,
}

/// Not more often than this, in nanoseconds, are descriptors looked at in doubt.
const DOUBT_INTERVAL: u64 = SHORT.as_nanos() as u64;
/// How long a wait may be without a look at the descriptors.
const SHORT: Duration = Duration::from_millis(10);
/// No wait lasts longer. A program that closes the waker while a thread waits leaves nobody who
/// could end that wait.
const LONGEST: Duration = Duration::from_secs(1);
/// The time between two attempts.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

impl UdpPort {
    /// Gives the port the way to its slots' sockets. Only the first one counts.
    pub fn set_slot_source(&self, source: SlotSource) {
        let _ = self.mending.source.set(source);
    }

    /// Whether the program has closed descriptors of ours that are not replaced yet.
    pub fn has_lost_descriptors(&self) -> bool {
        self.counters.descriptors_lost.value() != self.mending.mended.load(Ordering::Relaxed)
    }

    /// Looks whether the descriptors are what they were: a call does not fail on a file that
    /// the program has put in the place of one of ours if that is a socket, too. To be called now
    /// and then; [`mend`](converb_driver::Port::mend) does the rest.
    pub fn check_descriptors(&self) {
        if let Some(relay) = self.relay.get() {
            relay.check();
        }
        let are_open = self.waker.descriptor().is_open()
            && self.sockets.iter().all(Arriving::is_whole)
            && self.departure.senders.are_open();
        self.counters.descriptors_lost.add(u64::from(!are_open));
    }

    /// [`check_descriptors`](Self::check_descriptors), unless that was done just now: then false.
    pub(super) fn doubt_descriptors(&self) -> bool {
        let (now, last) = (clock::now(), self.mending.doubted.load(Ordering::Relaxed));
        let is_due = now.saturating_sub(last) >= DOUBT_INTERVAL;
        if is_due {
            self.mending.doubted.store(now, Ordering::Relaxed);
            self.check_descriptors();
        }
        is_due
    }

    /// Waits. A long wait begins with a look at the descriptors, for nothing would end one on
    /// files that are not ours: packets end it only while they are what they were when it began.
    /// But those who wait again and again do not look each time.
    pub(super) fn wait_on(&self, watched: &Watched<'_>, interest: Interest) -> Woken {
        let end = interest.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = end.map_or(LONGEST, |end| end.saturating_duration_since(Instant::now()));
            let has_looked = left <= SHORT || self.doubt_descriptors();
            let is_lost = self.has_lost_descriptors();
            let longest = if has_looked && !is_lost { LONGEST } else { SHORT };
            let woken = wait(watched, interest, left.min(longest));
            // With something lost the caller is to mend.
            if woken != Woken::default() || is_lost || left <= longest && end.is_some() {
                return woken;
            }
        }
    }

    /// Replaces what is lost, unless another thread is at it.
    #[cold]
    pub(super) fn mend_now(&self) {
        let Ok(mut again) = self.mending.again.try_lock() else { return };
        if again.is_some_and(|again| Instant::now() < again) {
            return;
        }
        // Before looking: what fails from now on may be lost anew.
        let failed = self.counters.descriptors_lost.value();
        if let Some(relay) = self.relay.get() {
            relay.check();
        }
        let has_waker = self.waker.descriptor().is_open() || self.waker.renew().is_ok();
        let has_slots = self.fetch_slots();
        let first = self.sockets.first().filter(|arriving| arriving.is_own());
        let first = first.and_then(|arriving| arriving.socket.get());
        if let Some(socket) = first.filter(|_| has_slots) {
            self.departure.senders.renew_fallback(socket);
        }
        let has_senders = self.departure.senders.reopen_all();
        if has_waker && has_slots && has_senders {
            self.mending.mended.store(failed, Ordering::Relaxed);
            self.counters.descriptors_replaced.add(1);
            *again = None;
        } else {
            *again = Some(Instant::now() + AGAIN_AFTER);
        }
        // Who sleeps may sleep by what was lost.
        self.waker.wake();
    }

    /// Fetches the slots' sockets if some are lost; returns whether all are there.
    fn fetch_slots(&self) -> bool {
        let are_open = || self.sockets.iter().all(Arriving::is_whole);
        if are_open() {
            return true;
        }
        let Some(slots) = self.mending.source.get().and_then(|source| source()) else {
            return false;
        };
        for (index, socket) in slots {
            let lost = self.sockets.iter().find(|arriving| arriving.index == index);
            // One that is open is the same socket, under another number.
            if let Some(lost) = lost.filter(|arriving| !arriving.is_whole()) {
                let _ = lost.replace(socket, self.settings.receive_buffer_bytes_max);
            }
        }
        are_open()
    }
}
