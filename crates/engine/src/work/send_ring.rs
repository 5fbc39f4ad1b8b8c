//! The ring of send work requests: all memory taken at creation, slots used in turn.

use super::request::{
    DatagramDestination, Operation, Payload, PostError, ScatterGather, SendFlags, SendRequest,
};

/// A send work request as a ring holds it; its bytes or scatter-gather entries are beside it.
#[derive(Clone, Copy, Debug)]
pub struct SendWork {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub operation: Operation,
    /// How.
    pub flags: SendFlags,
    /// Bytes of the whole message.
    pub length: u32,
    /// Whether the bytes were copied while posting.
    pub inline: bool,
    /// Where a datagram goes.
    pub destination: Option<DatagramDestination>,
    entries: u16,
}

/// The longest message (IBA 9.7.7.1.1: 2^31 bytes).
pub const MESSAGE_BYTES_MAX: u64 = 1 << 31;

/// A ring of send work requests, numbered from 0 in the order they were posted.
#[derive(Debug)]
pub struct SendRing {
    works: Vec<SendWork>,
    entries: Vec<ScatterGather>,
    inline: Vec<u8>,
    entries_max: usize,
    inline_max: usize,
    first: u64,
    end: u64,
}

impl SendRing {
    /// A ring of `capacity` requests with up to `entries_max` scatter-gather entries or
    /// `inline_max` inline bytes each.
    pub fn new(capacity: usize, entries_max: usize, inline_max: usize) -> Self {
        let unused = SendWork {
            wr_id: 0,
            operation: Operation::Send,
            flags: SendFlags::default(),
            length: 0,
            inline: false,
            destination: None,
            entries: 0,
        };
        Self {
            works: vec![unused; capacity],
            entries: vec![ScatterGather::default(); capacity * entries_max],
            inline: vec![0; capacity * inline_max],
            entries_max,
            inline_max,
            first: 0,
            end: 0,
        }
    }

    /// How many requests fit.
    pub fn capacity(&self) -> usize {
        self.works.len()
    }

