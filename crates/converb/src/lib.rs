//! RDMA without the NIC: devices made of network interfaces, and a safe interface to them.
//!
//! This crate owns what a program sees of RDMA: devices and their ports, contexts, protection
//! domains, memory regions, completion queues, queue pairs, and connections by address (`cm/`). It
//! joins the network when the first object needs it (`runtime.rs`) and leaves moving packets to the driver. It never exports a C
//! symbol (that is `converb-abi`) and keeps no thread before it needs one. Read `device.rs` next,
//! then `context.rs` and `runtime.rs`; `examples/` shows it in use.

mod around_fork;
mod attributes;
mod carried;
mod chaos;
pub mod cm;
mod completion_channel;
mod completion_queue;
mod context;
mod counters;
mod device;
mod endpoint;
mod error;
mod events;
mod failure;
mod fork;
mod gid;
mod guid;
mod heritage;
mod interfaces;
mod letters;
mod memory_region;
mod path;
mod port;
mod program;
mod protection_domain;
mod queue_pair;
mod runtime;
mod shared_receive_queue;
mod signals;
mod watch;
mod wording;

pub use attributes::DeviceAttributes;
pub use completion_channel::CompletionChannel;
pub use completion_queue::CompletionQueue;
pub use context::{Context, PORT};
pub use device::{Device, NAME_VARIABLE};
pub use endpoint::Endpoint;
pub use error::Error;
pub use events::{Element, Event, EventKind};
pub use failure::FailureRecord;
pub use gid::{Gid, GidTable};
pub use heritage::Lost;
pub use interfaces::Interface;
pub use memory_region::MemoryRegion;
pub use path::{LinkAddress, PathOptions};
pub use port::{Port, PortState};
pub use protection_domain::ProtectionDomain;
pub use queue_pair::{Capacities, QueuePair, QueuePairOptions};
pub use shared_receive_queue::SharedReceiveQueue;
pub use wording::COMPLETION_STATUS_WORDING;

/// The engine's words for work requests, completions and attributes.
pub use converb_engine::{
    Address, AddressVector, Completion, CompletionKind, Extra, Status, iba, memory, work,
};
/// Faults on purpose, and the variables of the environment that ask for them and for a capture.
pub use converb_link::{CAPTURE_VARIABLE, FAULT_VARIABLE, Faults, InvalidFaults};
/// The numbers of the transport.
pub use converb_wire::{Opcode, Psn, Qpn, Rkey};
