//! Connection management under virtual time: hosts with an agent each, processes that connect,
//! and a network and deaths that get into their way.
//!
//! A seed's `plan.rs` says how many there are and when who dies. `world.rs` is time, `routing.rs`
//! what an agent does, `process.rs` what runs in a slot; its program acts (`program.rs`), reads
//! (`news.rs`) and decides (`decisions.rs`). `model/` says in plain lists what connection management
//! promises to programs, and looks at every step.

mod decisions;
mod model;
mod news;
mod plan;
mod process;
mod program;
mod routing;
mod text;
mod world;

use crate::run::Outcome;
use crate::trace::Trace;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

/// Plays the connections of a seed.
pub fn run(seed: u64, trace: &Trace) -> Outcome {
    let mut world = World::new(seed, trace.clone());
    let played = catch_unwind(AssertUnwindSafe(|| world.run()));
    let failure = match played {
        Ok(result) => result.err(),
        Err(panic) => Some(crate::run::text_of_panic(&*panic)),
    };
    Outcome { failure, completions: 0, connections: world.checked(), duration: world.now() }
}
