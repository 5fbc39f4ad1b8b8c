//! Faults on purpose: packets that are lost, doubled, damaged, late or out of order, because
//! somebody wants to see what a program makes of it (`converb run --fault`).
//!
//! `specification.rs` is what can be asked for, `dice.rs` decides for each packet, `held.rs`
//! keeps those that go on later. No I/O; a port applies it to its packets.

mod dice;
mod held;
mod specification;

pub(crate) use dice::{Decision, Dice};
pub(crate) use held::Held;
pub use specification::{Delay, Faults, InvalidFaults, Rate, Rates};

/// A due time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;
