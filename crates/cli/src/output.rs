//! Writing to standard output, which may be a pipe that nobody reads or a full disk.

use crate::failure::Failure;
use serde_json::Value;
use std::io::{ErrorKind, Write};

/// Prints `text`. A reader that has seen enough and gone is no failure.
///
/// # Errors
/// When it cannot be written for another reason, such as a full disk.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints `value` for programs.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
    print(&(text + "\n"))
}
