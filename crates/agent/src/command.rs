//! `converb agent serve`: the agent's process, as a person or a member's library starts it.

use core::fmt;
use std::ffi::OsString;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::server::{Inherited, Report, ServeError, ServeOptions, serve};
use crate::start::FIRST_INHERITED;

/// The environment variable with the seconds without members after which an agent exits.
pub const IDLE_VARIABLE: &str = "CONVERB_AGENT_IDLE_SECONDS";

const IDLE_SECONDS: u64 = 60;

/// Why `converb agent serve` ends with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// An argument that it does not know.
    Usage(OsString),
    /// A descriptor that the arguments name is not open.
    Descriptor(RawFd),
    /// The agent could not serve.
    Serve(ServeError),
}

/// Runs an agent as `arguments` say: what follows `converb agent serve` on the command line.
/// Returns when the agent was idle for a minute, or was stopped.
///
/// Without arguments the agent runs in the foreground. Programs that find no agent start one with
/// `--report-fd=3`, and members whose agent died with `--vault-fd=4 --name-fd=5` as well.
///
/// The command must not have opened or closed descriptors by then, nor started threads, and
/// should exit with status 0 for `Ok`, else print the error on standard error and exit with 1.
///
/// # Errors
/// The arguments are wrong, or the agent cannot serve.
pub fn serve_from_command_line(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<(), CommandError> {
    let (mut report, mut vault, mut name) = (None, None, None);
    for argument in arguments {
        let number = |option: &str| {
            let number: RawFd = argument.to_str()?.strip_prefix(option)?.parse().ok()?;
            (FIRST_INHERITED..FIRST_INHERITED + 3).contains(&number).then_some(number)
        };
        let (place, number) = if let Some(number) = number("--report-fd=") {
            (&mut report, number)
        } else if let Some(number) = number("--vault-fd=") {
            (&mut vault, number)
        } else if let Some(number) = number("--name-fd=") {
            (&mut name, number)
        } else {
            return Err(CommandError::Usage(argument));
        };
        *place = Some(number);
    }
    let mut numbers: Vec<RawFd> = [report, vault, name].into_iter().flatten().collect();
    numbers.sort_unstable();
    if let Some(twice) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(CommandError::Descriptor(twice[0]));
    }
    let report = Report::new(report.map(inherited).transpose()?);
    let inherited = match (vault, name) {
        (Some(vault), Some(name)) => {
            Some(Inherited { vault: inherited(vault)?, name: inherited(name)? })
        }
        _ => None,
    };
    serve(ServeOptions { report, inherited, idle_limit: idle_limit() }).map_err(CommandError::Serve)
}

/// The descriptor of this number, which whoever started this process left open for it.
fn inherited(number: RawFd) -> Result<OwnedFd, CommandError> {
    // SAFETY: a borrow for one call, which fails if the descriptor is not open.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    let closed = |_| CommandError::Descriptor(number);
    rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC).map_err(closed)?;
    // SAFETY: it is open, the command line says that it is for us, each number is used once, and
    // the caller has promised to have opened nothing itself.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn idle_limit() -> Duration {
    let seconds = std::env::var(IDLE_VARIABLE).ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(IDLE_SECONDS))
}

impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(argument) => {
                write!(formatter, "`converb agent serve` does not know {}", argument.display())
            }
            Self::Descriptor(number) => {
                write!(formatter, "descriptor {number} was to be inherited, and is not open")
            }
            Self::Serve(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for CommandError {}
