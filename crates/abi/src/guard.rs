//! What every entry point passes through: no panic leaves the library, and errors become what the
//! man pages say.

use core::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An error number of the system (`EINVAL`, ...).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    /// The operation is not there. Test suites turn this answer into a skip.
    pub(crate) const NOT_SUPPORTED: Self = Self(libc::EOPNOTSUPP);
    /// An argument is out of range.
    pub(crate) const INVALID: Self = Self(libc::EINVAL);
    /// What a program is told when we are wrong (a panic).
    pub(crate) const INTERNAL: Self = Self(libc::EIO);
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        error.raw_os_error().map_or(Self::INTERNAL, Self)
    }
}

impl From<converb::Error> for Errno {
    fn from(error: converb::Error) -> Self {
        Self(error.errno())
    }
}

/// Runs an entry point that returns 0 or an error number, as most of verbs do.
pub(crate) fn status(body: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match caught(body) {
        Ok(()) => 0,
        Err(error) => error.0,
    }
}

/// Runs an entry point that returns a number, or -1 with `errno` set.
pub(crate) fn number(body: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    match caught(body) {
        Ok(number) => number,
        Err(error) => {
            set_errno(error);
            -1
        }
    }
}

/// Runs an entry point that returns a pointer, or null with `errno` set.
pub(crate) fn pointer<T>(body: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    match caught(body) {
        Ok(pointer) => pointer,
        Err(error) => {
            set_errno(error);
            core::ptr::null_mut()
        }
    }
}

/// Runs an entry point that cannot report an error.
pub(crate) fn value<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    caught(|| Ok(body())).unwrap_or(otherwise)
}

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(error: Errno) {
    // SAFETY: libc gives each thread a valid location for its errno.
    unsafe { *libc::__errno_location() = error.0 };
}

fn caught<T>(body: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    // What a panic leaves half done is behind locks, which it poisons, or is not used again.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Errno::INTERNAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_number() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        assert_eq!(status(|| panic!("broken invariant")), libc::EIO);
        assert!(pointer::<u8>(|| panic!("broken invariant")).is_null());
        assert_eq!(number(|| panic!("broken invariant")), -1);
        assert_eq!(value(7, || panic!("broken invariant")), 7);
        std::panic::set_hook(hook);
    }

    #[test]
    fn a_null_pointer_comes_with_errno() {
        assert!(pointer::<u8>(|| Err(Errno(libc::ENOMEM))).is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOMEM));
    }
}
