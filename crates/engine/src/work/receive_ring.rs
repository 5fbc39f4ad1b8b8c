//! The ring of posted receives, of a queue pair or shared by several.

use super::request::{PostError, ReceiveRequest, ScatterGather};

/// A receive that was taken from the ring to be filled.
#[derive(Clone, Debug, Default)]
pub struct ReceiveWork {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where the data goes.
    pub scatter: Vec<ScatterGather>,
}

impl ReceiveWork {
    /// How many bytes fit.
    pub fn capacity(&self) -> u64 {
        self.scatter.iter().map(|entry| u64::from(entry.length)).sum()
    }
}

/// A ring of receives; its memory is taken at creation.
#[derive(Debug)]
pub struct ReceiveRing {
    works: Vec<(u64, u16)>,
    entries: Vec<ScatterGather>,
    entries_max: usize,
    first: u64,
    end: u64,
}

impl ReceiveRing {
    /// A ring of `capacity` receives with up to `entries_max` scatter-gather entries each.
    pub fn new(capacity: usize, entries_max: usize) -> Self {
        Self {
            works: vec![(0, 0); capacity],
            entries: vec![ScatterGather::default(); capacity * entries_max],
            entries_max,
            first: 0,
            end: 0,
        }
    }

    /// How many receives wait.
    pub fn len(&self) -> usize {
        usize::try_from(self.end - self.first).unwrap_or(usize::MAX)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// How many receives fit.
    pub fn capacity(&self) -> usize {
        self.works.len()
    }

    /// Adds a receive at the end.
    ///
    /// # Errors
    /// `QueueFull` or `TooManyEntries`; nothing was added then.
    pub fn push(&mut self, request: &ReceiveRequest<'_>) -> Result<(), PostError> {
        if request.scatter.len() > self.entries_max {
            return Err(PostError::TooManyEntries);
        }
        if self.len() == self.works.len() {
            return Err(PostError::QueueFull);
        }
        let slot = (self.end % self.works.len() as u64) as usize;
        let start = slot * self.entries_max;
        self.entries[start..start + request.scatter.len()].copy_from_slice(request.scatter);
        self.works[slot] = (request.wr_id, request.scatter.len() as u16);
        self.end += 1;
        Ok(())
    }

    /// Takes the oldest receive into `work`, whose memory is reused; false if there is none.
    pub fn take(&mut self, work: &mut ReceiveWork) -> bool {
        if self.is_empty() {
            return false;
        }
        let slot = (self.first % self.works.len() as u64) as usize;
        let (wr_id, entries) = self.works[slot];
        let start = slot * self.entries_max;
        work.wr_id = wr_id;
        work.scatter.clear();
        work.scatter.extend_from_slice(&self.entries[start..start + usize::from(entries)]);
        self.first += 1;
        true
    }

    /// Changes how many receives fit.
    ///
    /// # Errors
    /// `QueueFull` when more are posted than would fit.
    pub fn resize(&mut self, capacity: usize) -> Result<(), PostError> {
        if self.len() > capacity {
            return Err(PostError::QueueFull);
        }
        let mut larger = Self::new(capacity, self.entries_max);
        let mut work = ReceiveWork::default();
        while self.take(&mut work) {
            larger.push(&ReceiveRequest { wr_id: work.wr_id, scatter: &work.scatter })?;
        }
        *self = larger;
        Ok(())
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.first = self.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receives_come_back_in_the_order_they_were_posted() {
        let mut ring = ReceiveRing::new(2, 1);
        let entry = [ScatterGather { address: 5, length: 6, lkey: 7 }];
        ring.push(&ReceiveRequest { wr_id: 1, scatter: &entry }).unwrap();
        ring.push(&ReceiveRequest { wr_id: 2, scatter: &[] }).unwrap();
        assert_eq!(
            ring.push(&ReceiveRequest { wr_id: 3, scatter: &[] }),
            Err(PostError::QueueFull)
        );
        let mut work = ReceiveWork::default();
        assert!(ring.take(&mut work));
        assert_eq!((work.wr_id, work.capacity()), (1, 6));
        assert!(ring.take(&mut work));
        assert_eq!((work.wr_id, work.capacity()), (2, 0));
        assert!(!ring.take(&mut work));
    }
}
