//! Operations that are not there yet. They exist, so that programs bound at start-up load, and
//! answer in the way of their kind.

use crate::guard::{self, Errno};
use core::ffi::{c_int, c_void};

/// For functions that return an error number.
pub(crate) extern "C" fn not_supported() -> c_int {
    guard::status(|| Err(Errno::NOT_SUPPORTED))
}

/// For functions that return -1 and set `errno`.
pub(crate) extern "C" fn minus_one() -> c_int {
    guard::number(|| Err(Errno::NOT_SUPPORTED))
}

/// For functions that return a pointer.
pub(crate) extern "C" fn null() -> *mut c_void {
    guard::pointer(|| Err(Errno::NOT_SUPPORTED))
}

/// For functions that return nothing.
pub(crate) extern "C" fn nothing() {}
