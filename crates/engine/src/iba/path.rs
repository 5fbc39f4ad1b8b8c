//! The window of a path: how much may be on its way to one slot of one host, for all queue pairs
//! together.
//!
//! The peer's receive buffer counts `truesize` (buffer memory, not bytes), so the window does
//! too. It starts small, doubles while it is used up without loss, then grows by a packet a
//! window, and shrinks once per round trip when packets are lost.

use super::credit::Credit;
use crate::time::Time;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use core::time::Duration;

/// The state of a path, shared by its queue pairs, whose threads use it at once: each number is
/// right by itself, together they are as exact as a window needs.
#[derive(Debug)]
pub struct PathWindow {
    window: AtomicU32,
    in_flight: AtomicU32,
    slow_start_until: AtomicU32,
    grown: AtomicU32,
    last_loss: AtomicU64,
    round_trip_nanoseconds: AtomicU64,
    credit: Credit,
}

/// A window to begin with: 14 packets of 4 KiB fit into the kernel's default receive buffer.
const WINDOW_FIRST: u32 = 128 << 10;
/// However bad the network is, this much may be on its way.
const WINDOW_MIN: u32 = 32 << 10;
/// However good the network is, no more than this; half of what the largest common receive
/// buffer holds.
const WINDOW_MAX: u32 = 2 << 20;

/// How long an answer is waited for at least, on a path that has not lost packets and on one that
/// has.
const PATIENCE: Duration = Duration::from_millis(1);
const PATIENCE_LOSSY: Duration = Duration::from_micros(250);

impl Default for PathWindow {
    fn default() -> Self {
        Self {
            window: AtomicU32::new(WINDOW_FIRST),
            in_flight: AtomicU32::new(0),
            slow_start_until: AtomicU32::new(WINDOW_MAX),
            grown: AtomicU32::new(0),
            last_loss: AtomicU64::new(0),
            round_trip_nanoseconds: AtomicU64::new(0),
            credit: Credit::default(),
        }
    }
}

/// What a packet of `length` bytes costs the receiver's buffer: the kernel's rounding, measured
/// as 832 bytes for 60 and 8448 for 4136.
pub fn truesize(length: usize) -> u32 {
    768 + 2 * u32::try_from(length).unwrap_or(u32::MAX / 4)
}

impl PathWindow {
    /// Whether a packet of `size` ([`truesize`]) may be sent. One packet always may.
    pub fn has_room(&self, size: u32) -> bool {
        let in_flight = self.in_flight();
        in_flight == 0 || in_flight + size <= self.window()
    }

    /// The credit for what is not acknowledged.
    pub fn credit(&self) -> &Credit {
        &self.credit
    }

    /// What may be in flight.
    pub fn window(&self) -> u32 {
        self.window.load(Relaxed)
    }

    /// What is in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// The smoothed round trip; zero before the first measurement.
    pub fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip_nanoseconds.load(Relaxed))
    }

    /// A packet is on its way.
    pub fn sent(&self, size: u32) {
        self.in_flight.fetch_add(size, Relaxed);
    }

    /// Packets arrived or are given up.
    pub fn left(&self, size: u32) {
        let before = self.in_flight.fetch_sub(size, Relaxed);
        debug_assert!(size <= before, "more left the path than entered it");
    }

    /// The peer acknowledged `size` while the window was in use.
    pub fn acknowledged(&self, size: u32) {
        let window = self.window();
        let in_use = self.in_flight() >= window / 2;
        self.left(size);
        if !in_use {
            return;
        }
        if window < self.slow_start_until.load(Relaxed) {
            self.window.store((window + size).min(WINDOW_MAX), Relaxed);
        } else if self.grown.fetch_add(size, Relaxed) + size >= window {
            self.grown.store(0, Relaxed);
            self.window.store((window + truesize(4096)).min(WINDOW_MAX), Relaxed);
        }
    }

    /// A packet was lost; counts once per round trip.
    pub fn lost(&self, now: Time) {
        let pause = self.round_trip().max(Duration::from_micros(100));
        let last = self.last_loss.load(Relaxed);
        if now.since(Time::from_nanoseconds(last)) < pause {
            return;
        }
        let mine = self.last_loss.compare_exchange(last, now.nanoseconds(), Relaxed, Relaxed);
        if mine.is_ok() {
            let window = (self.window() / 4 * 3).max(WINDOW_MIN);
            self.window.store(window, Relaxed);
            self.slow_start_until.store(window, Relaxed);
        }
    }

    /// How long to wait for an answer before asking the peer for it: four round trips, but not
    /// less than what a peer needs that has lost the processor. Where packets get lost that is the
    /// likelier reason, and asking in vain costs two packets.
    pub fn patience(&self) -> Duration {
        let least = if self.has_lost() { PATIENCE_LOSSY } else { PATIENCE };
        (4 * self.round_trip()).max(least)
    }

    /// Whether packets have been lost on it.
    pub fn has_lost(&self) -> bool {
        self.last_loss.load(Relaxed) != 0
    }

    /// A round trip was measured (RFC 6298's smoothing).
    pub fn measured(&self, round_trip: Duration) {
        let new = round_trip.as_nanos() as u64;
        let old = self.round_trip_nanoseconds.load(Relaxed);
        let smoothed = if old == 0 { new } else { old / 8 * 7 + new / 8 };
        self.round_trip_nanoseconds.store(smoothed, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_may_always_be_sent() {
        let path = PathWindow::default();
        assert!(path.has_room(u32::MAX / 2));
        path.sent(WINDOW_FIRST);
        assert!(!path.has_room(1));
        path.acknowledged(WINDOW_FIRST);
        assert!(path.has_room(1));
    }

    #[test]
    fn the_window_grows_while_used_and_shrinks_once_per_round_trip() {
        let path = PathWindow::default();
        path.measured(Duration::from_micros(200));
        path.sent(WINDOW_FIRST);
        path.acknowledged(WINDOW_FIRST);
        assert_eq!(path.window(), 2 * WINDOW_FIRST);
        let now = Time::from_nanoseconds(1_000_000);
        path.lost(now);
        let after = path.window();
        assert!(after < 2 * WINDOW_FIRST);
        path.lost(now + Duration::from_micros(50));
        assert_eq!(path.window(), after);
        path.lost(now + Duration::from_micros(250));
        assert!(path.window() < after);
    }

    #[test]
    fn answers_are_asked_for_sooner_where_packets_get_lost() {
        let path = PathWindow::default();
        assert_eq!(path.patience(), PATIENCE);
        path.lost(Time::from_nanoseconds(1_000_000));
        assert_eq!(path.patience(), PATIENCE_LOSSY);
        path.measured(Duration::from_millis(2));
        assert_eq!(path.patience(), Duration::from_millis(8));
    }

    #[test]
    fn an_idle_window_does_not_grow() {
        let path = PathWindow::default();
        for _ in 0..1000 {
            path.sent(1000);
            path.acknowledged(1000);
        }
        assert_eq!(path.window(), WINDOW_FIRST);
    }
}
