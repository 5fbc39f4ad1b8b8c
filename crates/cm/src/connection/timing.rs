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
        let code = |code| ack_timeout(code).unwrap_or_default();
        // The peer's time, and that of both packets: the ACK timeout is twice a packet's lifetime.
        let path = code(local_ack_timeout);
        let interval = code(response_timeout) + path;
        let time_wait = path.clamp(TIME_WAIT_MIN, TIME_WAIT_MAX);
        Self { interval, retries, time_wait }
    }
}
