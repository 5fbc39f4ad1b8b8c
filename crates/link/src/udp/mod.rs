//! RoCEv2 over the kernel's UDP: the driver's `Port`.
//!
//! Out: `outgoing.rs` collects packets in runs, `destination.rs` decides which socket a run
//! leaves from, `sender.rs` owns those sockets. In: `arriving.rs` fetches what a slot's socket or
//! the agent has, `incoming.rs` splits what arrived and checks
//! each packet just before it is used, `source.rs` knows whose IPv4 Identification to expect.
//! `flow.rs` is the invariant CRC, `waiting.rs` waits and wakes, `relay.rs` is how packets reach
//! the process they belong to when the kernel gave them to another, `mending.rs` goes on after the
//! program has closed our descriptors, `faults/` loses and damages packets if it is told to,
//! `recorder.rs` writes them down.

mod arriving;
mod destination;
mod error;
mod faults;
mod flow;
mod incoming;
mod mending;
mod outgoing;
mod port;
mod recorder;
mod relay;
mod run;
mod sender;
mod settings;
mod source;
mod waiting;

pub use error::PortError;
#[cfg(any(test, fuzzing))]
pub(crate) use flow::Flow;
pub use incoming::Incoming;
pub use mending::SlotSource;
pub use outgoing::Outgoing;
pub use port::{Slot, UdpPort};
pub use relay::{Relay, Relayed};
pub use settings::{CAPTURE_VARIABLE, FAULT_VARIABLE, InvalidSetting, Settings};
