//! What a member does when its agent is gone: start a successor, or find the one that another
//! member has started.
//!
//! ```text
//!               hang-up                  connected             welcome
//!   Served ----------------> Unserved ---------------> Greeting -------> Served
//!     |                       ^    |  nobody there and                      ^
//!     | goodbye               |    |  the name is free:                     |
//!     v        a newcomer     |    v  start a successor                     |
//!   Stopped ------------------+   (try again soon)                          |
//!                                                    refused: Lost          |
//! ```
//!
//! Each step is short and none waits, since the thread that takes them also moves packets; the
//! longest is to start a process, a millisecond or two.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdTimerFlags, timerfd_settime};

use super::Membership;
use super::heirs::Letter;
use super::join::{Granted, Shared, agent_arguments};
use super::rings::Rings;
use crate::error::JoinError;
use crate::greeting::{Answer, NoAnswer, NoConnection, connect, say_hello, take_answer};
use crate::name;
use crate::protocol::{Refusal, Reply};
use crate::start::start;

/// How a member stands with the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// An agent knows it.
    Served,
    /// There is no agent just now. Slots work as before.
    Unserved,
    /// The agent does not accept its slots as its own any more, since the group is another one.
    /// This can happen only after the program has closed the membership's descriptors, or, where
    /// another user's agent carried our datagrams, when the group has ended with its agent.
    Lost,
}

/// Where a member is on its way back to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The connection is good.
    Served,
    /// There is none; the attempts since then.
    Unserved { attempts: u32 },
    /// The hello is sent, at the attempt of that number.
    Greeting { attempts: u32, give_up: Instant },
    /// The agent was stopped by a person: no successor until somebody needs one.
    Stopped,
    /// No agent will have us.
    Lost,
}

/// How often to try at the start: soon, for a newcomer may wait.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// When it does not get better: no program to start, or one that does not work.
const PATIENT_PAUSE: Duration = Duration::from_secs(1);
const PATIENT_AFTER: u32 = 100;
/// How long an agent may take to die, or a successor to answer.
const GREETING_LIMIT: Duration = Duration::from_secs(1);
const DYING_ATTEMPTS: u32 = 20;
/// How often to look for newcomers after the agent was stopped.
const STOPPED_PAUSE: Duration = Duration::from_millis(500);

