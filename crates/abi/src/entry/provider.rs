//! What rdma-core's provider plug-ins link with. They register themselves when they are loaded and
//! then wait for a kernel device, which never comes.

use crate::guard::{self, Errno};
use core::ffi::{c_int, c_uint, c_void};

/// `verbs_register_driver_<N>`: taken note of by nobody.
pub(crate) extern "C" fn register_driver(_operations: *const c_void) {}

pub(crate) extern "C" fn null() -> *mut c_void {
    guard::pointer(|| Err(Errno::NOT_SUPPORTED))
}

pub(crate) extern "C" fn not_supported() -> c_int {
    libc::EOPNOTSUPP
}

pub(crate) extern "C" fn nothing() {}

pub(crate) extern "C" fn zero() -> c_uint {
    0
}

/// `__verbs_log`: its variable arguments need not be looked at to print nothing.
pub(crate) extern "C" fn log(_context: *mut c_void, _level: u32) {}
