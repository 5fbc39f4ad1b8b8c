//! A process's membership in the group that owns the port.
//!
//! `join` gets it; `carried` is what differs for one whose datagrams another user's agent carries;
//! `takeover` keeps it when the agent dies; `serving` takes services; `rings` gets packets to and from the group's other
//! members.

mod carried;
mod heirs;
mod join;
mod rings;
mod serving;
mod takeover;
mod testament;

pub use carried::CarriedBy;
pub use heirs::{Letter, Undelivered};
pub use join::{JoinOptions, PROGRAM_VARIABLE};
pub use serving::NotServed;
pub use takeover::Standing;

use core::mem;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use converb_link::Kept;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use crate::counters::CounterPage;
use crate::error::JoinError;
use crate::greeting::connect;
use crate::protocol::{Request, Role};
use crate::transfer;
use carried::Renewal;
use heirs::Letters;
use join::{Granted, NotGranted, Shared, greet, join, offered};
use rings::Rings;
use serving::Serving;
use takeover::Phase;
use testament::Testament;

/// What makes a process a member: its slots, and its part in keeping the group alive.
///
/// While a membership lives, no slot of the group closes, whatever happens to the agent. In
/// return the member has to take its turn when the agent dies: some thread polls
/// [`Membership::watch_fd`] and calls [`Membership::handle_event`] when it is readable. Nothing
/// that the program does waits for that, and nothing fails because of it.
///
/// Dropping a membership gives the slots back; their descriptors should be closed by then.
#[derive(Debug)]
pub struct Membership {
    /// The slots that the caller has not taken.
    slots: Vec<(u16, Kept)>,
    numbers: Mutex<Vec<u16>>,
    group: u64,
    page: CounterPage,
    program: Option<PathBuf>,
    /// The connection to the agent.
    connection: Kept,
    /// The agent's process, to know when all that it held is closed.
    agent: Kept,
    vault: Kept,
    table: Kept,
    epoll: Kept,
    timer: Kept,
    phase: Mutex<Phase>,
    rings: Option<Rings>,
    /// Who carries our datagrams, if we have no sockets.
    carried_by: Option<CarriedBy>,
    renewal: Renewal,
    letters: Letters,
    serving: Serving,
    testament: Testament,
}

impl Membership {
    /// Joins the group of this network namespace, and starts an agent if there is none.
    ///
    /// # Errors
    /// Each says what is wrong and what to do; see [`JoinError`].
    pub fn join(options: &JoinOptions) -> Result<Self, JoinError> {
        let page = CounterPage::create(&options.counters).map_err(JoinError::Counters)?;
        let system = |what| move |error| JoinError::System(what, error);
        let rings = options.has_ring.then(Rings::create).and_then(Result::ok);
        let granted = join(options, &page, rings.as_ref())?;
        let (epoll, timer) = Self::new_watch().map_err(system("events cannot be watched"))?;
        let Granted { connection, group, shared, slots } = granted;
        let (vault, table, carried_by) = match shared {
            Shared::Kept { vault, table } => (Kept::new(vault), Kept::new(table), None),
            Shared::Carried { receive_buffer_bytes } => {
                let by = CarriedBy::new(&connection.agent, receive_buffer_bytes);
                (Kept::none(), Kept::none(), Some(by))
            }
        };
        // Rings lead into processes of the agent's user.
        let rings = rings.filter(|_| carried_by.is_none());
        let membership = Self {
            numbers: Mutex::new(slots.iter().map(|&(number, _)| number).collect()),
            slots: slots.into_iter().map(|(number, slot)| (number, Kept::new(slot))).collect(),
            group,
            page,
            program: options.program.clone(),
            connection: Kept::new(connection.socket),
            agent: connection.agent.pidfd.map_or(Kept::none(), Kept::new),
            vault,
            table,
            epoll: Kept::new(epoll),
            timer: Kept::new(timer),
            phase: Mutex::new(Phase::Served),
            rings,
            carried_by,
            renewal: Renewal::default(),
            letters: Letters::default(),
            serving: Serving::default(),
            testament: Testament::default(),
        };
        membership.watch_all().map_err(system("events cannot be watched"))?;
        Ok(membership)
    }

