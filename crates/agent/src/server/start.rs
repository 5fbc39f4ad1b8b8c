//! How an agent begins: it creates the group, or takes over one whose agent has died.
//!
//! A creator holds the name first, then the port; if the port is taken it lets go of the name,
//! for the port's group may have lost its agent just now, and a member of that group needs the
//! name for the successor.

use core::fmt;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::io::Errno;

use super::events::Source;
use super::farewells::Farewells;
use super::held::Held;
use super::management::Management;
use super::members::find_alive;
use super::queued::Queued;
use super::{Agent, Outcome, Report, holder};
use crate::counters::Totals;
use crate::random::random;
use crate::services::Services;
use crate::slots::Slots;
use crate::table::{Incarnation, Owner, Table};
use crate::vault::Vault;
use crate::{group, limit, name};

/// How an agent is started.
#[derive(Debug)]
pub struct ServeOptions {
    /// Who wants to know how it went.
    pub report: Report,
    /// What a member hands to a successor.
    pub inherited: Option<Inherited>,
    /// After how long without members to exit.
    pub idle_limit: Duration,
}

/// What a successor gets from the member that starts it.
#[derive(Debug)]
pub struct Inherited {
    /// The vault's receiving end.
    pub vault: OwnedFd,
    /// The socket that holds the agent's name.
    pub name: OwnedFd,
}

/// Why an agent does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServeError {
    /// There is an agent already.
    AnotherServes,
    /// The port is taken by something that is no group with an agent.
    PortTaken(String),
    /// Something failed.
    Failed(String),
}

/// How long to wait for a group's members to start a successor.
const SUCCESSOR_PATIENCE: Duration = Duration::from_secs(2);
/// How often to look.
const RETRY: Duration = Duration::from_millis(20);

/// Runs an agent until it is idle or stopped.
///
/// # Errors
/// It could not start; the report has told the same to whoever started it.
pub fn serve(options: ServeOptions) -> Result<(), ServeError> {
    let ServeOptions { mut report, inherited, idle_limit } = options;
    limit::raise();
    let agent = match inherited {
        None => create(idle_limit),
        Some(inherited) => succeed(inherited, idle_limit),
    };
    let mut agent = match agent {
        Ok(agent) => agent,
        Err(error) => {
            report.send(&error.clone().into());
            return Err(error);
        }
    };
    report.send(&Outcome::Serving);
    drop(report);
    agent.run().map_err(failed("waiting for events failed"))
}

/// Creates the group.
fn create(idle_limit: Duration) -> Result<Agent, ServeError> {
    let (listener, sockets) = name_and_port()?;
    let random = random();
    let table = Table::create(random).map_err(memory)?;
    let totals = Totals::create().map_err(memory)?;
    let mut vault = Vault::create(random, table.as_fd(), totals.as_fd()).map_err(vault_failed)?;
    vault.park(0, &sockets).map_err(vault_failed)?;
    let total = sockets.len() as u16;
    table.set_total(total).map_err(memory)?;
    let slots = Slots::new(total, random);
    Agent::new(Parts { listener, vault, table, totals, slots, idle_limit, is_successor: false })
}

/// The name, the port's sockets, and nobody else in between.
fn name_and_port() -> Result<(OwnedFd, Vec<OwnedFd>), ServeError> {
    let give_up = Instant::now() + SUCCESSOR_PATIENCE;
    let mut wanted = None;
    loop {
        let held_up = match name::hold(name::AGENT) {
            Ok(name) => match group::create() {
                Ok(sockets) => return Ok((name, sockets)),
                Err(Errno::ADDRINUSE) => HeldUp::Port,
                Err(error) => return Err(failed("UDP port 4791 cannot be opened")(error)),
            },
            Err(Errno::ADDRINUSE) => HeldUp::Name,
            Err(error) => return Err(failed("the agent's unix socket cannot be opened")(error)),
        };
        // Whoever is there answers, or will: the kernel queues connections for it.
        if name::reach(name::AGENT).is_ok() {
            return Err(ServeError::AnotherServes);
        }
        if Instant::now() > give_up {
            return Err(match held_up {
                HeldUp::Port => ServeError::PortTaken(holder::describe()),
                HeldUp::Name => ServeError::Failed(
                    "the agent's unix socket name (@converb/agent/1) is held by a process that \
                     does not serve it: `ss -xlp | grep converb` shows it"
                        .into(),
                ),
            });
        }
        if wanted.is_none() {
            // Members start a successor at once when an agent dies, but after a person stopped it
            // they wait until somebody needs one. If another newcomer says so already, good.
            wanted =
                name::hold(name::WANTED).and_then(|name| name::listen(&name).map(|()| name)).ok();
        }
        std::thread::sleep(RETRY);
    }
}

