//! Packets that go on later: after a time, or after a few others.

use super::NEVER;
use super::dice::Decision;
use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Packets in the order in which they go on. Times are nanoseconds of a clock.
pub(crate) struct Held<T> {
    late: BinaryHeap<Reverse<Late<T>>>,
    overtaken: Vec<Overtaken<T>>,
    /// Taken, and put back.
    stuck: Option<T>,
    /// How many have been put in.
    count: u64,
    bytes: usize,
}

struct Late<T> {
    due: u64,
    /// Those of one moment keep their order.
    order: u64,
    bytes: usize,
    packet: T,
}

struct Overtaken<T> {
    overtakers: u8,
    due: u64,
    delay: u64,
    bytes: usize,
    packet: T,
}

impl<T> Held<T> {
    pub(crate) const fn new() -> Self {
        Self { late: BinaryHeap::new(), overtaken: Vec::new(), stuck: None, count: 0, bytes: 0 }
    }

    /// Puts a packet in. False if there is no room, and it is lost.
    pub(crate) fn put(&mut self, decision: &Decision, now: u64, bytes: usize, packet: T) -> bool {
        if self.bytes + bytes > BYTES_MAX {
            return false;
        }
        self.bytes += bytes;
        let delay = decision.delay.as_nanos() as u64;
        if let Some(overtakers) = decision.overtakers {
            let due = now + OVERTAKEN_AT_MOST;
            self.overtaken.push(Overtaken { overtakers, due, delay, bytes, packet });
            return true;
        }
        self.delay(now + delay, bytes, packet);
        self.overtake(now);
        true
    }

    /// A packet goes past.
    pub(crate) fn overtake(&mut self, now: u64) {
        for packet in &mut self.overtaken {
            packet.overtakers -= 1;
        }
        self.release(now);
    }

    /// The first packet that is due.
    pub(crate) fn take(&mut self, now: u64) -> Option<T> {
        if let Some(stuck) = self.stuck.take() {
            return Some(stuck);
        }
        self.release(now);
        if self.late.peek()?.0.due > now {
            return None;
        }
        let Reverse(late) = self.late.pop()?;
        self.bytes -= late.bytes;
        Some(late.packet)
    }

    /// Puts the packet that was taken last back, in front of all others: it cannot go on yet.
    pub(crate) fn put_back(&mut self, packet: T) {
        self.stuck = Some(packet);
    }

    /// Whether a packet was put back that has not been taken again.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    /// When the next packet is due, but for one that was put back; [`NEVER`] if there is none.
    pub(crate) fn due(&self) -> u64 {
        let late = self.late.peek().map_or(NEVER, |Reverse(late)| late.due);
        self.overtaken.iter().map(|packet| packet.due).fold(late, u64::min)
    }

    fn delay(&mut self, due: u64, bytes: usize, packet: T) {
        self.late.push(Reverse(Late { due, order: self.count, bytes, packet }));
        self.count += 1;
    }

    /// Lets those go on that have been overtaken, or waited for it long enough.
    fn release(&mut self, now: u64) {
        let mut index = 0;
        while let Some(packet) = self.overtaken.get(index) {
            if packet.overtakers > 0 && packet.due > now {
                index += 1;
                continue;
            }
            let packet = self.overtaken.remove(index);
            self.delay(now + packet.delay, packet.bytes, packet.packet);
        }
    }
}

impl<T> PartialEq for Late<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Late<T> {}

impl<T> PartialOrd for Late<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Late<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

/// A second of a gigabit network.
const BYTES_MAX: usize = 128 << 20;
/// Where nothing comes after it, a packet waits no longer to be overtaken: 200 us.
const OVERTAKEN_AT_MOST: u64 = 200_000;

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn after(nanoseconds: u64) -> Decision {
        Decision { delay: Duration::from_nanos(nanoseconds), ..Decision::default() }
    }

    fn overtaken_by(count: u8) -> Decision {
        Decision { overtakers: Some(count), ..Decision::default() }
    }

    fn all(held: &mut Held<u32>, now: u64) -> Vec<u32> {
        core::iter::from_fn(|| held.take(now)).collect()
    }

    #[test]
    fn a_fixed_delay_keeps_the_order() {
        let mut held = Held::new();
        for packet in 0..100 {
            assert!(held.put(&after(500), 10, 1, packet));
        }
        assert_eq!(held.due(), 510);
        assert_eq!(all(&mut held, 509), []);
        assert_eq!(all(&mut held, 510), (0..100).collect::<Vec<_>>());
        assert_eq!(held.due(), NEVER);
    }

    #[test]
    fn a_packet_is_overtaken_by_as_many_as_it_should() {
        let mut held = Held::new();
        held.put(&overtaken_by(2), 0, 1, 0);
        assert_eq!(all(&mut held, 0), []);
        for packet in 1..5 {
            held.put(&after(0), 0, 1, packet);
        }
        assert_eq!(all(&mut held, 0), [1, 2, 0, 3, 4]);
    }

    #[test]
    fn a_last_packet_is_not_kept_for_ever() {
        let mut held = Held::new();
        held.put(&overtaken_by(1), 5, 1, 0);
        assert_eq!(held.due(), 5 + OVERTAKEN_AT_MOST);
        assert_eq!(all(&mut held, 5 + OVERTAKEN_AT_MOST), [0]);
    }

    #[test]
    fn there_is_room_for_so_much() {
        let mut held = Held::new();
        assert!(held.put(&after(1), 0, BYTES_MAX, 0));
        assert!(!held.put(&after(1), 0, 1, 1));
        assert_eq!(all(&mut held, 1), [0]);
        assert!(held.put(&after(1), 0, 1, 2));
    }
}
