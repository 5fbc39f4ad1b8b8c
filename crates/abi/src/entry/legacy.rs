//! The twins of `IBVERBS_1.0`: their objects are laid out in another way, so no object of ours may
//! be handed out or taken by them. A program that old finds no device.

use crate::guard::{self, Errno};
use core::ffi::{c_int, c_void};

pub(crate) extern "C" fn null() -> *mut c_void {
    guard::pointer(|| Err(Errno::NOT_SUPPORTED))
}

pub(crate) extern "C" fn not_supported() -> c_int {
    libc::EOPNOTSUPP
}

pub(crate) extern "C" fn nothing() {}

pub(crate) extern "C" fn zero() -> u64 {
    0
}