    /// How many requests it holds.
    pub fn len(&self) -> usize {
        usize::try_from(self.end - self.first).unwrap_or(usize::MAX)
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// The number of the oldest request.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// One past the number of the youngest.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Checks a request against the limits of this ring; returns the message's length.
    ///
    /// # Errors
    /// As [`PostError`] says, but for a full queue.
    pub fn check(&self, request: &SendRequest<'_>) -> Result<u32, PostError> {
        let length = match request.payload {
            Payload::Gather(entries) => {
                if entries.len() > self.entries_max {
                    return Err(PostError::TooManyEntries);
                }
                entries.iter().map(|entry| u64::from(entry.length)).sum::<u64>()
            }
            Payload::Inline(pieces) => {
                if request.operation.returns_data() {
                    return Err(PostError::WrongOperation);
                }
                let length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
                if length > self.inline_max {
                    return Err(PostError::InlineTooLong);
                }
                length as u64
            }
        };
        if length > MESSAGE_BYTES_MAX {
            return Err(PostError::BadLength);
        }
        let atomic = matches!(
            request.operation,
            Operation::CompareAndSwap { .. } | Operation::FetchAndAdd { .. }
        );
        if atomic && length != 8 {
            return Err(PostError::BadLength);
        }
        u32::try_from(length).map_err(|_| PostError::BadLength)
    }

    /// Adds a request at the end.
    ///
    /// # Errors
    /// As [`PostError`] says; nothing was added then.
    pub fn push(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let length = self.check(request)?;
        if self.len() == self.capacity() {
            return Err(PostError::QueueFull);
        }
        let slot = self.slot(self.end);
        let mut work = SendWork {
            wr_id: request.wr_id,
            operation: request.operation,
            flags: request.flags,
            length,
            inline: false,
            destination: request.destination,
            entries: 0,
        };
        match request.payload {
            Payload::Gather(entries) => {
                let start = slot * self.entries_max;
                self.entries[start..start + entries.len()].copy_from_slice(entries);
                work.entries = entries.len() as u16;
            }
            Payload::Inline(pieces) => {
                work.inline = true;
                let mut at = slot * self.inline_max;
                for piece in pieces {
                    self.inline[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                }
            }
        }
        self.works[slot] = work;
        self.end += 1;
        Ok(())
    }

    /// Moves requests, oldest first, to the end of `other` until this ring is empty or that one
    /// full; returns how many. `other` must have been made with the same limits.
    pub fn move_to(&mut self, other: &mut Self) -> usize {
        let count = self.len().min(other.capacity() - other.len());
        for _ in 0..count {
            let (from, to) = (self.slot(self.first), other.slot(other.end));
            let work = self.works[from];
            other.works[to] = work;
            if work.inline {
                let (from, to) = (from * self.inline_max, to * other.inline_max);
                let length = work.length as usize;
                other.inline[to..to + length].copy_from_slice(&self.inline[from..from + length]);
            } else {
                let (from, to) = (from * self.entries_max, to * other.entries_max);
                let entries = usize::from(work.entries);
                other.entries[to..to + entries]
                    .copy_from_slice(&self.entries[from..from + entries]);
            }
            self.first += 1;
            other.end += 1;
        }
        count
    }

    /// The request with this number, which must be in the ring.
    pub fn work(&self, number: u64) -> &SendWork {
        debug_assert!((self.first..self.end).contains(&number));
        &self.works[self.slot(number)]
    }

    /// The scatter-gather entries of a request.
    pub fn entries(&self, number: u64) -> &[ScatterGather] {
        let slot = self.slot(number);
        let start = slot * self.entries_max;
        &self.entries[start..start + usize::from(self.works[slot].entries)]
    }

    /// The inline bytes of a request.
    pub fn inline_bytes(&self, number: u64) -> &[u8] {
        let slot = self.slot(number);
        let start = slot * self.inline_max;
        &self.inline[start..start + self.works[slot].length as usize]
    }

    /// The slot that a request uses: its number modulo the capacity.
    pub fn slot(&self, number: u64) -> usize {
        (number % self.works.len().max(1) as u64) as usize
    }

    /// Removes the oldest request.
    pub fn pop(&mut self) {
        debug_assert!(!self.is_empty());
        self.first += 1;
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.first = self.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(wr_id: u64, payload: Payload<'a>) -> SendRequest<'a> {
        let (operation, flags) = (Operation::Send, SendFlags::default());
        SendRequest { wr_id, operation, flags, payload, destination: None }
    }

    #[test]
    fn a_full_ring_takes_no_more_and_moving_makes_room() {
        let mut posted = SendRing::new(2, 1, 8);
        let mut taken = SendRing::new(2, 1, 8);
        let bytes: &[&[u8]] = &[b"ab", b"cd"];
        posted.push(&request(1, Payload::Inline(bytes))).unwrap();
        let entry = [ScatterGather { address: 7, length: 9, lkey: 3 }];
        posted.push(&request(2, Payload::Gather(&entry))).unwrap();
        assert_eq!(posted.push(&request(3, Payload::Gather(&[]))), Err(PostError::QueueFull));
        assert_eq!(posted.move_to(&mut taken), 2);
        assert_eq!(taken.inline_bytes(0), b"abcd");
        assert_eq!(taken.entries(1), entry);
        assert_eq!(taken.work(1).length, 9);
        posted.push(&request(3, Payload::Gather(&[]))).unwrap();
        assert_eq!(posted.move_to(&mut taken), 0);
        taken.pop();
        assert_eq!(posted.move_to(&mut taken), 1);
        assert_eq!(taken.work(2).wr_id, 3);
    }

    #[test]
    fn limits_are_refused_with_their_own_error() {
        let mut ring = SendRing::new(4, 1, 4);
        let long: &[&[u8]] = &[b"12345"];
        assert_eq!(ring.push(&request(1, Payload::Inline(long))), Err(PostError::InlineTooLong));
        let two = [ScatterGather::default(); 2];
        assert_eq!(ring.push(&request(1, Payload::Gather(&two))), Err(PostError::TooManyEntries));
        let huge = [ScatterGather { address: 0, length: u32::MAX, lkey: 0 }];
        assert_eq!(ring.push(&request(1, Payload::Gather(&huge))), Err(PostError::BadLength));
        assert!(ring.is_empty());
    }
}
