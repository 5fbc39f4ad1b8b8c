//! The program's signals: kept away from threads that are being started, and let through where calls
//! wait.

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

/// Whether a signal handler that ran in a call which waits ends that call, as it would end read(2):
/// unless it was installed with SA_RESTART. Which handler it was is not known, so one without that
/// is enough.
pub(crate) fn may_interrupt() -> bool {
    (1..=libc::SIGRTMAX()).any(|signal| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the place is for one action; it is only asked what is installed. Signals that
        // libc keeps for itself are refused.
        let error = unsafe { libc::sigaction(signal, core::ptr::null(), action.as_mut_ptr()) };
        // SAFETY: zero is a value, and so is what the call wrote.
        let action = unsafe { action.assume_init() };
        let is_caught = !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
        error == 0 && is_caught && action.sa_flags & libc::SA_RESTART == 0 && !is_fault(signal)
    })
}

/// Signals that a thread's own instructions raise interrupt no call, and some are caught by us.
fn is_fault(signal: i32) -> bool {
    matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn nothing(_: i32) {}

    #[test]
    fn one_handler_without_restart_is_enough() {
        let install = |flags| {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: zero is a value, and the handler does nothing.
            unsafe {
                (*action.as_mut_ptr()).sa_sigaction = nothing as *const () as usize;
                (*action.as_mut_ptr()).sa_flags = flags;
                libc::sigaction(libc::SIGUSR2, action.as_ptr(), core::ptr::null_mut());
            }
        };
        assert!(!may_interrupt());
        install(libc::SA_RESTART);
        assert!(!may_interrupt());
        install(0);
        assert!(may_interrupt());
    }
}
