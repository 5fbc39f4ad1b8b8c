//! The requester's clocks: local ACK timeout, probe of a lost tail, RNR delay.

use super::cause::Cause;
use crate::time::Time;
use converb_wire::Psn;
use core::time::Duration;

/// When a requester has to look after its outstanding packets.
#[derive(Clone, Copy, Debug)]
pub struct Timers {
    last_progress: Time,
    last_probe: Time,
    probes: u32,
    retries_left: u8,
    rnr_retries_left: u8,
    rnr_until: Option<Time>,
    /// The packet that the peer was not ready for last.
    rnr_packet: Option<Psn>,
    timeout: Option<Duration>,
    /// As the program set it.
    timeout_code: u8,
    retry_count: u8,
    rnr_retry: u8,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// The delay that the peer asked for is over.
    RnrOver,
    /// Ask the peer how far it is; not counted as a retry.
    Probe {
        /// How often it was asked before without an answer.
        count: u32,
    },
    /// The local ACK timeout has passed: send everything again.
    Retry,
    /// It has passed once too often.
    GiveUp,
}

/// A software NIC shares its processor: no ACK timeout is shorter than this.
const TIMEOUT_MIN: Duration = Duration::from_millis(16);
/// The specification lets a NIC take up to four times the timeout that was asked for (IBA
/// 9.7.6.1.3). Losses are mended by probes long before; this clock decides when a peer is gone, and
/// on a busy machine one that is not may be silent for most of a second.
const TIMES_TIMEOUT: u32 = 3;
/// Probes of one packet slow down up to this.
const PROBE_MAX: Duration = Duration::from_millis(500);
/// As an RNR retry count: try for ever (IBA 9.7.5.2.8).
const RNR_RETRY_FOR_EVER: u8 = 7;

impl Timers {
    /// Clocks for a connection with these attributes (`timeout` as in `ibv_qp_attr`).
    pub fn new(timeout: u8, retry_count: u8, rnr_retry: u8) -> Self {
        Self {
            last_progress: Time::ZERO,
            last_probe: Time::ZERO,
            probes: 0,
            retries_left: retry_count,
            rnr_retries_left: rnr_retry,
            rnr_until: None,
            rnr_packet: None,
            timeout: converb_wire::ack_timeout(timeout)
                .map(|timeout| TIMES_TIMEOUT * timeout.max(TIMEOUT_MIN)),
            timeout_code: timeout,
            retry_count,
            rnr_retry,
        }
    }

    /// The first packet after a pause was sent.
    pub fn started(&mut self, now: Time) {
        self.last_progress = now;
        self.probes = 0;
    }

    /// The peer acknowledged something new. What it is not ready for is sent when its delay is
    /// over, and waits for an answer from then on.
    pub fn progressed(&mut self, now: Time) {
        self.last_progress = self.rnr_until.map_or(now, |until| until.max(now));
        self.probes = 0;
        self.retries_left = self.retry_count;
        self.rnr_retries_left = self.rnr_retry;
    }

    /// The peer has no receive posted for `packet` and asks for `delay`. False if it did so too
    /// often. About another packet than last time it has gone on in between, although answers may
    /// be missing, so that all retries are back.
    pub fn receiver_not_ready(&mut self, now: Time, packet: Psn, delay: Duration) -> bool {
        if self.rnr_packet.replace(packet) != Some(packet) {
            self.rnr_retries_left = self.rnr_retry;
        }
        if self.rnr_retry != RNR_RETRY_FOR_EVER
            && !crate::planted::is(crate::planted::Planted::RnrRetryUncounted)
        {
            if self.rnr_retries_left == 0 {
                return false;
            }
            self.rnr_retries_left -= 1;
        }
        let until = now + delay;
        self.rnr_until = Some(until);
        self.last_progress = until;
        self.probes = 0;
        true
    }

    /// Why there is an end after [`Due::GiveUp`].
    pub(super) fn gave_up(&self) -> Cause {
        Cause::NoAnswer {
            retries: self.retry_count.into(),
            timeout_ns: self.timeout.map_or(0, |timeout| timeout.as_nanos() as u64),
            timeout: self.timeout_code.into(),
        }
    }

    /// Why there is an end after a refused [`receiver_not_ready`](Self::receiver_not_ready).
    pub(super) fn never_ready(&self, delay: Duration) -> Cause {
        Cause::NoReceive { retries: self.rnr_retry.into(), delay_ns: delay.as_nanos() as u64 }
    }

    /// Whether the peer's delay holds us back.
    pub fn is_held_back(&self) -> bool {
        self.rnr_until.is_some()
    }

    /// When to call [`due`](Self::due) next. `patience` is how long an answer is waited for before
    /// the peer is asked ([`PathWindow::patience`](super::path::PathWindow::patience)).
    pub fn deadline(&self, outstanding: bool, patience: Duration) -> Time {
        if let Some(until) = self.rnr_until {
            return until;
        }
        if !outstanding {
            return Time::NEVER;
        }
        let timeout = self.timeout.map_or(Time::NEVER, |timeout| self.last_progress + timeout);
        timeout.min(self.probe_at(patience))
    }

