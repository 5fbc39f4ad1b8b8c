//! The network between the nodes: it drops, duplicates, reorders, delays and corrupts.

use crate::dice::Dice;
use std::collections::BTreeMap;

/// A packet on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The address of the node that sent it.
    pub source: u16,
    /// The address of the node it goes to.
    pub destination: u16,
    /// The IP traffic class.
    pub traffic_class: u8,
    /// The IP time to live.
    pub hop_limit: u8,
    /// The transport packet.
    pub bytes: Vec<u8>,
    /// What the link's invariant CRC is on a real network.
    pub checksum: u64,
}

impl Frame {
    /// Computes the checksum.
    pub fn seal(&mut self) {
        self.checksum = self.sum();
    }

    /// Whether the bytes are those that were sealed.
    pub fn is_intact(&self) -> bool {
        self.checksum == self.sum()
    }

    // FNV over words; any flipped bit changes it.
    fn sum(&self) -> u64 {
        let words = self.bytes.chunks(8).map(|piece| {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            u64::from_le_bytes(word)
        });
        let start = 0xcbf2_9ce4_8422_2325 ^ self.bytes.len() as u64;
        words.fold(start, |sum, word| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3))
    }

    /// What its losses are counted by: the receiving queue pair.
    fn flow(&self) -> (u16, [u8; 3]) {
        let number = self.bytes.get(5..8).and_then(|bytes| bytes.try_into().ok());
        (self.destination, number.unwrap_or_default())
    }
}

/// What a network does to packets; the odds are in a thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Lost.
    pub loss: u32,
    /// Delivered twice.
    pub duplicate: u32,
    /// Delivered with one bit flipped.
    pub corrupt: u32,
    /// Overtaken by others.
    pub reorder: u32,
    /// Nanoseconds that every packet takes at least.
    pub delay: u64,
    /// Nanoseconds on top of it, at most.
    pub jitter: u64,
    /// Nanoseconds on top of it, at most, for those that are overtaken or duplicated.
    pub late: u64,
    /// No more packets to one queue pair than this are lost one after the other, so that a peer
    /// with many retries always succeeds.
    pub losses_in_a_row: u32,
    /// From this time on nothing is delivered.
    pub black_from: Option<u64>,
    /// How often a node's send buffer is found full.
    pub full: u32,
}

impl Weather {
    /// The same delays without anything that is lost, doubled, overtaken or spoilt.
    pub fn made_fair(&self) -> Self {
        Self {
            delay: self.delay,
            jitter: self.jitter,
            late: self.late,
            losses_in_a_row: self.losses_in_a_row,
            full: self.full,
            ..Self::default()
        }
    }

    /// Whether packets come in the order they were sent, each once.
    pub fn is_fair(&self) -> bool {
        *self == self.made_fair()
    }
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is lost.
    Lost,
    /// It arrives, at this time, perhaps with a bit flipped.
    Arrives {
        /// When.
        at: u64,
        /// Which bit is wrong.
        flipped: Option<usize>,
        /// It arrives a second time, then.
        again: Option<u64>,
    },
}

/// The state of the network.
#[derive(Debug)]
pub struct Network {
    weather: Weather,
    dice: Dice,
    losses: BTreeMap<(u16, [u8; 3]), u32>,
    last_arrival: BTreeMap<(u16, u16), u64>,
}

impl Network {
    /// A network with this weather.
    pub fn new(weather: Weather, dice: Dice) -> Self {
        Self { weather, dice, losses: BTreeMap::new(), last_arrival: BTreeMap::new() }
    }

    /// Decides about a packet that is sent now.
    pub fn decide(&mut self, frame: &Frame, now: u64) -> Fate {
        let weather = self.weather;
        if weather.black_from.is_some_and(|from| now >= from) {
            return Fate::Lost;
        }
        let lost = self.dice.chance(weather.loss);
        let corrupt = self.dice.chance(weather.corrupt);
        if (lost || corrupt) && !self.may_lose(frame) {
            return self.arrival(frame, now, None);
        }
        if lost {
            return Fate::Lost;
        }
        if corrupt {
            let bit = self.dice.below(frame.bytes.len() as u64 * 8) as usize;
            return self.arrival(frame, now, Some(bit));
        }
        self.losses.insert(frame.flow(), 0);
        self.arrival(frame, now, None)
    }

    /// Whether one more packet of this flow may be lost; if so it is counted.
    pub fn may_lose(&mut self, frame: &Frame) -> bool {
        let count = self.losses.entry(frame.flow()).or_default();
        if *count >= self.weather.losses_in_a_row {
            *count = 0;
            return false;
        }
        *count += 1;
        true
    }

    /// When a send buffer that was found full has room again; `None` if it is not full.
    pub fn full_until(&mut self, now: u64) -> Option<u64> {
        self.dice.chance(self.weather.full).then(|| now + self.dice.between(1_000, 200_000))
    }

    fn arrival(&mut self, frame: &Frame, now: u64, flipped: Option<usize>) -> Fate {
        let weather = self.weather;
        let mut at = now + weather.delay + self.dice.below(weather.jitter + 1);
        let last = self.last_arrival.entry((frame.source, frame.destination)).or_default();
        if self.dice.chance(weather.reorder) {
            at += self.dice.below(weather.late + 1);
        } else {
            at = at.max(*last);
            *last = at;
        }
        let twice = self.dice.chance(weather.duplicate);
        let again = twice.then(|| at + self.dice.below(weather.late + 1));
        Fate::Arrives { at, flipped, again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let mut frame = Frame {
            source: 1,
            destination: 2,
            traffic_class: 0,
            hop_limit: 64,
            bytes: vec![7; 20],
            checksum: 0,
        };
        frame.seal();
        frame
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for bit in 0..160 {
            let mut frame = frame();
            frame.bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!frame.is_intact(), "bit {bit}");
        }
        assert!(frame().is_intact());
    }

    #[test]
    fn losses_in_a_row_are_bounded() {
        let weather = Weather { loss: 1000, losses_in_a_row: 3, ..Weather::default() };
        let mut network = Network::new(weather, Dice::new(1));
        let lost: Vec<bool> = (0..8).map(|_| network.decide(&frame(), 0) == Fate::Lost).collect();
        assert_eq!(lost, [true, true, true, false, true, true, true, false]);
    }
}
