//! Keeping the program's signals away from threads that are being started.

use core::mem::MaybeUninit;
use std::io;

/// The signals that a thread had blocked.
pub(crate) struct Mask(libc::sigset_t);

/// Blocks all signals in this thread; returns what was blocked before.
pub(crate) fn block_all() -> io::Result<Mask> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises `all`, pthread_sigmask reads it and initialises `before`.
    let error = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr())
    };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: the call succeeded.
    Ok(Mask(unsafe { before.assume_init() }))
}

/// Undoes [`block_all`].
pub(crate) fn restore(mask: &Mask) {
    // SAFETY: the set is initialised. The call fails for a bad argument only, which it is not.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask.0, core::ptr::null_mut()) };
}
