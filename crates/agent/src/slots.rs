//! Which slots are free, owned, or waiting until stray packets for their last owner are gone.

use std::collections::VecDeque;
use std::time::Duration;

/// How long a slot rests after its owner: packets for it may still be on the way, and peers may
/// still retransmit to queue pairs that are no more.
pub const TIME_WAIT: Duration = Duration::from_secs(2);

/// The slots of a group, slot 0 (the agent's own) included.
#[derive(Debug, Default)]
pub struct Slots {
    owned: Vec<bool>,
    /// Every slot that nobody owns, the longest unused first, and when it may be used again.
    free: VecDeque<(u16, Duration)>,
}

impl Slots {
    /// A table of `total` slots, all free but slot 0. The first one handed out is the one that
    /// `random` picks, so that two runs of a program rarely use the same numbers.
    pub fn new(total: u16, random: u64) -> Self {
        let mut slots = Self { owned: vec![true], free: VecDeque::new() };
        slots.extend(total.saturating_sub(1));
        if !slots.free.is_empty() {
            slots.free.rotate_left((random % slots.free.len() as u64) as usize);
        }
        slots
    }

    /// How many there are.
    pub fn total(&self) -> u16 {
        self.owned.len() as u16
    }

    /// How many are owned, slot 0 included.
    pub fn used(&self) -> u16 {
        self.owned.iter().filter(|&&owned| owned).count() as u16
    }

    /// How many are in time-wait at `now`.
    pub fn waiting(&self, now: Duration) -> u16 {
        self.free.iter().filter(|&&(_, ready)| ready > now).count() as u16
    }

    /// Adds `count` slots at the end. They are used before any that had an owner.
    pub fn extend(&mut self, count: u16) {
        for slot in (self.total()..self.total() + count).rev() {
            self.free.push_front((slot, Duration::ZERO));
        }
        self.owned.resize(self.owned.len() + usize::from(count), false);
    }

    /// The slots that nobody owns.
    pub fn free(&self) -> impl Iterator<Item = u16> {
        self.free.iter().map(|&(slot, _)| slot)
    }

    /// How many slots [`Slots::take`] could give at `now`.
    pub fn ready(&self, now: Duration) -> usize {
        self.free.iter().filter(|&&(_, ready)| ready <= now).count()
    }

    /// Gives the longest unused slot whose time-wait is over.
    pub fn take(&mut self, now: Duration) -> Option<u16> {
        let place = self.free.iter().position(|&(_, ready)| ready <= now)?;
        let (slot, _) = self.free.remove(place).expect("the place was just found");
        self.owned[usize::from(slot)] = true;
        Some(slot)
    }

    /// Takes this very slot, whatever its time-wait: its owner has come back. False if it does
    /// not exist or is owned.
    pub fn claim(&mut self, slot: u16) -> bool {
        let Some(place) = self.free.iter().position(|&(free, _)| free == slot) else {
            return false;
        };
        self.free.remove(place);
        self.owned[usize::from(slot)] = true;
        true
    }

    /// Takes back an owned slot, which rests from `now` on.
    pub fn release(&mut self, slot: u16, now: Duration) {
        let owned = self.owned.get_mut(usize::from(slot));
        let was_owned = owned.map(|owned| core::mem::replace(owned, false));
        assert!(slot != 0 && was_owned == Some(true), "only owners release slots");
        self.free.push_back((slot, now + TIME_WAIT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn slots_start_at_random_and_come_back_oldest_first_after_time_wait() {
        let mut slots = Slots::new(5, 6);
        let order: Vec<_> = core::iter::from_fn(|| slots.take(at(0))).collect();
        assert_eq!(order, [3, 4, 1, 2]);
        assert_eq!(slots.used(), 5);
        slots.release(4, at(10));
        slots.release(2, at(20));
        assert_eq!((slots.take(at(2009)), slots.waiting(at(2009))), (None, 2));
        assert_eq!((slots.ready(at(2010)), slots.waiting(at(2010))), (1, 1));
        assert_eq!(slots.take(at(5000)), Some(4));
        assert_eq!(slots.take(at(5000)), Some(2));
        assert_eq!(slots.take(at(5000)), None);
    }

    #[test]
    fn slots_that_are_added_come_before_used_ones() {
        let mut slots = Slots::new(2, 0);
        assert_eq!(slots.take(at(0)), Some(1));
        slots.release(1, at(0));
        slots.extend(2);
        assert_eq!(slots.total(), 4);
        let order: Vec<_> = core::iter::from_fn(|| slots.take(at(9000))).collect();
        assert_eq!(order, [2, 3, 1]);
    }

    #[test]
    fn an_owner_that_comes_back_claims_its_slot_once() {
        let mut slots = Slots::new(4, 0);
        assert!(slots.claim(2));
        assert!(!slots.claim(2));
        assert!(!slots.claim(0));
        assert!(!slots.claim(4));
        let order: Vec<_> = core::iter::from_fn(|| slots.take(at(0))).collect();
        assert_eq!(order, [1, 3]);
    }

    #[test]
    fn a_group_of_one_slot_has_none_to_give() {
        assert_eq!(Slots::new(1, 7).take(at(0)), None);
    }
}
