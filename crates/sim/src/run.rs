//! One run: plays the scenario of a seed and says whether all promises were kept.

use crate::dice::Dice;
use crate::model::Final;
use crate::network::Network;
use crate::program::{Left, Stage, consume, kill, post_receives, post_sends};
use crate::scenario::{Kind, Scenario};
use crate::schedule::{Control, SeededScheduler};
use crate::trace::Trace;
use crate::world::World;
use shuttle::thread::{JoinHandle, spawn, yield_now};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Which promise was broken, if one was.
    pub failure: Option<String>,
    /// Completions that the model checked.
    pub completions: u64,
    /// Conversations of connection management that the other model checked.
    pub connections: u64,
    /// Virtual nanoseconds.
    pub duration: u64,
}

/// A run in which nothing happens for this long will not end: longer than any chain of retries of
/// the scenarios.
const SILENCE_MAX: u64 = 20_000_000_000;
/// After the last completion packets that are still on their way do no harm, for this long.
const AFTERMATH: u64 = 40_000_000;
/// The clock runs early no further than this.
const EARLY_MAX: u64 = 100_000;
/// A run of more steps than this goes round in circles.
const STEPS_MAX: usize = 20_000_000;
const STACK_BYTES: usize = 256 << 10;

/// Plays the scenario of a seed; without a kind the seed chooses it.
pub fn run(seed: u64, kind: Option<Kind>, trace: &Trace) -> Outcome {
    let scenario = Arc::new(Scenario::draw(seed, kind));
    let control = Arc::new(Control::default());
    let scheduler = SeededScheduler::new(seed, scenario.policy, Arc::clone(&control));
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    let result = Arc::new(Mutex::new(Outcome::default()));
    let buffers: Vec<usize> = scenario.nodes.iter().map(|node| node.shape.buffer).collect();
    let network = Network::new(scenario.weather, Dice::new(seed ^ 0x4e70));
    let sure = scenario.loses_nothing();
    let world = Arc::new(World::new(network, &buffers, sure, trace.clone(), control));
    trace.add_if(0, || {
        let Scenario { kind, weather, policy, nodes, .. } = &*scenario;
        format!("seed {seed}: {kind:?}, {weather:?}, {policy:?}, {nodes:?}")
    });
    let played = {
        let (world, result) = (Arc::clone(&world), Arc::clone(&result));
        let play = move || {
            let outcome = play(&scenario, &world);
            *result.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
        };
        catch_unwind(AssertUnwindSafe(|| Runner::new(scheduler, config).run(play)))
    };
    let mut outcome = result.lock().unwrap_or_else(PoisonError::into_inner).clone();
    outcome.duration = world.now();
    outcome.failure = world.take_failure();
    if let Err(panic) = played {
        outcome.failure.get_or_insert(text_of_panic(&*panic));
    }
    outcome
}

/// A panic as a failure.
pub fn text_of_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a panic: {}", text.unwrap_or("of no known kind"))
}

/// The first virtual thread: starts the others, then is the clock.
fn play(scenario: &Arc<Scenario>, world: &Arc<World>) -> Outcome {
    let stage = Stage::build(scenario, world);
    for (end, plan) in scenario.ends.iter().enumerate().filter(|(_, plan)| plan.is_ready_early) {
        debug_assert!(plan.receives.len() <= 1, "they are posted in one call");
        post_receives(&stage, end);
    }
    let threads = start(&stage);
    run_clock(&stage);
    world.close();
    for node in &stage.nodes {
        node.driver.stop();
    }
    for thread in threads {
        if thread.join().is_err() {
            world.fail("a thread of the program panicked".into());
        }
    }
    let memories: Vec<Vec<u8>> =
        (0..stage.nodes.len()).map(|node| stage.with_memory(node, <[u8]>::to_vec)).collect();
    let dead: Vec<bool> = (0..stage.ends.len()).map(|end| stage.is_dead(end)).collect();
    let wrong_keys: Vec<u64> =
        (0..stage.nodes.len()).map(|node| stage.wrong_queue_keys(node)).collect();
    if !world.has_failed() {
        let last = Final { memories: &memories, dead: &dead, wrong_keys: &wrong_keys };
        let result = stage.model().check_final(&last);
        let result = result.and_then(|()| check_events(&stage));
        stage.hold(result.and_then(|()| check_timeouts(&stage)));
    }
    Outcome { completions: stage.model().completions(), ..Outcome::default() }
}

