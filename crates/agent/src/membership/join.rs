//! Becoming a member: find the agent or start one, say hello, take the slots.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::rings::Rings;
use crate::counters::CounterPage;
use crate::error::JoinError;
use crate::greeting::{
    Answer, Connection, NoAnswer, NoConnection, await_answer, connect, say_hello, wait_readable,
};
use crate::protocol::{Refusal, Reply, Role};
use crate::server::Outcome;
use crate::start::start;

/// What a program wants of the agent.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// How many slots, 1 to 64, each with 16,384 queue pair numbers. There may be fewer.
    pub slots: u16,
    /// The names of the counters that each device of this process has, at most 128.
    pub counters: Vec<&'static str>,
    /// Whether to have a ring, by which other processes of this host pass packets on that the
    /// kernel gave to them, unless there is no memory for it; see [`Membership::take_relay`](super::Membership::take_relay).
    pub has_ring: bool,
    /// The converb program, by absolute path, to start an agent from.
    pub program: Option<PathBuf>,
    /// For how long to try.
    pub timeout: Duration,
}

impl Default for JoinOptions {
    /// One slot, no counters, no ring, the program that the environment variable CONVERB_BIN names, and
    /// five seconds.
    fn default() -> Self {
        Self {
            slots: 1,
            counters: Vec::new(),
            has_ring: false,
            program: std::env::var_os(PROGRAM_VARIABLE).map(PathBuf::from),
            timeout: Duration::from_secs(5),
        }
    }
}

/// The environment variable that holds the path of the converb program; `converb run` sets it.
pub const PROGRAM_VARIABLE: &str = "CONVERB_BIN";

/// What the agent gives to a new member.
pub struct Granted {
    pub connection: Connection,
    pub group: u64,
    pub shared: Shared,
    /// The slots' sockets, or ends of pairs by which datagrams are carried.
    pub slots: SlotDescriptors,
}

/// Slots, each with the descriptor that its packets come by.
type SlotDescriptors = Vec<(u16, OwnedFd)>;

/// What a member has of its group.
pub enum Shared {
    /// Its part in keeping it alive.
    Kept { vault: OwnedFd, table: OwnedFd },
    /// Nothing but the datagrams that the agent carries to it.
    Carried { receive_buffer_bytes: u32 },
}

/// Waits between two attempts.
const PAUSE: Duration = Duration::from_millis(5);
/// How many agents may die before they report, for somebody may just be killing agents.
const DEATHS_MAX: u32 = 3;
/// Between two attempts when all slots are in time-wait.
const SLOT_PAUSE: Duration = Duration::from_millis(100);

/// Joins, starting an agent where there is none.
pub fn join(
    options: &JoinOptions,
    page: &CounterPage,
    rings: Option<&Rings>,
) -> Result<Granted, JoinError> {
    let deadline = Instant::now() + options.timeout;
    let mut last = JoinError::Timeout("the agent does not answer");
    let mut deaths = 0;
    loop {
        let pause = match connect() {
            Ok(connection) => {
                let is_carried = !connection.is_of_same_user();
                let role = Role::Join { slots: options.slots, is_carried };
                let offered = offered(is_carried, page, rings);
                match greet(connection, role, &offered, deadline) {
                    Ok(granted) => return Ok(granted),
                    Err(NotGranted::Later) => PAUSE,
                    Err(NotGranted::NoSlots(error)) => {
                        last = error;
                        SLOT_PAUSE
                    }
                    Err(NotGranted::Never(error)) => return Err(error),
                }
            }
            Err(NoConnection::Nobody) => {
                let program = options.program.as_deref().ok_or(JoinError::NoProgram)?;
                match start_agent(program, deadline)? {
                    Outcome::Serving => continue,
                    Outcome::AnotherServes => PAUSE,
                    Outcome::Died if deaths < DEATHS_MAX => {
                        deaths += 1;
                        PAUSE
                    }
                    Outcome::Died => {
                        let text = format!(
                            "{} ended without a word; {PROGRAM_VARIABLE} has to be the converb \
                             program",
                            program.display()
                        );
                        return Err(JoinError::AgentFailed(text));
                    }
                    Outcome::PortTaken(text) => return Err(JoinError::PortTaken(text)),
                    Outcome::Failed(text) => return Err(JoinError::AgentFailed(text)),
                }
            }
            Err(NoConnection::Later) => {
                last = JoinError::Timeout("the agent does not accept connections");
                PAUSE
            }
            Err(NoConnection::Never(error)) => return Err(error),
        };
        if Instant::now() + pause >= deadline {
            return Err(last);
        }
        std::thread::sleep(pause);
    }
}

/// Why a hello brought nothing.
pub enum NotGranted {
    /// Trying again may help.
    Later,
    /// So it may, but slots are all in use or resting.
    NoSlots(JoinError),
    /// It does not.
    Never(JoinError),
}

