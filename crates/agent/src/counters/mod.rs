//! Counters that outlive the programs that count.
//!
//! A member counts with plain atomic additions into a page of memory that it shares with the
//! agent (`page`), which costs no system call. When the member dies, even by SIGKILL, the agent
//! reads the page a last time (`view`) and adds it to the totals (`totals`), which lie in memory
//! that a successor inherits.

mod page;
mod totals;
mod view;

pub use page::CounterPage;
pub use totals::Totals;
pub use view::PageView;

use crate::failures::Ring;
use crate::protocol::{DeviceReply, Name};

/// The most counters that a device may have.
pub const COUNTERS_MAX: usize = DeviceReply::COUNTERS_MAX;

/// The most devices of one process.
pub const DEVICES_MAX: usize = 16;

/// The name of a device or of a counter.
pub type CounterName = Name<NAME_SIZE>;

const NAME_SIZE: usize = 32;

/// Where things lie in a page.
///
/// ```text
///   0        4         8          12        16         20     24     28         64
///   | "CVCP" | version | counters | devices | failures | size | zero | reserved | names | devices ...
///
///   failures: where the ring of failures begins, 0 in pages of versions that had none; size: its
///   bytes. Who does not know them, or another size, reads the counters and leaves it at that.
///
///   a counter's name: 32 bytes
///   a device: name, 32 bytes, empty if the place is not used; its counters, 8 bytes each
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    counters: usize,
}

impl Layout {
    const MAGIC: [u8; 4] = *b"CVCP";
    const VERSION: u32 = 1;
    const HEADER_SIZE: usize = 64;

    const fn counter_name(self, counter: usize) -> usize {
        Self::HEADER_SIZE + NAME_SIZE * counter
    }

    const fn device(self, device: usize) -> usize {
        self.counter_name(self.counters) + (NAME_SIZE + 8 * self.counters) * device
    }

    const fn device_counters(self, device: usize) -> usize {
        self.device(device) + NAME_SIZE
    }

    /// The end of the counters.
    const fn counters_size(self) -> usize {
        self.device(DEVICES_MAX)
    }

    /// Where the ring of failures begins.
    const fn failures(self) -> usize {
        self.counters_size().next_multiple_of(64)
    }

    const fn size(self) -> usize {
        self.failures() + Ring::SIZE
    }
}

#[cfg(test)]
mod tests;
