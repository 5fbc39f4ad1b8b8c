//! Registered memory: the keys that name it, and the trait by which its bytes move.

mod program;

pub use program::{Fault, Memory};
