//! The driver and the engine under virtual time and a seeded scheduler, against a model of verbs.
//!
//! This crate owns the simulated network, clock and locks, the random programs that use them, and
//! the model that says what verbs promise. It never opens a socket, reads no clock and draws no
//! number that a seed does not decide: a seed replays its run exactly. Read `run.rs` next, then
//! `scenario/` (what a seed stands for), `world.rs` (time) and `model/` (what is checked).

mod addresses;
mod batch;
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
mod trace;
mod world;

pub use facade::SimFacade;
pub use run::{Outcome, run};
pub use scenario::Kind;
pub use trace::Trace;
