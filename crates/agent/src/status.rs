//! Asking the agent, and stopping it: what `converb agent status|stop` and `converb devices` do.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::error::JoinError;
use crate::greeting::{
    Answer, Connection, NoAnswer, NoConnection, await_answer, connect, say_hello,
};
use crate::protocol::{
    DeviceReply, FailureEntry, MemberEntry, Refusal, Reply, Request, Role, StatusReply,
};
use crate::server::is_port_in_use;
use crate::transfer;

/// The agent of this network namespace and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The agent itself.
    pub agent: StatusReply,
    /// Its members.
    pub members: Vec<MemberEntry>,
}

/// One device's counters, of all programs that used it since the group exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCounters {
    /// The device.
    pub device: String,
    /// Names and values, in the order in which programs gave them.
    pub counters: Vec<(String, u64)>,
}

/// What came of stopping the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// There is none.
    NoAgent,
    /// It has exited.
    Stopped {
        /// Its process.
        pid: u32,
    },
    /// It has members, and was not forced.
    HasMembers(Vec<MemberEntry>),
}

/// How long to wait for an answer, or for a successor.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// Asks the agent of this network namespace how it is; `None` if there is no agent. Where an
/// agent has just died, this waits for its successor.
///
/// # Errors
/// There is one, but it does not answer us.
pub fn status() -> Result<Option<Status>, JoinError> {
    let Some(observer) = Observer::open()? else { return Ok(None) };
    let Reply::Status(agent) = observer.ask(&Request::StatusQuery)? else {
        return Err(JoinError::Protocol);
    };
    Ok(Some(Status { agent, members: observer.members()? }))
}

/// The counters of all devices that were ever used in this network namespace since the group of
/// slots exists, including those of programs that have ended; `None` if there is no agent.
///
/// # Errors
/// There is one, but it does not answer us.
pub fn device_counters() -> Result<Option<Vec<DeviceCounters>>, JoinError> {
    let Some(observer) = Observer::open()? else { return Ok(None) };
    let mut all = Vec::new();
    loop {
        let index = all.len() as u16;
        let Reply::Device(device) = observer.ask(&Request::CountersQuery { index })? else {
            return Err(JoinError::Protocol);
        };
        if index >= device.devices {
            return Ok(Some(all));
        }
        all.push(device.into());
    }
}

/// What failed last in this user's programs in this network namespace, newest first, also in those
/// that have ended since the agent is there; `None` if there is no agent.
///
/// # Errors
/// There is one, but it does not answer us, or is of a release that keeps none.
pub fn failures() -> Result<Option<Vec<FailureEntry>>, JoinError> {
    let Some(observer) = Observer::open()? else { return Ok(None) };
    let mut failures = Vec::new();
    loop {
        let from = failures.len() as u16;
        let answer = observer.ask_any(&Request::FailuresQuery { from })?;
        let some = match answer.reply {
            Reply::Failures(some) => some,
            Reply::Refused(Refusal::Malformed) => return Err(JoinError::OldAgent),
            Reply::Refused(_) => return Err(observer.refusal(&answer)),
            _ => return Err(JoinError::Protocol),
        };
        failures.extend(some.entries.iter().copied());
        if some.entries.is_empty() || failures.len() >= usize::from(some.total) {
            return Ok(Some(failures));
        }
    }
}

/// Stops the agent. Without `force` it refuses while it has members. With it, members go on
/// undisturbed, and start another agent only when a new program needs one.
///
/// # Errors
/// There is an agent, but it does not answer us.
pub fn stop(force: bool) -> Result<Stopped, JoinError> {
    let Some(observer) = Observer::open()? else { return Ok(Stopped::NoAgent) };
    match observer.ask_any(&Request::Stop { force })?.reply {
        Reply::Goodbye => {
            let pid = observer.connection.agent.pid;
            // The process is gone when its descriptor is readable; without one, when its end of
            // the connection is.
            let deadline = Instant::now() + PATIENCE;
            match &observer.connection.agent.pidfd {
                Some(pidfd) => crate::greeting::wait_readable(pidfd, deadline),
                None => crate::greeting::wait_readable(&observer.connection.socket, deadline),
            };
            Ok(Stopped::Stopped { pid })
        }
        Reply::Refused(Refusal::HasMembers { .. }) => {
            // A refusal ends the conversation.
            let members = Observer::open()?.map(|observer| observer.members()).transpose()?;
            Ok(Stopped::HasMembers(members.unwrap_or_default()))
        }
        Reply::Refused(Refusal::OtherUser) => Err(observer.connection.of_another_user()),
        _ => Err(JoinError::Protocol),
    }
}

