//! The driver, the engine and connection management under virtual time, against models of them.
//!
//! This crate owns the simulated network, clock and locks, the random programs that use them, and
//! the models that say what is promised to them. It never opens a socket, reads no clock and draws
//! no number that a seed does not decide: a seed replays its run exactly. There are two worlds
//! (`subject.rs`). For verbs read `run.rs` next, then `scenario/` (what a seed stands for),
//! `world.rs` (time) and `model/` (what is checked); for connections `connections/mod.rs`.

mod addresses;
mod batch;
mod connections;
mod dice;
mod facade;
mod gate;
mod memory;
mod model;
mod network;
mod packet_text;
mod port;
mod program;
mod run;
mod scenario;
mod schedule;
mod subject;
mod trace;
mod world;

pub use facade::SimFacade;
pub use run::{Outcome, run};
pub use scenario::Kind;
pub use subject::Subject;
pub use trace::Trace;
