//! Broken rules, chosen at run time, that prove the simulator's eyes: compiled in only with the
//! feature `planted-faults`, else every question is answered no at compile time.

use converb_engine::planted::Chosen;

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Planted {
    /// A REQ that comes twice is taken for a new one.
    DuplicateRequestTakenForNew = 1,
    /// A REP that comes again because the RTU got lost is not answered.
    LostReadyUnrepeated = 2,
    /// An MRA does not prolong the wait.
    MoreTimeIgnored = 3,
    /// A DREQ in TIMEWAIT is not answered.
    TimeWaitSilent = 4,
    /// A REQ of a queue pair that is connected does not end that connection.
    StaleUnnoticed = 5,
    /// A connection whose program has let go of it still tells of itself.
    ReleasedTells = 6,
    /// A decision does not give back the place in the listener's backlog.
    PlaceKept = 7,
    /// After a message was sent again nobody looks at the clock any more.
    DeadlineForgotten = 8,
    /// The refusal of a REQ ends a connection that has been made meanwhile.
    LateRefusalEnds = 9,
    /// A REQ that has been refused asks again when it comes again.
    RefusalForgotten = 10,
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
