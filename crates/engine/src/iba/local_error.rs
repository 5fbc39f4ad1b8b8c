//! How work ends whose own memory is at fault.

use crate::completion::Status;
use crate::execution::ExecutionError;

/// The status of the completion.
pub(super) fn local_error(error: ExecutionError) -> Status {
    match error {
        ExecutionError::Key(_) | ExecutionError::Fault(_) => Status::LocalProtectionError,
        ExecutionError::TooLong => Status::LocalLengthError,
    }
}
