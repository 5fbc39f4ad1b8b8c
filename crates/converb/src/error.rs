//! Why a verb failed, in words for people and as the error number that the man pages name.

use crate::heritage::Lost;
use std::fmt;
use std::io;

/// Why a verb failed.
#[derive(Debug)]
pub enum Error {
    /// The object is still in use by another one (`EBUSY`).
    Busy {
        /// What is still there, in words.
        used_by: &'static str,
    },
    /// An argument is out of its range or does not fit the others (`EINVAL`).
    Invalid(&'static str),
    /// A work request was not taken.
    Post(converb_engine::work::PostError),
    /// There is no such operation (`EOPNOTSUPP`).
    Unsupported(&'static str),
    /// A limit of the device was reached (`ENOMEM`).
    TooMany(&'static str),
    /// The table has no entry at this index (`ENODATA`).
    Empty,
    /// This process is the child of the one that made the object, and cannot have it (`EIO`).
    Forked(Lost),
    /// The network cannot be joined (`ENODEV`).
    Network {
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Attributes of a queue pair were not taken (`EINVAL`).
    Modify(converb_engine::iba::ModifyError),
    /// The system refused something.
    System {
        /// What was attempted.
        what: &'static str,
        /// What it said.
        error: io::Error,
    },
}

impl Error {
    /// The error number that C programs get.
    pub fn errno(&self) -> i32 {
        use converb_engine::work::PostError;
        match self {
            Self::Busy { .. } => libc::EBUSY,
            Self::Invalid(_) | Self::Modify(_) => libc::EINVAL,
            Self::Post(PostError::QueueFull) => libc::ENOMEM,
            Self::Post(_) => libc::EINVAL,
            Self::Unsupported(_) => libc::EOPNOTSUPP,
            Self::TooMany(_) => libc::ENOMEM,
            Self::Empty => libc::ENODATA,
            Self::Forked(_) => libc::EIO,
            Self::Network { .. } => libc::ENODEV,
            Self::System { error, .. } => error.raw_os_error().unwrap_or(libc::EIO),
        }
    }

    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { what, error }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { used_by } => write!(formatter, "still in use by {used_by}"),
            Self::Invalid(what) => formatter.write_str(what),
            Self::Post(error) => write!(formatter, "the work request was not taken: {error:?}"),
            Self::Unsupported(what) => write!(formatter, "not supported: {what}"),
            Self::TooMany(what) => write!(formatter, "no more {what} fit"),
            Self::Empty => formatter.write_str("there is no entry at this index"),
            Self::Forked(lost) => {
                write!(formatter, "made by another process before fork(): {lost}")
            }
            Self::Network { reason } => formatter.write_str(reason),
            Self::Modify(error) => error.fmt(formatter),
            Self::System { what, error } => write!(formatter, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            Self::Modify(error) => Some(error),
            _ => None,
        }
    }
}
