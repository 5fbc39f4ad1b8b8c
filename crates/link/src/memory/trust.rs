//! Whether a guarded routine that faults here and now would return.
//!
//! It would not in a thread that blocks SIGSEGV or SIGBUS, for then the kernel ends the process,
//! nor when the program has installed a handler of its own over ours. Both cost a system call to
//! find out, so an answer is believed for a while: a burst of packets takes about as long.

use super::handler;
use core::arch::x86_64::_rdtsc;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr;

#[derive(Clone, Copy)]
struct Answer {
    /// The time-stamp counter when the mask was looked at, and when the handler was.
    mask_seen: u64,
    handler_seen: u64,
    is_trusted: bool,
}

thread_local! {
    /// Of plain numbers, so that no destructor is registered.
    static ANSWER: Cell<Answer> = const {
        Cell::new(Answer { mask_seen: 0, handler_seen: 0, is_trusted: false })
    };
}

/// Whether this thread may run guarded routines. Installs the handler if that was not yet done.
#[inline]
pub(super) fn is_trusted() -> bool {
    // SAFETY: every x86-64 processor has this instruction. (Linux can forbid it by prctl; nobody
    // does outside of experiments.)
    let now = unsafe { _rdtsc() };
    let answer = ANSWER.get();
    if now.wrapping_sub(answer.mask_seen) < MASK_CYCLES { answer.is_trusted } else { ask(now) }
}

/// Asks anew, whatever was found before.
pub(super) fn renew() {
    // SAFETY: as above.
    let now = unsafe { _rdtsc() };
    let answer = ANSWER.get();
    ANSWER.set(Answer { handler_seen: now.wrapping_sub(HANDLER_CYCLES), ..answer });
    ask(now);
}

#[cold]
fn ask(now: u64) -> bool {
    let before = ANSWER.get();
    let is_stale = now.wrapping_sub(before.handler_seen) >= HANDLER_CYCLES;
    let (is_ours, handler_seen) = if is_stale || !before.is_trusted {
        (handler::install() && handler::is_ours(), now)
    } else {
        (true, before.handler_seen)
    };
    let is_trusted = is_ours && !is_blocked();
    ANSWER.set(Answer { mask_seen: now, handler_seen, is_trusted });
    is_trusted
}

/// Whether this thread blocks one of the two signals.
fn is_blocked() -> bool {
    let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: with a null set the call only writes the present mask, which is then read.
    unsafe {
        if libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr()) != 0 {
            return true;
        }
        libc::sigismember(mask.as_ptr(), libc::SIGSEGV) != 0
            || libc::sigismember(mask.as_ptr(), libc::SIGBUS) != 0
    }
}

/// Roughly 20 us: the time of a super-packet.
const MASK_CYCLES: u64 = 1 << 16;
/// Roughly 1 ms: programs install handlers when they start, not while they run.
const HANDLER_CYCLES: u64 = 1 << 21;
