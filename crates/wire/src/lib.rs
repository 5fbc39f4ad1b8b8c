//! Packet formats: no I/O, no state.

mod numbers;

pub use numbers::{Psn, Qpn, Rkey};