enum HeldUp {
    Name,
    Port,
}

/// Takes over what an agent left that died.
fn succeed(inherited: Inherited, idle_limit: Duration) -> Result<Agent, ServeError> {
    let listener = inherited.name;
    let found = Vault::inherit(inherited.vault).map_err(failed("the vault cannot be read"))?;
    let mut table = Table::inherit(found.table, found.vault.group()).map_err(memory)?;
    // Counters are a convenience: without the old ones there are new ones.
    let totals = Totals::inherit(found.totals).or_else(|_| Totals::create()).map_err(memory)?;
    let slots = Slots::new(found.slots, random());
    let owners: Vec<(u16, Owner)> = (1..found.slots)
        .map(|slot| table.owner(slot).map(|owner| (slot, owner)))
        .collect::<Result<_, _>>()
        .map_err(memory)?;
    let knows_processes = table.is_from_this_namespace();
    table.adopt().map_err(memory)?;
    let mut agent = Agent::new(Parts {
        listener,
        vault: found.vault,
        table,
        totals,
        slots,
        idle_limit,
        is_successor: true,
    })?;
    for (slot, owner) in owners {
        let (Owner::Process(process) | Owner::Carried(process, _)) = owner else { continue };
        if !knows_processes || process.pid == 0 {
            // It may live, and nobody can tell: the slot stays its own until it comes back.
            agent.await_member(slot, Incarnation { pid: 0, start_time: 0 }, owner, None);
        } else if let Some(pidfd) = find_alive(process) {
            agent.await_member(slot, process, owner, Some(pidfd));
        } else {
            agent.rest_slot(slot);
        }
    }
    Ok(agent)
}

/// What an agent is made of.
struct Parts {
    listener: OwnedFd,
    vault: Vault,
    table: Table,
    totals: Totals,
    slots: Slots,
    idle_limit: Duration,
    is_successor: bool,
}

impl Agent {
    fn new(parts: Parts) -> Result<Self, ServeError> {
        let Parts { listener, vault, table, totals, slots, idle_limit, is_successor } = parts;
        let history = totals.history().map_err(memory)?;
        let slot = || vault.copy(0).map_err(vault_failed);
        let management = Management::new(slot()?, slot()?)
            .map_err(|error| ServeError::Failed(error.to_string()))?;
        // A predecessor may have died between parking sockets and selecting them.
        group::select(management.socket(), slots.total())
            .map_err(failed("the group's selector cannot be attached"))?;
        name::listen(&listener).map_err(failed("the agent's unix socket cannot listen"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(failed("no epoll descriptor can be made"))?;
        let agent = Self {
            epoll,
            listener,
            vault,
            table,
            totals,
            history,
            slots,
            management,
            services: Services::default(),
            members: BTreeMap::new(),
            visitors: BTreeMap::new(),
            carriage: None,
            held: Held::default(),
            queued: Queued::default(),
            farewells: Farewells::default(),
            last_number: 0,
            started: Instant::now(),
            idle_since: Duration::ZERO,
            idle_limit,
            no_growth_until: Duration::ZERO,
            is_successor,
            is_stopping: false,
        };
        let watched = agent
            .watch(&agent.listener, Source::Listener)
            .and_then(|()| agent.watch(agent.management.socket(), Source::Management));
        watched.map_err(failed("events cannot be watched"))?;
        Ok(agent)
    }
}

fn failed(what: &'static str) -> impl Fn(Errno) -> ServeError {
    move |error| ServeError::Failed(format!("{what}: {error}"))
}

fn memory(error: std::io::Error) -> ServeError {
    let error = crate::error::with_advice(&error);
    ServeError::Failed(format!("the agent's shared memory cannot be used: {error}"))
}

fn vault_failed(error: Errno) -> ServeError {
    ServeError::Failed(match error {
        Errno::TOOMANYREFS => {
            "this user has too many descriptors in flight in unix sockets already, over all \
             programs and namespaces: end the program that keeps them there, or stop other agents"
                .into()
        }
        _ => format!("the slots' sockets cannot be parked: {error}"),
    })
}

impl From<ServeError> for Outcome {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::AnotherServes => Self::AnotherServes,
            ServeError::PortTaken(text) => Self::PortTaken(text),
            ServeError::Failed(text) => Self::Failed(text),
        }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnotherServes => {
                formatter.write_str("another agent serves this network namespace already")
            }
            Self::PortTaken(text) => {
                write!(
                    formatter,
                    "{text}; RoCEv2 allows one group of sockets on this port in a network \
                     namespace: stop that, or use another network namespace"
                )
            }
            Self::Failed(text) => formatter.write_str(text),
        }
    }
}

impl std::error::Error for ServeError {}
