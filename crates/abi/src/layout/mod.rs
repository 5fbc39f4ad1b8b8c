//! The structures that cross the boundary to C programs, exactly as verbs.h and rdma_cma.h
//! lay them out.
//!
//! Programs reach into them: much of verbs.h is inline code compiled into the program, which
//! follows function pointers at fixed offsets. Names are those of verbs.h, so that a reader can
//! look them up; a test compares every size and offset with the installed header. Values of C
//! enums are kept as integers, for a program may pass any.

// Much of it is read by C programs only.
#![allow(dead_code)]

#[macro_use]
mod definition;

mod attributes;
mod connection;
mod context;
mod device;
mod objects;
mod work;

pub(crate) use attributes::*;
pub(crate) use connection::*;
pub(crate) use context::*;
pub(crate) use device::*;
pub(crate) use objects::*;
pub(crate) use work::*;

#[cfg(test)]
mod tests;

/// A function pointer whose function is never there: the slot stays null.
pub(crate) type Unused = Option<unsafe extern "C" fn()>;
