//! Plays many seeds, or one with its trace; see `--help`.

use clap::Parser;
use converb_sim::{Kind, Trace, run};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Plays random programs of work requests over random networks, by seed, against a model of verbs.
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
    /// Play scenarios of this kind only: reliable, atomic, unreliable, datagram, shared or
    /// conversation.
    #[arg(long, value_name = "KIND", value_parser = Kind::named)]
    only: Option<Kind>,
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
        return replay(seed, arguments.only);
    }
    if arguments.prove {
        return prove(&arguments);
    }
    let started = Instant::now();
    let total = play(&arguments, false, true);
    println!(
        "{} passed, {} failed ({} completions checked, {:.1} s)",
        total.passed,
        total.failures.len(),
        total.completions,
        started.elapsed().as_secs_f64()
    );
    if total.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64, kind: Option<Kind>) -> ExitCode {
    let trace = Trace::on();
    let outcome = run(seed, kind, &trace);
    print!("{}", trace.text());
    match outcome.failure {
        None => {
            println!("seed {seed} passed: {} completions checked", outcome.completions);
            ExitCode::SUCCESS
        }
        Some(why) => {
            println!("seed {seed} failed: {why}");
            ExitCode::FAILURE
        }
    }
}

/// What came of many seeds.
#[derive(Default)]
struct Total {
    passed: u64,
    completions: u64,
    failures: Vec<(u64, String)>,
}

/// Plays the seeds that the arguments name; stops at the first failure if told so.
fn play(arguments: &Arguments, stop_early: bool, is_loud: bool) -> Total {
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
                    let outcome = run(seed, arguments.only, &Trace::off());
                    let mut total = lock();
                    total.completions += outcome.completions;
                    match outcome.failure {
                        None => total.passed += 1,
                        Some(why) => {
                            if is_loud {
                                print_failure(arguments, seed, &why);
                            }
                            total.failures.push((seed, why));
                        }
                    }
                    let done = total.passed + total.failures.len() as u64;
                    if is_loud && done.is_multiple_of(250) {
                        eprintln!("{done} of {} seeds", arguments.seeds);
                    }
                }
            });
        }
    });
    total.into_inner().expect("no thread panics while it counts")
}

fn print_failure(arguments: &Arguments, seed: u64, why: &str) {
    let only = arguments.only.map_or_else(String::new, |kind| format!(" --only {}", kind.name()));
    let (features, plant) = match &arguments.plant {
        Some(name) => (" --features planted-faults", format!(" --plant {name}")),
        None => ("", String::new()),
    };
    println!("seed {seed} failed: {why}");
    println!(
        "  replay: cargo run --release -p converb-sim{features} -- --seed {seed}{only}{plant}"
    );
}

#[cfg(feature = "planted-faults")]
mod planting {
    use super::{Arguments, ExitCode, play};
    use converb_engine::planted::{Planted, choose};

    /// The rules that can be broken, by name.
    const RULES: [(&str, Planted); 12] = [
        ("ack-loses-completion", Planted::AckLosesCompletion),
        ("duplicate-write-runs-twice", Planted::DuplicateWriteRunsTwice),
        ("bound-unchecked", Planted::BoundUnchecked),
        ("rnr-retry-uncounted", Planted::RnrRetryUncounted),
        ("flush-succeeds", Planted::FlushSucceeds),
        ("lost-wake-up", Planted::LostWakeUp),
        ("wrong-queue-key-delivered", Planted::WrongQueueKeyDelivered),
        ("uc-gap-unnoticed", Planted::UcGapUnnoticed),
        ("limit-event-twice", Planted::LimitEventTwice),
        ("duplicate-atomic-runs-twice", Planted::DuplicateAtomicRunsTwice),
        ("immediate-keeps-receive", Planted::ImmediateKeepsReceive),
        ("fence-ignored", Planted::FenceIgnored),
    ];

    pub(super) fn plant(name: Option<&str>) -> Result<(), String> {
        let Some(name) = name else { return Ok(()) };
        match RULES.iter().find(|(known, _)| *known == name) {
            Some((_, rule)) => {
                choose(Some(*rule));
                Ok(())
            }
            None => {
                let names: Vec<&str> = RULES.iter().map(|(known, _)| *known).collect();
                Err(format!("no such rule; there are {}", names.join(", ")))
            }
        }
    }

    pub(super) fn prove(arguments: &Arguments) -> ExitCode {
        let mut all_found = true;
        for (name, rule) in RULES {
            choose(Some(rule));
            let total = play(arguments, true, false);
            match total.failures.iter().min() {
                Some((seed, why)) => println!("{name}: found at seed {seed}: {why}"),
                None => {
                    println!("{name}: NOT FOUND in {} seeds", arguments.seeds);
                    all_found = false;
                }
            }
        }
        choose(None);
        if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(not(feature = "planted-faults"))]
mod planting {
    use super::{Arguments, ExitCode};

    const HOW: &str = "this build has no planted faults; build it with \
                       `cargo run --release -p converb-sim --features planted-faults`";

    pub(super) fn plant(name: Option<&str>) -> Result<(), String> {
        name.map_or(Ok(()), |_| Err(HOW.into()))
    }

    pub(super) fn prove(_: &Arguments) -> ExitCode {
        eprintln!("converb-sim: {HOW}");
        ExitCode::from(2)
    }
}

use planting::{plant, prove};