/// Whether the asynchronous events came that had to.
fn check_events(stage: &Stage) -> Result<(), String> {
    for (end, plan) in stage.scenario.ends.iter().enumerate() {
        let is_shared = stage.scenario.ends[plan.takes_from].shared.is_some();
        stage.events.check_last_receive(end, is_shared && stage.is_dead(end))?;
        if let Some(limit) = plan.shared {
            let (posted, done) = stage.model().receives(end);
            let kept = stage.model().keepers(end);
            let is_ready_early = plan.is_ready_early;
            let left = Left { owner: end, limit, posted, done, kept, is_ready_early };
            stage.events.check_limit(&left)?;
        }
    }
    Ok(())
}

/// An ACK may wait for the program's reply, but not until the peer loses its patience.
fn check_timeouts(stage: &Stage) -> Result<(), String> {
    let Scenario { kind, weather, .. } = &*stage.scenario;
    if *kind != Kind::Conversation || !weather.is_fair() || weather.full != 0 {
        return Ok(());
    }
    match (0..stage.nodes.len()).find(|&node| stage.ack_timeouts(node) != 0) {
        Some(node) => Err(format!("node {node} waited for an ACK in vain, although none is lost")),
        None => Ok(()),
    }
}

fn start(stage: &Arc<Stage>) -> Vec<JoinHandle<()>> {
    let mut threads = Vec::new();
    let mut start = |work: Box<dyn FnOnce(&Stage) + Send>| {
        let stage = Arc::clone(stage);
        threads.push(spawn(move || work(&stage)));
    };
    for node in 0..stage.nodes.len() {
        let seed = stage.scenario.seed ^ node as u64;
        start(Box::new(move |stage| stage.nodes[node].driver.run_progress()));
        start(Box::new(move |stage| consume(stage, node, seed)));
    }
    for (end, plan) in stage.scenario.ends.iter().enumerate() {
        if !plan.is_ready_early {
            start(Box::new(move |stage| post_receives(stage, end)));
        }
        start(Box::new(move |stage| post_sends(stage, end)));
        if let Some(at) = plan.killed_at {
            start(Box::new(move |stage| kill(stage, end, at)));
        }
    }
    threads
}

/// Moves time on whenever all threads wait, until everything has ended.
fn run_clock(stage: &Stage) {
    let world = &stage.world;
    let mut finished_at = None;
    while !world.has_failed() {
        let now = world.now();
        let (is_finished, last_event) = {
            let mut model = stage.model();
            for end in (0..stage.ends.len()).filter(|&end| stage.events.has_failed(end)) {
                model.tell_failed(end);
            }
            (model.is_finished(), model.last_event())
        };
        if is_finished && finished_at.is_none() {
            finished_at = Some(now);
        }
        if finished_at.is_some_and(|at| now > at + AFTERMATH) {
            return;
        }
        if now > last_event + SILENCE_MAX {
            let open = stage.model().still_open();
            return world.fail(format!("nothing happens any more, but {open}"));
        }
        // Others may run while the flag is looked at: only then does it say who waits.
        let is_forgotten = |&end: &usize| stage.is_left_alone(end) && world.is_idle();
        if let Some(end) = (0..stage.ends.len()).find(is_forgotten) {
            return world.fail(format!(
                "all threads wait, but somebody has left end {end} work that nobody has looked at"
            ));
        }
        // Chosen although others can run, the clock may move on, but not far.
        if world.is_idle() || world.next_event().is_some_and(|next| next <= now + EARLY_MAX) {
            world.advance();
        }
        yield_now();
    }
}
