//! Faults of packets that come in.

use super::departing::damage;
use crate::counters::Counters;
use crate::fault::{Decision, Dice, Held, Rates};
use crate::udp::relay::Relayed;
use converb_driver::Received;
use converb_engine::Address;
use converb_wire::Bth;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// What is between the network and the driver.
pub(crate) struct ArrivingFaults {
    dice: Dice,
    held: Held<Box<Arrived>>,
    /// When something comes in next; others look at it.
    due: Arc<AtomicU64>,
}

struct Arrived {
    source: Address,
    local: Address,
    traffic_class: u8,
    hop_limit: u8,
    bytes: Vec<u8>,
}

impl ArrivingFaults {
    pub(crate) fn new(rates: Rates, seed: u64, due: Arc<AtomicU64>) -> Self {
        // The other direction's decisions are other ones.
        Self { dice: Dice::new(rates, !seed), held: Held::new(), due }
    }

    /// Decides about a packet as it came (BTH to invariant CRC), and damages it.
    pub(crate) fn meet(&mut self, packet: &mut [u8], counters: &Counters) -> Decision {
        let Some((bth, _)) = Bth::parse(packet) else { return Decision::default() };
        let decision = self.dice.decide(bth.destination);
        if !decision.is_dropped
            && let Some(bit) = decision.damaged_bit
        {
            damage(packet, bit);
            counters.fault_corrupted.add(1);
        }
        decision
    }

    /// Whether a packet that passed its checks comes in now. If not it has been dealt with.
    pub(crate) fn lets_in(
        &mut self,
        decision: &Decision,
        packet: &Received<'_>,
        now: u64,
        counters: &Counters,
    ) -> bool {
        if decision.is_dropped {
            counters.fault_dropped.add(1);
            return false;
        }
        decision.count(counters);
        if *decision == Decision::default() && self.held.due() > now {
            // It may be the one that overtakes others, though: those come after it.
            self.held.overtake(now);
            self.publish();
            return true;
        }
        for _ in 0..decision.copies() {
            let arrived = Box::new(Arrived {
                source: packet.source,
                local: packet.local,
                traffic_class: packet.traffic_class,
                hop_limit: packet.hop_limit,
                bytes: packet.bytes.to_vec(),
            });
            if !self.held.put(decision, now, packet.bytes.len(), arrived) {
                counters.fault_overflow.add(1);
            }
        }
        self.publish();
        false
    }

    /// Lets those in that are due, as far as there is room.
    pub(crate) fn release(&mut self, now: u64, into: &mut Relayed) {
        while let Some(arrived) = self.held.take(now) {
            let length = arrived.bytes.len();
            let Some(room) = into.begin(length) else {
                self.held.put_back(arrived);
                break;
            };
            room.copy_from_slice(&arrived.bytes);
            let like = Received {
                source: arrived.source,
                local: arrived.local,
                traffic_class: arrived.traffic_class,
                hop_limit: arrived.hop_limit,
                bytes: &[],
            };
            into.finish(length, &like);
        }
        self.publish();
    }

    fn publish(&self) {
        let due = if self.held.is_stuck() { 0 } else { self.held.due() };
        self.due.store(due, Ordering::Release);
    }
}
