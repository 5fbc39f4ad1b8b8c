//! The converb command.
//!
//! It owns what people type: running a program on Converb's devices (`run.rs`), looking at devices
//! (`devices.rs`) and at the agent (`agent.rs`). It never speaks RDMA itself, and `converb run`
//! becomes the program it runs, so that exit status and signals are the program's own. Read
//! `arguments.rs` next.

mod agent;
mod arguments;
mod completions;
mod devices;
mod executable;
mod explain;
mod failure;
mod library;
mod output;
mod program;
mod run;
mod table;

use arguments::{AgentCommand, Arguments, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments =
        Arguments::of_command_line(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let result = match arguments.command {
        Command::Run(run) => run::run(&run),
        Command::Devices { verbose, json } => devices::show(verbose, json),
        Command::Explain { last: Some(count), json, .. } => explain::last(count as usize, json),
        Command::Explain { words, last: None, json } => explain::explain(&words, json),
        Command::Completions { shell } => completions::show(shell),
        Command::Agent(AgentCommand::Serve { arguments }) => agent::serve(arguments),
        Command::Agent(AgentCommand::Status { json }) => agent::status(json),
        Command::Agent(AgentCommand::Stop { force, json }) => agent::stop(force, json),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("converb: {}", failure.message);
            ExitCode::from(failure.status)
        }
    }
}
