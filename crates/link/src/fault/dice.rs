//! What happens to each packet of one direction.

use super::specification::Rates;
use crate::counters::Counters;
use converb_wire::Qpn;
use core::time::Duration;
use std::collections::HashMap;

/// Decides by seed. A packet is known by the queue pair it is for, in the order in which those
/// were first met, and its number among the packets for that queue pair: queue pair numbers and
/// first PSNs are random, and threads take turns at random, so that nothing else would be the same
/// the next time.
pub(crate) struct Dice {
    rates: Rates,
    seed: u64,
    flows: HashMap<u32, Flow>,
}

#[derive(Clone, Copy)]
struct Flow {
    order: u64,
    packets: u64,
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) is_dropped: bool,
    pub(crate) is_doubled: bool,
    /// Which bit is damaged, to be taken modulo their number.
    pub(crate) damaged_bit: Option<u32>,
    /// How many packets overtake it.
    pub(crate) overtakers: Option<u8>,
    pub(crate) delay: Duration,
}

impl Decision {
    /// Counts what happens to a packet that gets through.
    pub(crate) fn count(&self, counters: &Counters) {
        counters.fault_reordered.add(u64::from(self.overtakers.is_some()));
        counters.fault_delayed.add(u64::from(!self.delay.is_zero()));
        counters.fault_duplicated.add(u64::from(self.is_doubled));
    }

    /// How often it gets through.
    pub(crate) fn copies(&self) -> u8 {
        1 + u8::from(self.is_doubled)
    }
}

impl Dice {
    pub(crate) fn new(rates: Rates, seed: u64) -> Self {
        Self { rates, seed, flows: HashMap::new() }
    }

    /// Decides what happens to the next packet for this queue pair.
    pub(crate) fn decide(&mut self, destination: Qpn) -> Decision {
        let flow = {
            // Who sends packets for all numbers does not get memory for each.
            let key = destination.value();
            let is_known = self.flows.len() < FLOWS_MAX || self.flows.contains_key(&key);
            let order = self.flows.len() as u64;
            let key = if is_known { key } else { u32::MAX };
            self.flows.entry(key).or_insert(Flow { order, packets: 0 })
        };
        let state = mix(self.seed ^ mix(flow.order ^ mix(flow.packets)));
        flow.packets += 1;
        let random = |what: u64| mix(state ^ mix(what)) as u32;
        let rates = &self.rates;
        Decision {
            is_dropped: rates.drop.meets(random(1)),
            is_doubled: rates.duplicate.meets(random(2)),
            damaged_bit: rates.corrupt.meets(random(3)).then(|| random(4)),
            overtakers: rates.reorder.meets(random(5)).then(|| 1 + (random(6) % OVERTAKERS) as u8),
            delay: rates.delay.map_or(Duration::ZERO, |delay| {
                let share = f64::from(random(7)) / f64::from(u32::MAX);
                delay.least + (delay.most - delay.least).mul_f64(share)
            }),
        }
    }
}

/// Spreads the bits of a number (the finalizer of Steele's SplitMix64).
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// At most so many packets overtake another.
const OVERTAKERS: u32 = 4;
const FLOWS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Faults;

    fn dice(text: &str) -> Dice {
        let faults: Faults = text.parse().unwrap();
        Dice::new(faults.send, faults.seed)
    }

    fn qpn(value: u32) -> Qpn {
        Qpn::new(value)
    }

    #[test]
    fn a_seed_decides_the_same_whatever_the_numbers_and_turns_are() {
        let text = "drop=10%,dup=10%,corrupt=10%,reorder=10%,delay=1us..1ms,seed=7";
        let (mut one, mut other) = (dice(text), dice(text));
        one.decide(qpn(10));
        other.decide(qpn(99));
        let first: Vec<_> = (0..100).map(|_| one.decide(qpn(20))).collect();
        let mut second = Vec::new();
        for index in 0..200 {
            if index % 2 == 0 {
                second.push(other.decide(qpn(30)));
            } else {
                other.decide(qpn(99));
            }
        }
        assert_eq!(first, second);
        let mut third = dice(&text.replace("seed=7", "seed=8"));
        third.decide(qpn(10));
        assert_ne!(first, (0..100).map(|_| third.decide(qpn(20))).collect::<Vec<_>>());
    }

    #[test]
    fn rates_are_kept() {
        let mut dice = dice("drop=1%,dup=50%,corrupt=100%,reorder=0%,delay=2ms,seed=1");
        let decisions: Vec<_> = (0..100_000).map(|_| dice.decide(qpn(1))).collect();
        let count = |holds: fn(&Decision) -> bool| decisions.iter().filter(|d| holds(d)).count();
        assert!((850..1150).contains(&count(|decision| decision.is_dropped)));
        assert!((49_000..51_000).contains(&count(|decision| decision.is_doubled)));
        assert_eq!(count(|decision| decision.damaged_bit.is_some()), 100_000);
        assert_eq!(count(|decision| decision.overtakers.is_some()), 0);
        assert_eq!(count(|decision| decision.delay == Duration::from_millis(2)), 100_000);
    }

    #[test]
    fn memory_is_bounded() {
        let mut dice = dice("drop=1%");
        for value in 0..2 * FLOWS_MAX as u32 {
            dice.decide(qpn(value));
        }
        assert_eq!(dice.flows.len(), FLOWS_MAX + 1);
    }
}
