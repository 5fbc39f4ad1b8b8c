//! Why there is no port.

use core::fmt;
use rustix::io::Errno;
use std::path::PathBuf;

/// Why a port cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortError {
    /// The kernel refuses something that sockets need.
    Sockets(Errno),
    /// Packets cannot be written to the file that the settings name.
    Capture {
        /// That file.
        file: PathBuf,
        /// Why not.
        error: Errno,
    },
}

impl From<Errno> for PortError {
    fn from(error: Errno) -> Self {
        Self::Sockets(error)
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let explained = |error: &Errno| std::io::Error::from(*error);
        match self {
            Self::Sockets(error) => write!(f, "cannot prepare the sockets: {}", explained(error)),
            Self::Capture { file, error } => {
                write!(f, "cannot capture to {}: {}", file.display(), explained(error))
            }
        }
    }
}

impl core::error::Error for PortError {}
