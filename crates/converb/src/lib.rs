//! RDMA without the NIC: devices made of network interfaces, and a safe interface to them.
//!
//! This crate owns what a program sees of RDMA: devices and their ports, contexts, protection
//! domains, memory regions, completion queues, queue pairs. It joins the network when the first
//! queue pair needs it (`runtime.rs`) and leaves moving packets to the driver. It never exports a
//! C symbol (that is `converb-abi`) and keeps no thread before it needs one. Read `device.rs`
//! next, then `context.rs` and `runtime.rs`.

mod attributes;
mod context;
mod device;
mod error;
mod events;
mod gid;
mod guid;
mod interfaces;
mod port;

pub use attributes::DeviceAttributes;
pub use context::{Context, PORT};
pub use device::{Device, NAME_VARIABLE};
pub use error::Error;
pub use events::{Element, Event, EventKind};
pub use gid::{Gid, GidTable};
pub use interfaces::Interface;
pub use port::{Port, PortState};
