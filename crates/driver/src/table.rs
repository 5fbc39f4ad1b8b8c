//! Which queue pair has which number.

use crate::facade::Facade;
use crate::port::Signal;
use crate::queue_pair::QueuePairHandle;
use converb_wire::Qpn;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Queue pairs by number: the high 10 bits name a slot, the low 14 one of its queue pairs.
pub(crate) struct QueuePairTable<G: Signal, S: Facade> {
    slots: Vec<Slot<G, S>>,
    /// Those with numbers of other slots, which have come over from another process.
    adopted: BTreeMap<u32, Arc<QueuePairHandle<G, S>>>,
    /// Numbers that have ever been among those. What comes for them comes from their slot's owner,
    /// and must not go back there.
    once_adopted: BTreeSet<u32>,
    /// Numbers whose queue pairs have gone over to others: to which slot, and which owner of that.
    moved: BTreeMap<u32, (u16, u64)>,
}

struct Slot<G: Signal, S: Facade> {
    index: u16,
    queue_pairs: Vec<Option<Arc<QueuePairHandle<G, S>>>>,
    /// Where to look for a free number: so the one freed longest ago is used first.
    next: usize,
    used: usize,
}

impl<G: Signal, S: Facade> Slot<G, S> {
    /// Not before there is a queue pair, for it is a page or two.
    fn make_room(&mut self) {
        if self.queue_pairs.is_empty() {
            self.queue_pairs.resize_with(SLOT_SIZE, || None);
        }
    }
}

const SLOT_BITS: u32 = 14;
const SLOT_SIZE: usize = 1 << SLOT_BITS;

impl<G: Signal, S: Facade> QueuePairTable<G, S> {
    /// A table for these slots, whose numbers are used from a place that `random` chooses.
    pub(crate) fn new(slots: &[u16], random: u64) -> Self {
        let slots = slots.iter().map(|&index| Slot {
            index,
            queue_pairs: Vec::new(),
            next: random as usize % SLOT_SIZE,
            used: 0,
        });
        Self {
            slots: slots.collect(),
            adopted: BTreeMap::new(),
            once_adopted: BTreeSet::new(),
            moved: BTreeMap::new(),
        }
    }

    /// A number that is free, or `None` if all are used.
    pub(crate) fn free_number(&mut self) -> Option<Qpn> {
        let slot = self.slots.iter_mut().find(|slot| slot.used < SLOT_SIZE)?;
        slot.make_room();
        let number = |next: usize| u32::from(slot.index) << SLOT_BITS | next as u32;
        while slot.queue_pairs[slot.next].is_some() || self.moved.contains_key(&number(slot.next)) {
            slot.next = (slot.next + 1) % SLOT_SIZE;
        }
        let number = number(slot.next);
        slot.next = (slot.next + 1) % SLOT_SIZE;
        Some(Qpn::new(number))
    }

    /// Enters a queue pair under its number, which must be free.
    pub(crate) fn insert(&mut self, queue_pair: Arc<QueuePairHandle<G, S>>) {
        let (index, place) = Self::place(queue_pair.qpn);
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.index == index) {
            slot.make_room();
            slot.queue_pairs[place] = Some(queue_pair);
            slot.used += 1;
        } else {
            self.once_adopted.insert(queue_pair.qpn.value());
            self.adopted.insert(queue_pair.qpn.value(), queue_pair);
        }
    }

    /// Removes a queue pair.
    pub(crate) fn remove(&mut self, qpn: Qpn) {
        let (index, place) = Self::place(qpn);
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.index == index)
            && slot.queue_pairs.get_mut(place).and_then(Option::take).is_some()
        {
            slot.used -= 1;
        }
        self.adopted.remove(&qpn.value());
    }

    /// The queue pair with this number.
    pub(crate) fn find(&self, qpn: Qpn) -> Option<&Arc<QueuePairHandle<G, S>>> {
        let (index, place) = Self::place(qpn);
        match self.slots.iter().find(|slot| slot.index == index) {
            Some(slot) => slot.queue_pairs.get(place)?.as_ref(),
            None => self.adopted.get(&qpn.value()),
        }
    }

    /// All queue pairs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<QueuePairHandle<G, S>>> {
        let own = self.slots.iter().flat_map(|slot| slot.queue_pairs.iter().flatten());
        own.chain(self.adopted.values())
    }

    /// The slot of another process that a number which is not here belongs to, if it is known.
    pub(crate) fn elsewhere(&self, qpn: Qpn) -> Option<u16> {
        if let Some(&(slot, _)) = self.moved.get(&qpn.value()) {
            return Some(slot);
        }
        let (index, _) = Self::place(qpn);
        let ends_here = self.slots.iter().any(|slot| slot.index == index)
            || self.once_adopted.contains(&qpn.value());
        (!ends_here).then_some(index)
    }

    /// A number of ours, which was just removed, goes over to a process with that slot.
    pub(crate) fn move_on(&mut self, qpn: Qpn, slot: u16, generation: u64) {
        self.moved.insert(qpn.value(), (slot, generation));
    }

    /// Where a number has gone over to, if it has.
    pub(crate) fn moved(&self, qpn: Qpn) -> Option<(u16, u64)> {
        self.moved.get(&qpn.value()).copied()
    }

    /// Whether numbers have gone over to others.
    pub(crate) fn has_moved(&self) -> bool {
        !self.moved.is_empty()
    }

    /// Takes numbers back.
    pub(crate) fn forget_moved(&mut self, is_gone: impl Fn(u16, u64) -> bool) {
        self.moved.retain(|_, &mut (slot, generation)| !is_gone(slot, generation));
    }

    /// Takes one back.
    pub(crate) fn forget_moved_number(&mut self, qpn: Qpn) {
        self.moved.remove(&qpn.value());
    }

    /// How many queue pairs there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().map(|slot| slot.used).sum::<usize>() + self.adopted.len()
    }

    fn place(qpn: Qpn) -> (u16, usize) {
        ((qpn.value() >> SLOT_BITS) as u16, qpn.value() as usize % SLOT_SIZE)
    }
}
