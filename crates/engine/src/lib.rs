//! Verbs objects and the protocol state machines that move their data.
//!
//! This crate owns queue pairs, completion queues, memory keys and the InfiniBand transport
//! (`iba/`) as plain values: they are given packets, work requests and the time, and give back
//! packets, completions and their next deadline. It never does I/O, reads no clock, starts no
//! thread and takes no lock. Read `iba/queue_pair.rs` next, then `work/`, `memory/`.

mod address;
mod completion;
mod counters;
mod time;
mod transmit;

pub mod execution;
pub mod iba;
pub mod memory;
pub mod planted;
pub mod work;

pub use address::{Address, AddressVector};
pub use completion::{
    Added, Armed, Completion, CompletionKind, CompletionQueue, Extra, Overrun, Status,
};
pub use counters::Counters;
pub use memory::{Fault, Memory};
pub use time::Time;
pub use transmit::PacketSink;
