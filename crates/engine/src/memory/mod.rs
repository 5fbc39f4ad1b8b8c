//! Registered memory: the keys that name it, and the trait by which its bytes move.

mod keys;
mod program;

pub use keys::{Access, KeyError, KeyTable, ProtectionDomain, Region, RegionSpec};
pub use program::{Fault, Memory};
