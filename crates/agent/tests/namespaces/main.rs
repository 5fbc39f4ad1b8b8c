//! Tests of the agent with real processes, each in a network namespace of its own.
//!
//! There is no test harness here, since this program is also its own agent: a test names it in
//! CONVERB_BIN, so it is executed as `... agent serve`. It plays these parts:
//!
//! - the runner: starts each test as a process, as root's user 0 and again as user 65534, which
//!   an ordinary machine has without privileges;
//! - a test: makes its namespace, and has a `stage` of members;
//! - a member: does what its test tells it through a pipe (`member`, `relaying`);
//! - the agent.

mod death;
mod heirs;
mod joining;
mod limits;
mod member;
mod refusals;
mod relaying;
mod runner;
mod services;
mod serving;
mod stage;
mod takeover;
mod users;

use std::ffi::OsString;
use std::process::ExitCode;

/// One test and whom it runs as.
struct Test {
    name: &'static str,
    run: fn(),
    users: Users,
    /// Whether no other test of the same user may run at the same time.
    is_alone: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Users {
    /// Both user 0 and user 65534.
    Both,
    /// Only where the test may change its user.
    Root,
}

fn tests() -> Vec<Test> {
    // The limits are those of a user, not of a namespace.
    let together = [
        joining::TESTS,
        death::TESTS,
        heirs::TESTS,
        takeover::TESTS,
        services::TESTS,
        refusals::TESTS,
        relaying::TESTS,
        users::TESTS,
    ]
    .concat();
    let test = |is_alone| move |(name, run, users)| Test { name, run, users, is_alone };
    let alone = limits::TESTS.iter().copied().map(test(true));
    together.into_iter().map(test(false)).chain(alone).collect()
}

/// A line of a table of tests.
type Line = (&'static str, fn(), Users);

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.starts_with(&["agent".into(), "serve".into()]) {
        return match converb_agent::serve_from_command_line(arguments.into_iter().skip(2)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    if let Ok(part) = std::env::var(member::PART_VARIABLE) {
        if std::env::var_os(relaying::RELAY_VARIABLE).is_some() {
            relaying::play();
        } else {
            member::play(&part);
        }
        return ExitCode::SUCCESS;
    }
    if let Ok(name) = std::env::var(runner::TEST_VARIABLE) {
        return runner::run_one(&name, &tests());
    }
    runner::run_all(&arguments, &tests())
}
