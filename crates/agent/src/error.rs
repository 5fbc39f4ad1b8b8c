//! Why the agent cannot be used, in words that say what to do.

use core::fmt;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::protocol::{Malformed, Refusal, VERSION};

/// Why there is no membership, or no answer.
#[derive(Debug)]
pub enum JoinError {
    /// The agent of this network namespace belongs to another user.
    AgentOfAnotherUser {
        /// Its user, as this user namespace numbers it.
        uid: u32,
        /// Its process; 0 if it cannot be seen from here.
        pid: u32,
    },
    /// Another user's process holds the agent's name, and is silent or speaks something else.
    Stranger {
        /// Its user, as this user namespace numbers it.
        uid: u32,
        /// Its process; 0 if it cannot be seen from here.
        pid: u32,
    },
    /// There is no agent, and nothing tells where the program that could be one is.
    NoProgram,
    /// There is no agent, and its program cannot be executed.
    BadProgram {
        /// The program.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Something forbids unix sockets with abstract names.
    NoPermission(Errno),
    /// Something else has the port; the text says what.
    PortTaken(String),
    /// The agent's process could not serve; the text says why.
    AgentFailed(String),
    /// The agent speaks another version of the protocol.
    Version {
        /// Its version.
        theirs: u16,
    },
    /// All slots are in use.
    NoSlots {
        /// How many there are.
        total: u16,
        /// Whether there are so few because the user has too many descriptors in flight.
        too_many_in_flight: bool,
    },
    /// It took too long; the text says what was waited for.
    Timeout(&'static str),
    /// The agent, or whoever holds its name, did not keep to the protocol.
    Protocol,
    /// The agent is of a release that does not know the question.
    OldAgent,
    /// The counter page could not be made.
    Counters(io::Error),
    /// A system call failed; the text says what for.
    System(&'static str, Errno),
}

impl JoinError {
    /// The error of a refusal that waiting does not help.
    pub(crate) fn refused(refusal: Refusal, theirs: u16) -> Self {
        match refusal {
            Refusal::Version => Self::Version { theirs },
            Refusal::OtherUser => Self::AgentOfAnotherUser { uid: u32::MAX, pid: 0 },
            Refusal::NoSlots { total, too_many_in_flight, .. } => {
                Self::NoSlots { total, too_many_in_flight }
            }
            Refusal::Busy => Self::Timeout("the agent has too many connections"),
            Refusal::SlotLost | Refusal::Malformed | Refusal::HasMembers { .. } => Self::Protocol,
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AgentOfAnotherUser { uid, pid } => {
                formatter.write_str("an agent of another user (")?;
                match uid {
                    &u32::MAX => formatter.write_str("unknown uid")?,
                    uid => write!(formatter, "uid {uid}")?,
                }
                if *pid != 0 {
                    write!(formatter, ", pid {pid}")?;
                }
                formatter.write_str(
                    ") serves this network namespace, and does this only for its own user: ask \
                     that user, or use another network namespace",
                )
            }
            Self::Stranger { uid, pid } => write!(
                formatter,
                "a process of another user (uid {uid}, pid {pid}) holds the agent's unix socket \
                 (@converb/agent/1) of this network namespace, and does not answer as an agent \
                 does: have it ended, or use another network namespace"
            ),
            Self::NoProgram => formatter.write_str(
                "no converb agent runs in this network namespace, and CONVERB_BIN is not set: \
                 start the program with `converb run`, or run `converb agent serve`",
            ),
            Self::BadProgram { path, error } => write!(
                formatter,
                "no converb agent runs in this network namespace, and {} cannot be executed \
                 ({error}): CONVERB_BIN has to be the absolute path of the converb program",
                path.display()
            ),
            Self::NoPermission(error) => write!(
                formatter,
                "no permission for the agent's abstract unix socket ({error}): a sandbox \
                 (Landlock, AppArmor or seccomp) forbids it; allow abstract unix sockets there"
            ),
            Self::PortTaken(text) => write!(
                formatter,
                "{text}; end that, unload rdma_rxe, or use another network namespace"
            ),
            Self::AgentFailed(text) => write!(formatter, "the converb agent cannot start: {text}"),
            Self::Version { theirs } => write!(
                formatter,
                "the converb agent of this network namespace speaks version {theirs} of the \
                 protocol and this program version {VERSION}: use the same release of converb, \
                 or `converb agent stop` once its members are gone"
            ),
            Self::NoSlots { total, too_many_in_flight: false } => write!(
                formatter,
                "all {total} slots of this network namespace are in use: `converb agent status` \
                 lists their owners; end some of them"
            ),
            Self::NoSlots { total, too_many_in_flight: true } => write!(
                formatter,
                "all {total} slots of this network namespace are in use, and there can be no \
                 more because this user has too many descriptors in flight for the agent, which \
                 has the limit of open files (ulimit -Hn) of the program that started it: end some \
                 programs, also in other network namespaces, or, where that program's limit was \
                 small, the agent (`converb agent stop --force`)"
            ),
            Self::Timeout(what) => write!(formatter, "{what}, and it took too long"),
            Self::Protocol => formatter.write_str(
                "the process that holds the agent's unix socket does not speak its protocol: \
                 `ss -xlp | grep converb` shows it",
            ),
            Self::OldAgent => formatter.write_str(
                "the converb agent of this network namespace is of an older release, which cannot \
                 tell this: `converb agent stop` once its members are gone",
            ),
            Self::Counters(error) => {
                write!(
                    formatter,
                    "no shared memory for counters can be had: {}",
                    with_advice(error)
                )
            }
            Self::System(what, error) => write!(formatter, "{what}: {error}"),
        }
    }
}

impl std::error::Error for JoinError {}

impl From<Malformed> for JoinError {
    fn from(_: Malformed) -> Self {
        Self::Protocol
    }
}

/// An error about shared memory, and what to do against it.
pub fn with_advice(error: &std::io::Error) -> String {
    if error.raw_os_error() == Some(libc::EFBIG) {
        format!("{error}; the limit of file sizes (ulimit -f) counts for it, too")
    } else {
        error.to_string()
    }
}