/// The descriptors that go with a hello: what the program has not closed of them. None for another
/// user's agent, which carries our datagrams and has no business in our memory.
pub fn offered<'a>(
    is_carried: bool,
    page: &'a CounterPage,
    rings: Option<&'a Rings>,
) -> Vec<BorrowedFd<'a>> {
    if is_carried {
        return Vec::new();
    }
    let ring = rings.and_then(Rings::offered);
    page.descriptor().into_iter().chain(ring.into_iter().flatten()).collect()
}

/// Says hello on a new connection and takes what the agent gives.
pub fn greet(
    connection: Connection,
    role: Role,
    offered: &[BorrowedFd<'_>],
    deadline: Instant,
) -> Result<Granted, NotGranted> {
    let socket = connection.socket.as_fd();
    let said = match say_hello(socket, role.clone(), offered) {
        // A low limit of open files also limits what may be passed. Nothing that is offered is
        // needed: without the page nobody sees our counters, without the ring nobody passes on.
        Err(Errno::TOOMANYREFS) => say_hello(socket, role, &[]),
        said => said,
    };
    if said.is_err() {
        return Err(NotGranted::Later);
    }
    take_granted(connection, deadline)
}

/// What the agent gives on a connection, group and slots included.
fn take_granted(connection: Connection, deadline: Instant) -> Result<Granted, NotGranted> {
    let malformed = || NotGranted::Never(connection.explain(JoinError::Protocol));
    let answer = next(&connection, deadline)?;
    let (group, count, shared) = match answer.reply {
        // Another user's agent has no power to give, and what it gave instead would be a trap.
        Reply::Welcome(welcome) if connection.is_of_same_user() => {
            let [vault, table] =
                <[OwnedFd; 2]>::try_from(answer.descriptors).map_err(|_| malformed())?;
            (welcome.group, welcome.slots, Shared::Kept { vault, table })
        }
        Reply::CarriedWelcome(welcome) => {
            let receive_buffer_bytes = welcome.receive_buffer_bytes;
            (welcome.group, welcome.slots, Shared::Carried { receive_buffer_bytes })
        }
        _ => return Err(malformed()),
    };
    let mut slots = Vec::with_capacity(count.into());
    while slots.len() < usize::from(count) {
        let answer = next(&connection, deadline)?;
        let Reply::Slots(part) = answer.reply else { return Err(malformed()) };
        if part.numbers.is_empty() || part.numbers.len() != answer.descriptors.len() {
            return Err(malformed());
        }
        let descriptors = answer.descriptors.into_iter().map(converb_link::raise);
        slots.extend(part.numbers.into_iter().zip(descriptors));
    }
    Ok(Granted { connection, group, shared, slots })
}

/// The next message that is no refusal.
fn next(connection: &Connection, deadline: Instant) -> Result<Answer, NotGranted> {
    let never = |error| NotGranted::Never(connection.explain(error));
    let answer = match await_answer(connection.socket.as_fd(), deadline) {
        Ok(answer) => answer,
        Err(NoAnswer::Gone) => return Err(NotGranted::Later),
        Err(NoAnswer::NotYet) => {
            return Err(never(JoinError::Timeout("the agent does not answer")));
        }
        Err(NoAnswer::Malformed) => return Err(never(JoinError::Protocol)),
    };
    match answer.reply {
        Reply::Refused(refusal @ (Refusal::NoSlots { soon: true, .. } | Refusal::Busy)) => {
            Err(NotGranted::NoSlots(JoinError::refused(refusal, answer.version)))
        }
        // An agent of an earlier release, which serves its own user alone.
        Reply::Refused(Refusal::OtherUser) => Err(NotGranted::Never(connection.of_another_user())),
        Reply::Refused(refusal) => {
            Err(NotGranted::Never(JoinError::refused(refusal, answer.version)))
        }
        Reply::Goodbye => Err(NotGranted::Later),
        _ => Ok(answer),
    }
}

/// Starts an agent and waits for its report.
fn start_agent(program: &Path, deadline: Instant) -> Result<Outcome, JoinError> {
    let bad = |error| JoinError::BadProgram { path: program.to_owned(), error };
    if !program.is_absolute() {
        return Err(bad(std::io::ErrorKind::NotFound.into()));
    }
    let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
    let (reader, writer) =
        pipe.map_err(|error| JoinError::System("a pipe cannot be made", error))?;
    start(program, &agent_arguments(false), &[writer.as_fd()]).map_err(bad)?;
    drop(writer);
    if !wait_readable(&reader, deadline) {
        return Err(JoinError::Timeout("the agent's process does not report"));
    }
    Ok(Outcome::read(reader))
}

/// The arguments of the converb program for an agent that inherits a report pipe, and for a
/// successor the vault and the name as well.
pub fn agent_arguments(is_successor: bool) -> Vec<OsString> {
    let mut arguments = vec!["agent", "serve", "--report-fd=3"];
    if is_successor {
        arguments.extend(["--vault-fd=4", "--name-fd=5"]);
    }
    arguments.into_iter().map(OsString::from).collect()
}
