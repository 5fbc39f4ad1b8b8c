//! One execution of an operation on memory: plan (keys, bounds and access give addresses), move
//! (the link's guarded copy), commit (the queue pair's part). All transports use these.

mod local;
mod remote;

pub use local::{failing_piece, gather, scatter};
pub use remote::RemotePlan;

use crate::memory::{Fault, KeyError};

/// Why an operation on memory failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionError {
    /// A key, a bound or an access right.
    Key(KeyError),
    /// The memory is gone although it is registered.
    Fault(Fault),
    /// The scatter list is shorter than the data.
    TooLong,
}

impl From<KeyError> for ExecutionError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<Fault> for ExecutionError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
