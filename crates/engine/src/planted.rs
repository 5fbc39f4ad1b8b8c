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

/// Which rule of a crate is broken, of those that its own list numbers from 1 on.
#[derive(Debug)]
pub struct Chosen {
    #[cfg(feature = "planted-faults")]
    rule: core::sync::atomic::AtomicU32,
}

#[cfg(feature = "planted-faults")]
impl Chosen {
    /// None is.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self { rule: core::sync::atomic::AtomicU32::new(0) }
    }

    /// Breaks this one and no other, or none with 0.
    pub fn choose(&self, rule: u32) {
        self.rule.store(rule, core::sync::atomic::Ordering::Relaxed);
    }

    /// Whether it is this one.
    pub fn is(&self, rule: u32) -> bool {
        self.rule.load(core::sync::atomic::Ordering::Relaxed) == rule
    }
}

#[cfg(not(feature = "planted-faults"))]
impl Chosen {
    /// None is.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self {}
    }

    /// Whether it is this one: never, in this build.
    #[inline(always)]
    pub const fn is(&self, _: u32) -> bool {
        false
    }
}

static CHOSEN: Chosen = Chosen::new();

/// Breaks one rule, or none with `None`, for the whole process.
#[cfg(feature = "planted-faults")]
pub fn choose(planted: Option<Planted>) {
    CHOSEN.choose(planted.map_or(0, |planted| planted as u32));
}

/// Whether this rule is the one that is broken.
#[inline(always)]
pub fn is(planted: Planted) -> bool {
    CHOSEN.is(planted as u32)
}
