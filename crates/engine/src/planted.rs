//! Broken rules, chosen at run time, that prove the simulator's eyes: compiled in only with the
//! feature `planted-faults`, else every question is answered no at compile time.

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Planted {
    /// An ACK that a responder should have answered a duplicate with is dropped, and with it the
    /// completion it would have brought.
    AckLosesCompletion = 1,
    /// A duplicate WRITE is executed again.
    DuplicateWriteRunsTwice = 2,
    /// A region's end is not checked.
    BoundUnchecked = 3,
    /// An RNR retry is not counted.
    RnrRetryUncounted = 4,
    /// A flushed request completes with success.
    FlushSucceeds = 5,
    /// The owner of a queue pair's transmitting role does not look again before it leaves.
    LostWakeUp = 6,
    /// A datagram with a Q_Key that is not the queue pair's is delivered.
    WrongQueueKeyDelivered = 7,
    /// A message of an unreliable connection is delivered although a part of it is missing.
    UcGapUnnoticed = 8,
    /// The limit of a shared receive queue is not disarmed by its event.
    LimitEventTwice = 9,
    /// A duplicate atomic is executed again.
    DuplicateAtomicRunsTwice = 10,
    /// An immediate completes a receive without taking it from its queue.
    ImmediateKeepsReceive = 11,
    /// A fence is ignored.
    FenceIgnored = 12,
}

#[cfg(feature = "planted-faults")]
mod chosen {
    use core::sync::atomic::{AtomicU32, Ordering};

    static CHOSEN: AtomicU32 = AtomicU32::new(0);

    /// Breaks one rule, or none with `None`, for the whole process.
    pub fn choose(planted: Option<super::Planted>) {
        CHOSEN.store(planted.map_or(0, |planted| planted as u32), Ordering::Relaxed);
    }

    /// Whether this rule is the one that is broken.
    pub fn is(planted: super::Planted) -> bool {
        CHOSEN.load(Ordering::Relaxed) == planted as u32
    }
}

#[cfg(not(feature = "planted-faults"))]
mod chosen {
    /// Whether this rule is the one that is broken: never, in this build.
    #[inline(always)]
    pub const fn is(_: super::Planted) -> bool {
        false
    }
}

pub use chosen::*;
