//! Who runs the engine, and when.
//!
//! This crate owns the roles (polling thread, posting thread, event waiter, progress thread),
//! the locks and their order, batching and timers. It never makes a system call: the network,
//! the clock and the program's memory come through [`Port`], locks through the facade, so
//! that the simulator runs the same code. Read `driver.rs` next, then `roles/`.

mod port;

pub use port::{Interest, Port, Received, Sent, Signal, Woken};
