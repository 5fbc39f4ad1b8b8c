//! Why a command failed: what people read, and the exit status.

/// A command's failure.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What is wrong and what to do, without the command's name.
    pub(crate) message: String,
    /// The exit status.
    pub(crate) status: u8,
}

/// What shells return for a program that does not exist.
pub(crate) const NOT_FOUND: u8 = 127;
/// What shells return for a file that cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;

impl Failure {
    /// A failure with exit status 1.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: 1 }
    }

    /// A failure with another exit status.
    pub(crate) fn with_status(message: impl Into<String>, status: u8) -> Self {
        Self { message: message.into(), status }
    }
}
