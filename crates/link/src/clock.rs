//! The clock of everything that waits.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither is negative, and 2^64 ns are 584 years of uptime.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
