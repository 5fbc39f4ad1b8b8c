//! Errors are those of sockets: an error number of the system, and nothing else.

use std::io;

pub(crate) fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

pub(crate) fn of(error: converb::Error) -> io::Error {
    errno(error.errno())
}
