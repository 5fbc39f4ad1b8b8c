//! What librdmacm has and we have not yet: it exists, so that programs load, and says so.

use crate::guard::{self, Errno};
use core::ffi::c_int;

/// For functions that return -1 and set `errno`.
pub(crate) extern "C" fn not_supported() -> c_int {
    guard::number(|| Err(Errno::NOT_SUPPORTED))
}