    /// The slots with their sockets, which are bound and nonblocking; for the caller to keep, and
    /// empty from the second call on. Never connect such a socket or bind it to a device: it
    /// would leave the group, and other slots' packets would go astray.
    pub fn take_slots(&mut self) -> Vec<(u16, OwnedFd)> {
        let slots = mem::take(&mut self.slots);
        slots.into_iter().filter_map(|(number, slot)| Some((number, slot.take()?))).collect()
    }

    /// The numbers of the slots, 1 to 1022.
    pub fn slot_numbers(&self) -> Vec<u16> {
        self.numbers().clone()
    }

    fn numbers(&self) -> MutexGuard<'_, Vec<u16>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group's number: the same for all members of a network namespace, random otherwise.
    pub fn group(&self) -> u64 {
        self.group
    }

    /// The counters of this process, which outlive it.
    pub fn counters(&self) -> &CounterPage {
        &self.page
    }

    /// The slot table, in which the agent writes who owns which slot; read-only. `None` in a fork
    /// child.
    pub fn slot_table(&self) -> Option<BorrowedFd<'_>> {
        self.table.get()
    }

    /// Fetches the slots' descriptors again, after the program has closed them behind our back
    /// (a call on one gave EBADF). Waits for the agent, but not beyond `deadline`. The vault and
    /// the descriptor to watch are made anew as well.
    ///
    /// # Errors
    /// There is no agent now, or it does not know us any more.
    pub fn fetch_slots_again(&self, deadline: Instant) -> Result<Vec<(u16, OwnedFd)>, JoinError> {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let role = self.rejoin(true);
            let result =
                connect().map(|connection| greet(connection, role, &self.offered(), deadline));
            match result {
                Ok(Ok(granted)) => {
                    let slots = self.keep(granted)?;
                    self.serve_again();
                    self.bequeath_again();
                    *phase = Phase::Served;
                    return Ok(slots);
                }
                Ok(Err(NotGranted::Never(error))) => return Err(error),
                Ok(Err(NotGranted::Later | NotGranted::NoSlots(_))) | Err(_)
                    if Instant::now() < deadline =>
                {
                    std::thread::sleep(core::time::Duration::from_millis(5));
                }
                Ok(Err(NotGranted::Later | NotGranted::NoSlots(_))) | Err(_) => {
                    return Err(JoinError::Timeout("the agent does not answer"));
                }
            }
        }
    }

    /// Closes in a fork child what belongs to the parent: the connection, the vault and all else
    /// that the membership keeps, without a word to the agent. The caller closes the slots'
    /// descriptors that it took. Else the child would keep the group's port after the parent's
    /// end. Takes no lock, so it may be called in the child of a multi-threaded parent.
    pub fn abandon_in_child(&self) {
        for kept in
            [&self.connection, &self.agent, &self.vault, &self.table, &self.epoll, &self.timer]
        {
            kept.clear();
        }
        self.renewal.abandon_in_child();
        if let Some(rings) = &self.rings {
            rings.abandon_in_child();
        }
        for (_, slot) in &self.slots {
            slot.clear();
        }
    }

    /// A set of descriptors to watch with a timer in it, which are told from others by numbers that
    /// nobody else has (see [`Kept`]).
    fn new_watch() -> Result<(OwnedFd, OwnedFd), Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = converb_link::raise(timerfd_create(TimerfdClockId::Monotonic, flags)?);
        takeover::mark(&timer)?;
        let data = epoll::EventData::new_u64(MARK_OF_SET);
        epoll::add(&epoll, &timer, data, epoll::EventFlags::IN)?;
        Ok((epoll, timer))
    }

    /// What goes with a hello.
    fn offered(&self) -> Vec<BorrowedFd<'_>> {
        offered(self.carried_by.is_some(), &self.page, self.rings.as_ref())
    }

    /// What the membership says to an agent that does not know it.
    fn rejoin(&self, wants_descriptors: bool) -> Role {
        let is_carried = self.carried_by.is_some();
        let (group, slots) = (self.group, self.slot_numbers());
        Role::Rejoin { group, slots, wants_descriptors, is_carried }
    }
}

/// Stands in the set that a membership watches, and larger than all else there.
const MARK_OF_SET: u64 = 0xfed5_c04e_7b00_0001;

impl Drop for Membership {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.get() {
            // An agent that does not hear it finds out by the hang-up.
            let _ = transfer::send(connection, &Request::Leave.emit(), &[]);
        }
    }
}