impl Membership {
    /// A descriptor that is readable when [`Membership::handle_event`] has something to do. Ask
    /// again after each call of that, and after [`Membership::fetch_slots_again`]. `None` in a
    /// fork child.
    pub fn watch_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.epoll.get()
    }

    /// Makes [`Membership::watch_fd`] readable, so that whoever waits for it looks around.
    pub fn wake(&self) {
        self.set_timer(Duration::from_nanos(1));
    }

    /// Takes the next step, and says how things stand then. Returns at once if another thread is
    /// at it.
    pub fn handle_event(&self) -> Standing {
        let Ok(mut phase) = self.phase.try_lock() else { return Standing::Unserved };
        self.renew_watch();
        self.reset_timer();
        self.ask_for_rings(*phase);
        *phase = match *phase {
            Phase::Served => self.handle_message(),
            Phase::Unserved { attempts } => self.reconnect(attempts),
            Phase::Greeting { attempts, give_up } => self.handle_greeting(attempts, give_up),
            Phase::Stopped => self.look_around(),
            Phase::Lost => Phase::Lost,
        };
        match *phase {
            Phase::Served => Standing::Served,
            Phase::Unserved { .. } | Phase::Greeting { .. } | Phase::Stopped => Standing::Unserved,
            Phase::Lost => Standing::Lost,
        }
    }

    fn handle_message(&self) -> Phase {
        let Some(connection) = self.connection.get() else { return Phase::Lost };
        match take_answer(connection) {
            Err(NoAnswer::NotYet) => Phase::Served,
            Ok(answer) if answer.reply == Reply::Goodbye => {
                self.forget_connection();
                if self.carried_by.is_some() {
                    // Without an agent nothing arrives here.
                    self.renewal.call();
                    return self.pause(Phase::Unserved { attempts: 0 }, FIRST_PAUSE);
                }
                self.pause(Phase::Stopped, STOPPED_PAUSE)
            }
            Ok(Answer { reply: Reply::Ring { slot, generation }, descriptors, .. }) => {
                if let Some(rings) = &self.rings {
                    rings.keep(slot, generation, descriptors);
                }
                Phase::Served
            }
            Ok(Answer { reply: Reply::Served { token, served }, .. }) => {
                self.serving.answer(token, served);
                Phase::Served
            }
            Ok(Answer { reply: Reply::Management(datagram), .. }) => {
                self.serving.keep(datagram);
                Phase::Served
            }
            Ok(answer) if self.carried_by.is_some() => self.handle_renewal(answer),
            Ok(Answer { reply: Reply::Letter { bytes }, descriptors, .. }) => {
                self.letters.put(Letter { bytes, descriptors });
                Phase::Served
            }
            // A message that nobody asked for: of a newer agent, perhaps.
            Ok(_) => Phase::Served,
            Err(NoAnswer::Gone | NoAnswer::Malformed) => {
                self.forget_connection();
                self.reconnect(0)
            }
        }
    }

    /// After a person has stopped the agent: comes back once there is another one, or somebody
    /// waits for one.
    fn look_around(&self) -> Phase {
        let is_wanted = name::reach(name::WANTED).is_ok() || name::reach(name::AGENT).is_ok();
        if is_wanted { self.reconnect(0) } else { self.pause(Phase::Stopped, STOPPED_PAUSE) }
    }

    /// Looks for an agent, and starts one if there is none.
    fn reconnect(&self, attempts: u32) -> Phase {
        let next = Phase::Unserved { attempts: attempts.saturating_add(1) };
        let pause = match attempts {
            PATIENT_AFTER.. => PATIENT_PAUSE,
            _ => LONGEST_PAUSE.min(FIRST_PAUSE * 2_u32.pow(attempts.min(10))),
        };
        match connect() {
            // What we keep of the group is for our own user's agent, and what other users' agents
            // carry is not for us: the group is another one, but it may not be the last.
            Ok(connection) if self.carried_by.is_none() && !connection.is_of_same_user() => {
                self.pause(next, PATIENT_PAUSE)
            }
            Ok(connection) => {
                let socket = connection.socket.as_fd();
                if say_hello(socket, self.rejoin(false), &self.offered()).is_err() {
                    return self.pause(next, pause);
                }
                self.connection.set(connection.socket);
                self.agent.clear();
                if let Some(agent) = connection.agent.pidfd {
                    self.agent.set(agent);
                }
                let give_up = Instant::now() + GREETING_LIMIT;
                // Without an event we would still look when the limit is over.
                let _ = self.watch_connection();
                self.pause(Phase::Greeting { attempts, give_up }, GREETING_LIMIT)
            }
            Err(NoConnection::Nobody) if self.is_agent_dying() && attempts < DYING_ATTEMPTS => {
                // What it holds is not all closed yet; sockets that it had not parked would shift
                // the successor's.
                self.pause(next, FIRST_PAUSE)
            }
            Err(NoConnection::Nobody) if self.carried_by.is_some() => self.pause(next, pause),
            Err(NoConnection::Nobody) => match self.start_successor() {
                Ok(()) => self.pause(next, FIRST_PAUSE),
                Err(_) => self.pause(next, pause),
            },
            Err(NoConnection::Later) => self.pause(next, pause),
            Err(NoConnection::Never(_)) => self.pause(next, PATIENT_PAUSE),
        }
    }

    fn handle_greeting(&self, attempts: u32, give_up: Instant) -> Phase {
        let Some(connection) = self.connection.get() else { return Phase::Lost };
        let answer = match take_answer(connection) {
            Ok(answer) => answer,
            Err(NoAnswer::NotYet) if Instant::now() < give_up => {
                let left = give_up.saturating_duration_since(Instant::now());
                return self.pause(Phase::Greeting { attempts, give_up }, left);
            }
            Err(_) => {
                self.forget_connection();
                return self.reconnect(attempts.saturating_add(1));
            }
        };
        match answer.reply {
            // The vault is the one that we have; if it was closed behind our back, now we have it
            // again.
            Reply::Welcome(_) => {
                if let Ok([vault, table]) = <[_; 2]>::try_from(answer.descriptors) {
                    self.vault.set(vault);
                    self.table.set(table);
                }
                self.serve_again();
                self.bequeath_again();
                Phase::Served
            }
            // The ends of pairs follow.
            Reply::CarriedWelcome(_) => {
                self.renewal.call_no_more();
                self.serve_again();
                self.bequeath_again();
                Phase::Served
            }
            Reply::Refused(Refusal::SlotLost) => {
                self.forget_connection();
                self.renewal.call_no_more();
                Phase::Lost
            }
            _ => {
                self.forget_connection();
                self.pause(Phase::Unserved { attempts: attempts.saturating_add(1) }, LONGEST_PAUSE)
            }
        }
    }

    /// Races for the name; the winner starts the successor and gives it the name and the vault.
    fn start_successor(&self) -> Result<(), JoinError> {
        let program = self.program.as_deref().ok_or(JoinError::NoProgram)?;
        let vault = self.vault.get().ok_or(JoinError::Protocol)?;
        let name = name::hold(name::AGENT)
            .map_err(|error| JoinError::System("the name is not to be had", error))?;
        // Nobody waits for the report: if the successor fails, the name becomes free again.
        let (_reader, report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| JoinError::System("a pipe cannot be made", error))?;
        let inherited = [report.as_fd(), vault, name.as_fd()];
        start(program, &agent_arguments(true), &inherited)
            .map_err(|error| JoinError::BadProgram { path: program.to_owned(), error })
    }

    /// Takes over what an agent has granted again.
    pub(super) fn keep(
        &self,
        granted: Granted,
    ) -> Result<Vec<(u16, std::os::fd::OwnedFd)>, JoinError> {
        let Granted { connection, shared, slots, .. } = granted;
        let system = |error| JoinError::System("events cannot be watched", error);
        let (epoll, timer) = Self::new_watch().map_err(system)?;
        self.connection.set(connection.socket);
        if let Some(agent) = connection.agent.pidfd {
            self.agent.set(agent);
        }
        if let Shared::Kept { vault, table } = shared {
            self.vault.set(vault);
            self.table.set(table);
        }
        self.epoll.set(epoll);
        self.timer.set(timer);
        self.watch_all().map_err(system)?;
        Ok(slots)
    }

    /// Makes the set and the timer anew if the program has closed them, for whoever waits on a
    /// closed descriptor waits no time at all.
    fn renew_watch(&self) {
        if self.epoll.is_open() && self.timer.is_open() || self.epoll.get().is_none() {
            return;
        }
        // Without descriptors to be had there is nothing to wait on; the next call tries again.
        let Ok((epoll, timer)) = Self::new_watch() else { return };
        self.epoll.set(epoll);
        self.timer.set(timer);
        let _ = self.watch_all();
    }

    /// Puts the connection and the bell into the set that is watched.
    pub(super) fn watch_all(&self) -> Result<(), Errno> {
        let epoll = self.epoll.get().ok_or(Errno::BADF)?;
        if let Some(bell) = self.rings.as_ref().and_then(Rings::missed_bell) {
            // If the program has closed it, packets of others are dropped from now on.
            let _ = epoll::add(epoll, bell, epoll::EventData::new_u64(2), epoll::EventFlags::IN);
        }
        self.watch_connection()
    }

    fn watch_connection(&self) -> Result<(), Errno> {
        let (epoll, connection) = self.epoll.get().zip(self.connection.get()).ok_or(Errno::BADF)?;
        epoll::add(epoll, connection, epoll::EventData::new_u64(1), epoll::EventFlags::IN)
    }

    fn forget_connection(&self) {
        if let (Some(epoll), Some(connection)) = (self.epoll.get(), self.connection.get()) {
            // A forked child may hold the connection open: closing ours would leave it in the
            // set, where its end would be reported for ever.
            let _ = epoll::delete(epoll, connection);
        }
        self.connection.clear();
    }

    /// Whether the agent's process has not ended yet, though its connection has.
    fn is_agent_dying(&self) -> bool {
        let Some(agent) = self.agent.get() else { return false };
        let mut set = [PollFd::new(&agent, PollFlags::IN)];
        poll(&mut set, Some(&Timespec::default())) == Ok(0)
    }

    /// Comes back to `phase` after `pause`.
    fn pause(&self, phase: Phase, pause: Duration) -> Phase {
        self.set_timer(pause);
        phase
    }

    fn reset_timer(&self) {
        self.set_timer(Duration::ZERO);
    }

    /// Setting a timer also takes back that it has expired; zero switches it off.
    fn set_timer(&self, after: Duration) {
        let Some(timer) = self.timer.get() else { return };
        // It fails only if the program closed the timer; then there are no events either.
        let _ = set(timer, after);
    }
}

/// Marks a new timer, so that it is told from others.
pub(super) fn mark(timer: &OwnedFd) -> Result<(), Errno> {
    set(timer.as_fd(), Duration::ZERO)
}

fn set(timer: BorrowedFd<'_>, after: Duration) -> Result<(), Errno> {
    let value = Timespec::try_from(after).unwrap_or_default();
    let time = Itimerspec { it_interval: MARK_OF_TIMER, it_value: value };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &time).map(|_| ())
}

/// An interval that nobody waits for: thirty years.
const MARK_OF_TIMER: Timespec = Timespec { tv_sec: 983_045_071, tv_nsec: 192_837_465 };
