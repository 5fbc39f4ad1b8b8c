//! Faults of packets on their way out.

use crate::clock::now;
use crate::fault::{Dice, Held, NEVER, Rates};
use crate::udp::outgoing::{Departure, REFUSED, counter_of_refusal};
use crate::udp::run::Way;
use converb_wire::Bth;
use core::sync::atomic::{AtomicU64, Ordering};
use rustix::io::Errno;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is between a port's batches and the network.
pub(crate) struct DepartingFaults {
    state: Mutex<State>,
    /// When something has to be sent next.
    due: AtomicU64,
}

struct State {
    dice: Dice,
    held: Held<Box<Departing>>,
}

struct Departing {
    way: Way,
    bytes: Vec<u8>,
    is_damaged: bool,
}

impl DepartingFaults {
    pub(crate) fn new(rates: Rates, seed: u64) -> Self {
        let state = State { dice: Dice::new(rates, seed), held: Held::new() };
        Self { state: Mutex::new(state), due: AtomicU64::new(NEVER) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about a packet (BTH to invariant CRC), and keeps it till [`flush`](Self::flush).
    pub(crate) fn take(&self, way: &Way, packet: &[u8], departure: &Departure) {
        let counters = &departure.counters;
        let Some((bth, _)) = Bth::parse(packet) else { return };
        let mut state = self.lock();
        let decision = state.dice.decide(bth.destination);
        if decision.is_dropped {
            counters.fault_dropped.add(1);
            departure.record_one(way, 0, packet, Some(DROPPED));
            return;
        }
        decision.count(counters);
        let mut bytes = packet.to_vec();
        if let Some(bit) = decision.damaged_bit {
            damage(&mut bytes, bit);
            counters.fault_corrupted.add(1);
        }
        let now = now();
        for _ in 0..decision.copies() {
            let is_damaged = decision.damaged_bit.is_some();
            let departing = Box::new(Departing { way: *way, bytes: bytes.clone(), is_damaged });
            if !state.held.put(&decision, now, bytes.len(), departing) {
                counters.fault_overflow.add(1);
            }
        }
    }

    /// Sends what is due. Returns whether something has to be sent sooner than was known.
    pub(crate) fn flush(&self, departure: &Departure) -> bool {
        self.send_until(departure, now(), &mut self.lock())
    }

    /// The same, if it is time and nobody else is at it.
    pub(crate) fn flush_if_due(&self, departure: &Departure) {
        let now = now();
        if self.due() <= now
            && let Ok(mut state) = self.state.try_lock()
        {
            self.send_until(departure, now, &mut state);
        }
    }

    /// Sends what is held, due or not: there will be no other time.
    pub(crate) fn flush_all(&self, departure: &Departure) {
        if let Ok(mut state) = self.state.try_lock() {
            self.send_until(departure, NEVER - 1, &mut state);
        }
    }

    /// When the next packet is due, in nanoseconds of the monotonic clock.
    pub(crate) fn due(&self) -> u64 {
        self.due.load(Ordering::Acquire)
    }

    fn send_until(&self, departure: &Departure, until: u64, state: &mut State) -> bool {
        while let Some(departing) = state.held.take(until) {
            if send(&departing, departure) == Err(Errno::AGAIN) {
                departure.counters.send_full.add(1);
                state.held.put_back(departing);
                break;
            }
        }
        let due = if state.held.is_stuck() { now() + STUCK_FOR } else { state.held.due() };
        departure.recorder.flush();
        due < self.due.swap(due, Ordering::AcqRel)
    }
}

fn send(departing: &Departing, departure: &Departure) -> Result<(), Errno> {
    let result = departure.send_one(&departing.way, &departing.bytes);
    let comment = match result {
        Ok(()) => departing.is_damaged.then_some(DAMAGED),
        Err(_) => Some(REFUSED),
    };
    if result != Err(Errno::AGAIN) {
        departure.record_one(&departing.way, 0, &departing.bytes, comment);
    }
    match result {
        Ok(()) => {
            departure.counters.sent_packets.add(1);
            departure.counters.sent_bytes.add(departing.bytes.len() as u64);
        }
        Err(Errno::AGAIN) => (),
        Err(error) => counter_of_refusal(error, &departure.counters).add(1),
    }
    result
}

/// What is said of packets in a capture.
pub(crate) const DROPPED: &str = "dropped on purpose (--fault)";
pub(crate) const DAMAGED: &str = "damaged on purpose (--fault)";

/// Turns one bit of a packet round, past the BTH's masked byte, which no CRC covers.
pub(super) fn damage(packet: &mut [u8], bit: u32) {
    const MASKED_BYTE: usize = 4;
    let index = (bit / 8) as usize % packet.len();
    let index = if index == MASKED_BYTE { index + 1 } else { index };
    if let Some(byte) = packet.get_mut(index) {
        *byte ^= 1 << (bit % 8);
    }
}

/// When the network takes no more it is asked again so much later.
const STUCK_FOR: u64 = 100_000;
