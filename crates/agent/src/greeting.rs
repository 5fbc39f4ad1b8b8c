//! Saying hello to the agent, with or without waiting for the answer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::JoinError;
use crate::identity::{Peer, User, identify};
use crate::process;
use crate::protocol::{Header, Hello, Name, Refusal, Reply, Request, Role, VERSION};
use crate::{name, transfer};

/// A connection to an agent, of whatever user.
#[derive(Debug)]
pub struct Connection {
    /// The socket.
    pub socket: OwnedFd,
    /// The agent.
    pub agent: Peer,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum NoConnection {
    /// Nobody serves the name.
    Nobody,
    /// Somebody does, or did a moment ago: ask again.
    Later,
    /// Asking again does not help.
    Never(JoinError),
}

/// Connects to the agent.
pub fn connect() -> Result<Connection, NoConnection> {
    let socket = match name::reach(name::AGENT) {
        Ok(socket) => socket,
        Err(Errno::CONNREFUSED) => return Err(NoConnection::Nobody),
        Err(Errno::AGAIN | Errno::INTR) => return Err(NoConnection::Later),
        Err(error @ (Errno::ACCESS | Errno::PERM)) => {
            return Err(NoConnection::Never(JoinError::NoPermission(error)));
        }
        Err(error) => {
            let what = "the agent's unix socket cannot be reached";
            return Err(NoConnection::Never(JoinError::System(what, error)));
        }
    };
    match identify(&socket) {
        Some(agent) => Ok(Connection { socket, agent }),
        None => Err(NoConnection::Later),
    }
}

impl Connection {
    /// Whether the agent is our own user's, so that it may give us, and we may take, descriptors
    /// that are power over the group.
    pub fn is_of_same_user(&self) -> bool {
        self.agent.user == User::Same
    }

    /// The error for what only our own user's agent does for us.
    pub fn of_another_user(&self) -> JoinError {
        JoinError::AgentOfAnotherUser { uid: self.agent.uid, pid: self.agent.pid }
    }

    /// `error`, with a word about whose the process is that holds the agent's name, if it is
    /// another user's: it may be no agent at all.
    pub fn explain(&self, error: JoinError) -> JoinError {
        match error {
            JoinError::Protocol | JoinError::Timeout(_) if !self.is_of_same_user() => {
                JoinError::Stranger { uid: self.agent.uid, pid: self.agent.pid }
            }
            other => other,
        }
    }
}

/// Sends a hello, with a counter page if there is one.
pub fn say_hello(
    socket: BorrowedFd<'_>,
    role: Role,
    offered: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let hello = Request::Hello(Hello { role, program: Name::new(&process::own_name()) });
    transfer::send(socket, &hello.emit(), offered)
}

/// One message of the agent's and what came with it.
#[derive(Debug)]
pub struct Answer {
    /// The message.
    pub reply: Reply,
    /// The version of the agent's protocol.
    pub version: u16,
    /// The descriptors.
    pub descriptors: Vec<OwnedFd>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// Not yet.
    NotYet,
    /// The connection has ended: the agent is gone.
    Gone,
    /// What came is no message of ours.
    Malformed,
}

/// Takes an answer that has arrived.
pub fn take_answer(socket: BorrowedFd<'_>) -> Result<Answer, NoAnswer> {
    let mut buffer = transfer::buffer();
    let received = match transfer::receive(socket, &mut buffer) {
        Ok(received) => received,
        Err(Errno::AGAIN) => return Err(NoAnswer::NotYet),
        Err(_) => return Err(NoAnswer::Gone),
    };
    if received.length == 0 {
        return Err(NoAnswer::Gone);
    }
    let message = &buffer[..received.length];
    let header = Header::parse(message).map_err(|_| NoAnswer::Malformed)?;
    if received.truncated {
        // Most likely our limit of open files is reached.
        return Err(NoAnswer::Malformed);
    }
    let reply = match Reply::parse(message) {
        // A refusal of another version may have fields that we do not know.
        _ if header.version != VERSION => Reply::Refused(Refusal::Version),
        Ok(reply) => reply,
        Err(_) => return Err(NoAnswer::Malformed),
    };
    Ok(Answer { reply, version: header.version, descriptors: received.descriptors })
}

/// Waits for an answer until `deadline`; `NoAnswer::NotYet` if none came.
pub fn await_answer(socket: BorrowedFd<'_>, deadline: Instant) -> Result<Answer, NoAnswer> {
    loop {
        match take_answer(socket) {
            Err(NoAnswer::NotYet) if wait_readable(socket, deadline) => {}
            other => return other,
        }
    }
}

/// Waits until `descriptor` is readable or at its end; false if that is not so at `deadline`.
pub fn wait_readable(descriptor: impl AsFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let limit = Timespec::try_from(left).ok();
        let mut set = [PollFd::new(&descriptor, PollFlags::IN)];
        match poll(&mut set, limit.as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
