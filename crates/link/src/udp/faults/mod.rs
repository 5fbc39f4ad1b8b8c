//! Between the port and the network, when there are faults on purpose. Without, neither exists.

mod arriving;
mod departing;

pub(crate) use arriving::ArrivingFaults;
pub(crate) use departing::{DAMAGED, DROPPED, DepartingFaults};
