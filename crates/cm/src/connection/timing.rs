//! How long each end of a connection waits.

use converb_wire::ack_timeout;
use core::time::Duration;

/// How long to wait, and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) interval: Duration,
    pub(super) retries: u8,
    pub(super) time_wait: Duration,
}

const TIME_WAIT_MIN: Duration = Duration::from_millis(100);
const TIME_WAIT_MAX: Duration = Duration::from_secs(4);

impl Timing {
    /// For an end whose peer may take `response_timeout` to answer, on a path of these codes.
    pub(super) fn new(response_timeout: u8, local_ack_timeout: u8, retries: u8) -> Self {
        let path = ack_timeout(local_ack_timeout).unwrap_or_default();
        let interval = Self::interval(response_timeout, local_ack_timeout);
        let time_wait = path.clamp(TIME_WAIT_MIN, TIME_WAIT_MAX);
        Self { interval, retries, time_wait }
    }

    /// How long an answer takes at most: the peer's time, and that of both packets, for the ACK
    /// timeout is twice a packet's lifetime.
    pub(super) fn interval(response_timeout: u8, local_ack_timeout: u8) -> Duration {
        let code = |code| ack_timeout(code).unwrap_or_default();
        code(response_timeout) + code(local_ack_timeout)
    }
}
