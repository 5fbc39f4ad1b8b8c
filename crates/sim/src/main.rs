//! Plays many seeds, or one with its trace; see `--help`.

mod planting;

use clap::Parser;
use converb_sim::{Outcome, Subject, Trace};
use planting::{plant, prove};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Plays random programs over random networks, by seed: of work requests against a model of verbs,
/// and of connections against a model of connection management.
#[derive(Parser)]
#[command(name = "converb-sim")]
struct Arguments {
    /// How many seeds to play.
    #[arg(long, default_value_t = 2000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// How many to play at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Play this seed alone and print its trace: packets, posts and completions with virtual time.
    #[arg(long)]
    seed: Option<u64>,
    /// Play this only: connections, or scenarios of verbs of one kind: reliable, atomic, unreliable,
    /// datagram, shared or conversation.
    #[arg(long, value_name = "KIND", value_parser = Subject::named)]
    only: Option<Subject>,
    /// Break a rule on purpose (needs a build with `--features planted-faults`).
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,
    /// Break every rule in turn and see that each is noticed (needs the same build).
    #[arg(long)]
    prove: bool,
}

fn main() -> ExitCode {
    // A panic of a virtual thread is a failure of its seed, which is printed with it.
    std::panic::set_hook(Box::new(|_| {}));
    let arguments = Arguments::parse();
    if let Err(why) = plant(arguments.plant.as_deref()) {
        eprintln!("converb-sim: {why}");
        return ExitCode::from(2);
    }
    if let Some(seed) = arguments.seed {
        return replay(seed, &arguments.subjects());
    }
    if arguments.prove {
        return prove(&arguments);
    }
    let started = Instant::now();
    let total = play(&arguments, &arguments.subjects(), false, true);
    println!(
        "{} passed, {} failed ({} completions and {} connections checked, {:.1} s)",
        total.passed,
        total.failed,
        total.completions,
        total.connections,
        started.elapsed().as_secs_f64()
    );
    if total.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Arguments {
    /// The worlds to play each seed in.
    fn subjects(&self) -> Vec<Subject> {
        self.only.map_or_else(|| Subject::ALL.to_vec(), |only| vec![only])
    }
}

fn replay(seed: u64, subjects: &[Subject]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for subject in subjects {
        let trace = Trace::on();
        let outcome = subject.play(seed, &trace);
        print!("{}", trace.text());
        match outcome.failure {
            None => println!(
                "seed {seed} passed: {} completions and {} connections checked",
                outcome.completions, outcome.connections
            ),
            Some(why) => {
                println!("seed {seed} failed: {why}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

/// What came of many seeds.
#[derive(Default)]
struct Total {
    passed: u64,
    completions: u64,
    connections: u64,
    failed: u64,
    failures: Vec<(u64, String)>,
}

impl Total {
    /// Counts a seed: it passes if it does so in every world.
    fn add(&mut self, seed: u64, outcomes: &[(Subject, Outcome)]) {
        let before = self.failures.len();
        for (_, outcome) in outcomes {
            self.completions += outcome.completions;
            self.connections += outcome.connections;
            self.failures.extend(outcome.failure.clone().map(|why| (seed, why)));
        }
        let is_good = self.failures.len() == before;
        *if is_good { &mut self.passed } else { &mut self.failed } += 1;
    }
}

/// Plays the seeds that the arguments name; stops at the first failure if told so.
fn play(arguments: &Arguments, subjects: &[Subject], stop_early: bool, is_loud: bool) -> Total {
    let next = AtomicU64::new(arguments.start);
    let end = arguments.start + arguments.seeds;
    let total = std::sync::Mutex::new(Total::default());
    let lock = || total.lock().expect("no thread panics while it counts");
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || (stop_early && !lock().failures.is_empty()) {
                        return;
                    }
                    let outcomes = play_seed(subjects, seed);
                    let mut total = lock();
                    total.add(seed, &outcomes);
                    for (subject, outcome) in &outcomes {
                        if let (Some(why), true) = (&outcome.failure, is_loud) {
                            print_failure(arguments, *subject, seed, why);
                        }
                    }
                    let done = total.passed + total.failed;
                    if is_loud && done.is_multiple_of(250) {
                        eprintln!("{done} of {} seeds", arguments.seeds);
                    }
                }
            });
        }
    });
    total.into_inner().expect("no thread panics while it counts")
}

/// Plays a seed in each world.
fn play_seed(subjects: &[Subject], seed: u64) -> Vec<(Subject, Outcome)> {
    subjects.iter().map(|subject| (*subject, subject.play(seed, &Trace::off()))).collect()
}

fn print_failure(arguments: &Arguments, subject: Subject, seed: u64, why: &str) {
    let only = subject.name().map_or_else(String::new, |name| format!(" --only {name}"));
    let (features, plant) = match &arguments.plant {
        Some(name) => (" --features planted-faults", format!(" --plant {name}")),
        None => ("", String::new()),
    };
    println!("seed {seed} failed: {why}");
    println!(
        "  replay: cargo run --release -p converb-sim{features} -- --seed {seed}{only}{plant}"
    );
}
