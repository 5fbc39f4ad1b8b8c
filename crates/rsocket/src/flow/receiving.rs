//! What has been received, and what the peer is to be told of it.

use super::{Pieces, pieces};
use std::collections::VecDeque;

/// A receive buffer, of which the peer has been told one half at a time.
#[derive(Debug)]
pub struct Receiving {
    size: usize,
    /// Where the oldest byte is that nobody has read, and how many there are.
    position: usize,
    unread: usize,
    /// The messages that they came with; of the first one, what is left.
    messages: VecDeque<u32>,
    /// How many bytes the peer has been told of and not filled.
    told: usize,
    /// How many have been read since they were filled, and where those begin.
    free: usize,
    free_position: usize,
    /// How many messages may wait.
    queue: u16,
    /// How many were read, and at how many the peer is told so.
    read: u16,
    tell_at: u16,
}

/// The peer has written more than it was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation;

/// What the peer is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Up to which number it may send messages.
    pub limit: u16,
    /// The half that is free again, if one is.
    pub half: Option<core::ops::Range<usize>>,
}

impl Receiving {
    /// With a buffer of `size` bytes, an even number, of which the peer has been told the first half;
    /// and with room for `queue` messages.
    pub fn new(size: usize, queue: u16) -> Self {
        let half = size / 2;
        Self {
            size: half * 2,
            position: 0,
            unread: 0,
            messages: VecDeque::new(),
            told: half,
            free: half,
            free_position: half,
            queue,
            read: 0,
            tell_at: queue / 2,
        }
    }

    fn half(&self) -> usize {
        self.size / 2
    }

    /// A message with data has come.
    ///
    /// # Errors
    /// When the peer had no right to send it.
    pub fn arrived(&mut self, bytes: u32) -> Result<(), Violation> {
        let length = bytes as usize;
        if length > self.told || self.messages.len() >= self.queue.into() {
            return Err(Violation);
        }
        self.told -= length;
        self.unread += length;
        match bytes {
            0 => self.read = self.read.wrapping_add(1),
            _ => self.messages.push_back(bytes),
        }
        Ok(())
    }

    /// A message came that takes a credit and no room.
    pub fn arrived_empty(&mut self) {
        self.read = self.read.wrapping_add(1);
    }

    /// How many bytes wait to be read.
    pub fn unread(&self) -> usize {
        self.unread
    }

    /// Where up to `most` of them are.
    pub fn oldest(&self, most: usize) -> Pieces {
        pieces(self.position, most.min(self.unread), self.size)
    }

    /// So many bytes have been read.
    ///
    /// # Panics
    /// For more than there are.
    pub fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.unread, "what is read has come");
        self.unread -= bytes;
        self.free += bytes;
        self.position = (self.position + bytes) % self.size;
        let mut left = bytes as u32;
        while left > 0 {
            let first = self.messages.front_mut().expect("bytes come with messages");
            let part = left.min(*first);
            *first -= part;
            left -= part;
            if *first == 0 {
                self.messages.pop_front();
                self.read = self.read.wrapping_add(1);
            }
        }
    }

    /// What the peer is to be told now; whoever asks tells it.
    pub fn grant(&mut self) -> Option<Grant> {
        let has_half = self.free >= self.half();
        if !has_half && (self.read.wrapping_sub(self.tell_at) as i16) < 0 {
            return None;
        }
        self.tell_at = self.read.wrapping_add(self.queue / 2);
        let half = has_half.then(|| {
            let half = self.free_position..self.free_position + self.half();
            self.free -= self.half();
            self.free_position = half.end % self.size;
            self.told += self.half();
            half
        });
        Some(Grant { limit: self.read.wrapping_add(self.queue), half })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Sending;
    use crate::protocol::Span;
    use proptest::prelude::*;

    #[test]
    fn the_second_half_is_told_at_once_and_the_first_when_it_is_read() {
        let mut receiving = Receiving::new(1000, 384);
        assert_eq!(receiving.grant(), Some(Grant { limit: 384, half: Some(500..1000) }));
        assert_eq!(receiving.grant(), None);
        receiving.arrived(400).unwrap();
        receiving.arrived(100).unwrap();
        receiving.arrived(200).unwrap();
        assert_eq!(receiving.oldest(1000), [0..700, 0..0]);
        receiving.consume(450);
        assert_eq!(receiving.grant(), None);
        receiving.consume(50);
        assert_eq!(receiving.grant(), Some(Grant { limit: 386, half: Some(0..500) }));
        receiving.arrived(300).unwrap();
        receiving.arrived(500).unwrap();
        assert_eq!(receiving.oldest(1000), [500..1000, 0..500]);
        assert_eq!(receiving.arrived(1), Err(Violation), "it has not been told of more");
    }

    #[test]
    fn credits_are_told_when_half_of_them_are_used() {
        let mut receiving = Receiving::new(1 << 20, 4);
        receiving.grant();
        for _ in 0..4 {
            receiving.arrived(1).unwrap();
        }
        assert_eq!(receiving.arrived(1), Err(Violation), "more messages than credits");
        receiving.consume(1);
        assert_eq!(receiving.grant(), None);
        receiving.consume(1);
        assert_eq!(receiving.grant(), Some(Grant { limit: 6, half: None }));
    }

    proptest! {
        /// Whatever is written and read: the bytes come in order, and neither end waits for ever.
        #[test]
        fn two_ends_never_disagree(
            size in 1usize..5_000, staging in 1usize..5_000, queue in 2u16..20,
            steps in prop::collection::vec((any::<bool>(), 1usize..6_000), 1..300),
        ) {
            let size = size * 2;
            let mut receiving = Receiving::new(size, queue);
            let first = Span { address: 0, key: 0, length: (size / 2) as u32 };
            let mut sending = Sending::new(staging, 8, queue, first);
            let (mut written, mut read) = (0u64, 0u64);
            let mut memory = vec![0u8; size];
            let tell = |receiving: &mut Receiving, sending: &mut Sending| {
                while let Some(grant) = receiving.grant() {
                    sending.grant(grant.limit);
                    if let Some(half) = grant.half {
                        let span = Span { address: half.start as u64, key: 0, length: half.len() as u32 };
                        sending.offer(span);
                    }
                }
            };
            tell(&mut receiving, &mut sending);
            for (is_write, bytes) in steps {
                if is_write && sending.room() > 0 {
                    let reserved = sending.reserve(bytes.min(sending.room()));
                    for place in 0..reserved.to.length as usize {
                        memory[reserved.to.address as usize + place] = written as u8;
                        written += 1;
                    }
                    prop_assert_eq!(receiving.arrived(reserved.to.length), Ok(()));
                    sending.complete(reserved.to.length as usize);
                } else if !is_write {
                    let ranges = receiving.oldest(bytes);
                    let bytes: usize = ranges.iter().map(|range| range.len()).sum();
                    for place in ranges.into_iter().flatten() {
                        prop_assert_eq!(memory[place], read as u8);
                        read += 1;
                    }
                    receiving.consume(bytes);
                    tell(&mut receiving, &mut sending);
                }
                prop_assert_eq!(receiving.unread() as u64, written - read);
                prop_assert!(receiving.unread() > 0 || sending.room() > 0, "both wait");
            }
        }
    }
}
