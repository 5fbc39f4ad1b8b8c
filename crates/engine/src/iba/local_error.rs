//! How work ends whose own memory is at fault.

use super::event::Reason;
use crate::completion::Status;
use crate::execution::ExecutionError;

/// The status of the completion, and why.
pub(super) fn local_error(error: ExecutionError) -> (Status, Reason) {
    match error {
        ExecutionError::Key(_) => (Status::LocalProtectionError, Reason::LocalKey),
        ExecutionError::Fault(_) => (Status::LocalProtectionError, Reason::LocalFault),
        ExecutionError::TooLong => (Status::LocalLengthError, Reason::ReceiveTooShort),
    }
}
