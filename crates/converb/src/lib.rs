//! RDMA without the NIC: devices made of network interfaces, and a safe interface to them.

mod attributes;
mod device;
mod gid;
mod guid;
mod interfaces;
mod port;

pub use attributes::DeviceAttributes;
pub use device::{Device, NAME_VARIABLE};
pub use gid::{Gid, GidTable};
pub use interfaces::Interface;
pub use port::{Port, PortState};
