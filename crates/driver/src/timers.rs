//! Which queue pair has to look at its clocks, and when.

use converb_engine::Time;
use converb_wire::Qpn;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Deadlines in the order of time. A queue pair whose deadline has moved on is still found at
/// the old one, looks, and is entered again: so a running transfer enters one per millisecond,
/// not one per packet.
#[derive(Debug, Default)]
pub(crate) struct TimerQueue {
    heap: BinaryHeap<Reverse<(Time, u32)>>,
    /// Until when the progress thread sleeps; it is woken for earlier deadlines.
    pub(crate) sleeper: Option<Time>,
}

impl TimerQueue {
    /// Adds a deadline; true if the sleeper has to be woken for it.
    pub(crate) fn add(&mut self, deadline: Time, qpn: Qpn) -> bool {
        self.heap.push(Reverse((deadline, qpn.value())));
        let wake = self.sleeper.is_some_and(|until| deadline < until);
        if wake {
            self.sleeper = None;
        }
        wake
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |Reverse((time, _))| *time)
    }

    /// Takes a deadline that has passed: whose, and which, as a queue pair may have entered an
    /// earlier one since.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<(Qpn, Time)> {
        if self.next() > now {
            return None;
        }
        self.heap.pop().map(|Reverse((deadline, qpn))| (Qpn::new(qpn), deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_come_in_order_and_wake_a_later_sleeper() {
        let at = Time::from_nanoseconds;
        let mut timers = TimerQueue::default();
        assert!(!timers.add(at(20), Qpn::new(2)));
        timers.sleeper = Some(at(20));
        assert!(timers.add(at(10), Qpn::new(1)));
        assert!(!timers.add(at(5), Qpn::new(3)));
        assert_eq!(timers.next(), at(5));
        assert_eq!(timers.take_due(at(10)), Some((Qpn::new(3), at(5))));
        assert_eq!(timers.take_due(at(10)), Some((Qpn::new(1), at(10))));
        assert_eq!(timers.take_due(at(10)), None);
    }
}
