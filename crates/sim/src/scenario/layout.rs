//! Where the memory of an end is: four regions in the memory of its node, with gaps that belong to
//! nobody.

use crate::memory::BASE;

/// A range of a node's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte, as an offset from the start of the node's memory.
    pub start: u64,
    /// Bytes.
    pub length: u64,
}

impl Span {
    /// The address of a byte.
    pub const fn address(self, offset: u64) -> u64 {
        BASE + self.start + offset
    }

    /// As indices into the node's memory.
    pub const fn range(self) -> core::ops::Range<usize> {
        self.start as usize..(self.start + self.length) as usize
    }
}

/// The regions of an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// What it sends and writes from; no access for peers.
    pub source: Span,
    /// What it receives and reads into; no access for peers.
    pub results: Span,
    /// What its peer writes into and reads from.
    pub window: Span,
    /// The address that peers use for the window's first byte.
    pub window_iova: u64,
    /// What its peer reads from, and nobody changes.
    pub archive: Span,
}

const GAP: u64 = 96;

impl Layout {
    /// Regions of these sizes from `start` on; also where the next can start.
    pub fn new(start: u64, source: u64, results: u64, window: u64, archive: u64) -> (Self, u64) {
        let mut next = start;
        let mut place = |length: u64| {
            let span = Span { start: next + GAP, length };
            next = (span.start + length + 7) & !7;
            span
        };
        let layout = Self {
            source: place(source),
            results: place(results),
            window: place(window),
            window_iova: 0,
            archive: place(archive),
        };
        (layout, next + GAP)
    }
}
