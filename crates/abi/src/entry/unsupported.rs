//! Operations that are not there yet. They exist, so that programs bound at start-up load, and
//! answer in the way of their kind.

use crate::guard::{self, Errno};
use core::ffi::{c_int, c_void};

/// For functions that return an error number.
pub(crate) extern "C" fn not_supported() -> c_int {
    guard::status(|| Err(Errno::NOT_SUPPORTED))
}

/// For functions that return a pointer.
pub(crate) extern "C" fn null() -> *mut c_void {
    guard::pointer(|| Err(Errno::NOT_SUPPORTED))
}

/// The operation in the context behind `ibv_close_xrcd`, which calls it without looking.
pub(crate) unsafe extern "C" fn close_xrcd(_domain: *mut c_void) -> c_int {
    not_supported()
}

/// For functions that return nothing.
pub(crate) extern "C" fn nothing() {}
