//! Forking: nothing has to be prepared, because no memory is pinned.

use crate::guard;
use core::ffi::{c_int, c_void};

/// `IBV_FORK_UNNEEDED`.
const FORK_UNNEEDED: c_int = 2;

pub(crate) extern "C" fn fork_init() -> c_int {
    guard::status(|| Ok(()))
}

pub(crate) extern "C" fn is_fork_initialized() -> c_int {
    FORK_UNNEEDED
}

/// rdma-core keeps pinned pages from being copied on write with these two; we pin none.
pub(crate) extern "C" fn dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    guard::status(|| Ok(()))
}

pub(crate) extern "C" fn dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    guard::status(|| Ok(()))
}