    /// What is due now; the clocks go on from there.
    pub fn due(&mut self, now: Time, outstanding: bool, patience: Duration) -> Due {
        if let Some(until) = self.rnr_until {
            if now < until {
                return Due::Nothing;
            }
            self.rnr_until = None;
            return Due::RnrOver;
        }
        if !outstanding {
            return Due::Nothing;
        }
        if self.timeout.is_some_and(|timeout| now >= self.last_progress + timeout) {
            if self.retries_left == 0 {
                return Due::GiveUp;
            }
            self.retries_left -= 1;
            self.last_progress = now;
            self.probes = 0;
            return Due::Retry;
        }
        if now >= self.probe_at(patience) {
            let count = self.probes;
            self.probes += 1;
            self.last_probe = now;
            return Due::Probe { count };
        }
        Due::Nothing
    }

    fn probe_at(&self, patience: Duration) -> Time {
        let first = patience.min(PROBE_MAX);
        if self.probes == 0 {
            self.last_progress + first
        } else {
            self.last_probe + (first * (1 << self.probes.min(10))).min(PROBE_MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(1);

    fn at(microseconds: u64) -> Time {
        Time::from_nanoseconds(microseconds * 1000)
    }

    #[test]
    fn a_tail_is_probed_then_retried_then_given_up() {
        let mut timers = Timers::new(1, 1, 7);
        timers.started(at(0));
        assert_eq!(timers.due(at(999), true, PATIENCE), Due::Nothing);
        assert_eq!(timers.due(at(1000), true, PATIENCE), Due::Probe { count: 0 });
        assert_eq!(timers.due(at(2999), true, PATIENCE), Due::Nothing);
        assert_eq!(timers.due(at(3000), true, PATIENCE), Due::Probe { count: 1 });
        assert_eq!(timers.due(at(48_000), true, PATIENCE), Due::Retry);
        assert_eq!(timers.due(at(96_000), true, PATIENCE), Due::GiveUp);
    }

    #[test]
    fn progress_gives_all_retries_back() {
        let mut timers = Timers::new(1, 1, 7);
        timers.started(at(0));
        assert_eq!(timers.due(at(48_000), true, PATIENCE), Due::Retry);
        timers.progressed(at(60_000));
        assert_eq!(timers.due(at(108_000), true, PATIENCE), Due::Retry);
    }

    #[test]
    fn timeout_zero_probes_but_never_gives_up() {
        let mut timers = Timers::new(0, 0, 7);
        timers.started(at(0));
        for millisecond in 1..100_000 {
            let due = timers.due(at(millisecond * 1000), true, PATIENCE);
            assert!(matches!(due, Due::Nothing | Due::Probe { .. }));
        }
    }

    #[test]
    fn rnr_retries_are_those_of_one_packet() {
        let delay = Duration::from_micros(10);
        let mut timers = Timers::new(14, 7, 0);
        assert!(!timers.receiver_not_ready(at(0), Psn::new(5), delay));
        let mut timers = Timers::new(14, 7, 1);
        for packet in 5..9 {
            assert!(timers.receiver_not_ready(at(0), Psn::new(packet), delay));
        }
        assert!(!timers.receiver_not_ready(at(0), Psn::new(8), delay));
    }

    #[test]
    fn progress_does_not_start_the_clock_of_what_the_peer_is_not_ready_for() {
        let mut timers = Timers::new(1, 0, 7);
        timers.started(at(0));
        assert!(timers.receiver_not_ready(at(0), Psn::new(5), Duration::from_millis(100)));
        timers.progressed(at(10));
        assert_eq!(timers.due(at(100_000), true, PATIENCE), Due::RnrOver);
        assert_eq!(timers.due(at(100_000), true, PATIENCE), Due::Nothing);
        assert_eq!(timers.due(at(101_000), true, PATIENCE), Due::Probe { count: 0 });
        assert_eq!(timers.due(at(148_000), true, PATIENCE), Due::GiveUp);
    }

    #[test]
    fn even_on_the_slowest_path_a_tail_is_probed_in_time() {
        let mut timers = Timers::new(0, 7, 7);
        timers.started(at(0));
        assert_eq!(timers.due(at(500_000), true, Duration::from_secs(60)), Due::Probe { count: 0 });
    }

    #[test]
    fn rnr_retries_are_counted_unless_they_are_seven() {
        let delay = Duration::from_micros(10);
        let packet = Psn::new(5);
        let mut timers = Timers::new(14, 7, 2);
        assert!(timers.receiver_not_ready(at(0), packet, delay));
        assert_eq!(timers.due(at(9), true, PATIENCE), Due::Nothing);
        assert_eq!(timers.due(at(10), true, PATIENCE), Due::RnrOver);
        assert!(timers.receiver_not_ready(at(20), packet, delay));
        assert!(!timers.receiver_not_ready(at(40), packet, delay));
        let mut timers = Timers::new(14, 7, 7);
        assert!((0..100).all(|_| timers.receiver_not_ready(at(0), packet, delay)));
    }
}
