//! How much READ data may be on its way to us: the responses have no brake of their own, so the
//! requester asks for no more than a share of its own receive buffer at a time.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The budget that all queue pairs behind one receive buffer share, in `truesize`.
#[derive(Debug)]
pub struct ReadBudget {
    limit: u32,
    in_flight: AtomicU32,
}

impl ReadBudget {
    /// A budget for a receive buffer of `buffer` bytes: three eighths of it, since requests and
    /// ACKs come through the same buffer and the kernel counts its own overhead.
    pub fn new(buffer: usize) -> Self {
        let limit = u32::try_from(buffer / 8 * 3).unwrap_or(u32::MAX / 2);
        Self { limit, in_flight: AtomicU32::new(0) }
    }

    /// The most bytes of payload that one READ request asks for.
    pub fn request_bytes(&self) -> u32 {
        (self.limit / 8).clamp(4096, 64 << 10)
    }

    /// Takes `size` from the budget if it is there, or in any case when `is_first`: without one
    /// request in flight nothing would ever come to a queue pair.
    pub fn take(&self, size: u32, is_first: bool) -> bool {
        let before = self.in_flight.fetch_add(size, Relaxed);
        if is_first || before + size <= self.limit {
            return true;
        }
        self.in_flight.fetch_sub(size, Relaxed);
        false
    }

    /// Gives back what arrived or is no longer expected.
    pub fn give(&self, size: u32) {
        let before = self.in_flight.fetch_sub(size, Relaxed);
        debug_assert!(size <= before, "more READ data left than was asked for");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_is_always_allowed_and_the_rest_waits() {
        let budget = ReadBudget::new(1000);
        assert!(budget.take(10_000, true));
        assert!(!budget.take(1, false));
        budget.give(10_000);
        assert!(budget.take(100, false));
        assert!(budget.take(100, false));
        assert!(!budget.take(1000, false));
    }
}
