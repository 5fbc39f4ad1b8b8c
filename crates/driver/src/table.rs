//! Which queue pair has which number.

use crate::facade::Facade;
use crate::port::Signal;
use crate::queue_pair::QueuePairHandle;
use converb_wire::Qpn;
use std::sync::Arc;

/// Queue pairs by number: the high 10 bits name a slot, the low 14 one of its queue pairs.
pub(crate) struct QueuePairTable<G: Signal, S: Facade> {
    slots: Vec<Slot<G, S>>,
}

struct Slot<G: Signal, S: Facade> {
    index: u16,
    queue_pairs: Vec<Option<Arc<QueuePairHandle<G, S>>>>,
    /// Where to look for a free number: so the one freed longest ago is used first.
    next: usize,
    used: usize,
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
        Self { slots: slots.collect() }
    }

    /// A number that is free, or `None` if all are used.
    pub(crate) fn free_number(&mut self) -> Option<Qpn> {
        let slot = self.slots.iter_mut().find(|slot| slot.used < SLOT_SIZE)?;
        if slot.queue_pairs.is_empty() {
            slot.queue_pairs.resize_with(SLOT_SIZE, || None);
        }
        while slot.queue_pairs[slot.next].is_some() {
            slot.next = (slot.next + 1) % SLOT_SIZE;
        }
        let number = u32::from(slot.index) << SLOT_BITS | slot.next as u32;
        slot.next = (slot.next + 1) % SLOT_SIZE;
        Some(Qpn::new(number))
    }

    /// Enters a queue pair under its number, which must be free.
    pub(crate) fn insert(&mut self, queue_pair: Arc<QueuePairHandle<G, S>>) {
        let (index, place) = Self::place(queue_pair.qpn);
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.index == index) {
            slot.queue_pairs[place] = Some(queue_pair);
            slot.used += 1;
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
    }

    /// The queue pair with this number.
    pub(crate) fn find(&self, qpn: Qpn) -> Option<&Arc<QueuePairHandle<G, S>>> {
        let (index, place) = Self::place(qpn);
        let slot = self.slots.iter().find(|slot| slot.index == index)?;
        slot.queue_pairs.get(place)?.as_ref()
    }

    /// All queue pairs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<QueuePairHandle<G, S>>> {
        self.slots.iter().flat_map(|slot| slot.queue_pairs.iter().flatten())
    }

    /// Whether the number lies in one of our slots.
    pub(crate) fn is_ours(&self, qpn: Qpn) -> bool {
        self.slots.iter().any(|slot| slot.index == Self::place(qpn).0)
    }

    /// How many queue pairs there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().map(|slot| slot.used).sum()
    }

    fn place(qpn: Qpn) -> (u16, usize) {
        ((qpn.value() >> SLOT_BITS) as u16, qpn.value() as usize % SLOT_SIZE)
    }
}