/// A conversation with the agent as one who only asks.
struct Observer {
    connection: Connection,
    deadline: Instant,
}

impl Observer {
    fn open() -> Result<Option<Self>, JoinError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match connect() {
                Ok(connection) => {
                    let observer = Self { connection, deadline };
                    let socket = observer.connection.socket.as_fd();
                    let said = say_hello(socket, Role::Observe, &[]);
                    match said.map(|()| observer.next()) {
                        Ok(Ok(answer)) if matches!(answer.reply, Reply::Welcome(_)) => {
                            return Ok(Some(observer));
                        }
                        Ok(Err(Unanswered::Gone)) | Err(_) => {}
                        Ok(Err(Unanswered::Error(error))) => {
                            return Err(observer.connection.explain(error));
                        }
                        Ok(Ok(answer)) => return Err(observer.refusal(&answer)),
                    }
                }
                Err(NoConnection::Nobody) if !is_port_in_use() => return Ok(None),
                // The port is in use: by a group whose successor is about to start, or by
                // something else.
                Err(NoConnection::Nobody) if Instant::now() > deadline => return Ok(None),
                Err(NoConnection::Nobody | NoConnection::Later) => {}
                Err(NoConnection::Never(error)) => return Err(error),
            }
            if Instant::now() > deadline {
                return Err(JoinError::Timeout("the agent does not answer"));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn members(&self) -> Result<Vec<MemberEntry>, JoinError> {
        let mut members = Vec::new();
        loop {
            let from = members.len() as u16;
            let Reply::Members(some) = self.ask(&Request::MembersQuery { from })? else {
                return Err(JoinError::Protocol);
            };
            members.extend(some.entries.iter().cloned());
            if some.entries.is_empty() || members.len() >= usize::from(some.total) {
                return Ok(members);
            }
        }
    }

    /// Asks, where a refusal is an error.
    fn ask(&self, request: &Request) -> Result<Reply, JoinError> {
        let answer = self.ask_any(request)?;
        match answer.reply {
            Reply::Refused(_) => Err(self.refusal(&answer)),
            reply => Ok(reply),
        }
    }

    fn refusal(&self, answer: &Answer) -> JoinError {
        match answer.reply {
            Reply::Refused(Refusal::OtherUser) => self.connection.of_another_user(),
            Reply::Refused(refusal) => JoinError::refused(refusal, answer.version),
            _ => self.connection.explain(JoinError::Protocol),
        }
    }

    fn ask_any(&self, request: &Request) -> Result<Answer, JoinError> {
        let gone = || JoinError::Timeout("the agent died before it answered");
        transfer::send(&self.connection.socket, &request.emit(), &[]).map_err(|_| gone())?;
        self.next().map_err(|unanswered| match unanswered {
            Unanswered::Gone => gone(),
            Unanswered::Error(error) => error,
        })
    }

    fn next(&self) -> Result<Answer, Unanswered> {
        await_answer(self.connection.socket.as_fd(), self.deadline).map_err(|none| match none {
            NoAnswer::Gone => Unanswered::Gone,
            NoAnswer::NotYet => Unanswered::Error(JoinError::Timeout("the agent does not answer")),
            NoAnswer::Malformed => Unanswered::Error(JoinError::Protocol),
        })
    }
}

/// Why a question has no answer.
enum Unanswered {
    Gone,
    Error(JoinError),
}

impl From<DeviceReply> for DeviceCounters {
    fn from(reply: DeviceReply) -> Self {
        let counters = reply.counters.iter();
        Self {
            device: reply.name.as_str().to_owned(),
            counters: counters.map(|(name, value)| (name.as_str().to_owned(), *value)).collect(),
        }
    }
}
