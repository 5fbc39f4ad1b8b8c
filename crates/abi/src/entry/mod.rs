//! The exported functions, one file a subject. An entry point guards against panics, turns
//! pointers into safe types and calls ordinary Rust; it decides nothing.
//!
//! The pointers a program passes are trusted to be what verbs.h says they are, as every C library
//! trusts them: that is the safety contract of every `unsafe extern "C" fn` below.
#![allow(clippy::missing_safety_doc)]

pub(crate) mod address;
pub(crate) mod completion;
pub(crate) mod connection;
pub(crate) mod devices;
pub(crate) mod events;
pub(crate) mod fork;
pub(crate) mod legacy;
pub(crate) mod memory;
pub(crate) mod provider;
pub(crate) mod query;
pub(crate) mod queue_pair;
pub(crate) mod rates;
pub(crate) mod shared_receive;
pub(crate) mod sysfs;
pub(crate) mod text;
pub(crate) mod unsupported;
