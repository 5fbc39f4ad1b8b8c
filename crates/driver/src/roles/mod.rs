//! Who runs the engine: the roles that threads of the program and the progress thread take.
//!
//! - `post`: a thread that posts transmits its own work;
//! - `poll`: a thread that finds its completion queue empty drains the port;
//! - `event`: a thread that waits for a completion event drains the port while it waits;
//! - `progress`: the driver's own thread drains when nobody else does;
//! - `drain` and `run` are what they have in common.

pub(crate) mod drain;
mod event;
mod poll;
mod post;
mod progress;
mod run;

pub use drain::Look;
