//! How a progress thread behaves in somebody else's process.

use rustix::thread::set_name;
use std::io;

/// Makes the calling thread a quiet progress thread: it runs on every processor that the process
/// may use (an inherited affinity would put it behind the thread that spins), takes no signal of
/// the program's (the two that its copies can raise in itself stay open), wakes on time (timer
/// slack 1 ns), and is called "converb".
///
/// # Errors
/// When signals cannot be blocked. The rest is best effort.
pub fn prepare_progress_thread() -> io::Result<()> {
    block_signals()?;
    let everywhere = [0xffu8; AFFINITY_BYTES];
    // SAFETY: the pointer and length describe `everywhere`. The kernel cuts the set down to the
    // processors that exist and that the process's cpuset allows. 0 is the calling thread.
    unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, 0, AFFINITY_BYTES, everywhere.as_ptr());
    }
    // SAFETY: this option takes a number and no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
    let _ = set_name(c"converb");
    Ok(())
}

/// Blocks all signals in this thread but SIGSEGV and SIGBUS: blocked, a fault of a guarded copy
/// would kill the process.
fn block_signals() -> io::Result<()> {
    let mut signals = core::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises the set; the other calls are given that set.
    let error = unsafe {
        libc::sigfillset(signals.as_mut_ptr());
        libc::sigdelset(signals.as_mut_ptr(), libc::SIGSEGV);
        libc::sigdelset(signals.as_mut_ptr(), libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_SETMASK, signals.as_ptr(), core::ptr::null_mut())
    };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// 8192 processors, as many as Linux can be built for.
const AFFINITY_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn status(field: &str) -> String {
        let text = std::fs::read_to_string("/proc/thread-self/status").expect("readable");
        let line = text.lines().find(|line| line.starts_with(field)).expect("listed");
        line.split_once(':').expect("a field").1.trim().to_owned()
    }

    #[test]
    fn a_progress_thread_runs_anywhere_and_takes_no_signals() {
        let all = status("Cpus_allowed_list");
        std::thread::spawn(move || {
            let first = [1u8];
            // SAFETY: one byte of processors, as the arguments say.
            unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, 1usize, first.as_ptr()) };
            assert_eq!(status("Cpus_allowed_list"), "0");
            prepare_progress_thread().expect("prepared");
            assert_eq!(status("Cpus_allowed_list"), all);
            assert_eq!(status("Name"), "converb");
            let blocked = u64::from_str_radix(&status("SigBlk"), 16).expect("a mask");
            let bit = |signal: i32| 1u64 << (signal - 1);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGALRM, libc::SIGCHLD] {
                assert_ne!(blocked & bit(signal), 0, "signal {signal} is blocked");
            }
            assert_eq!(blocked & (bit(libc::SIGSEGV) | bit(libc::SIGBUS)), 0);
        })
        .join()
        .expect("the thread's own checks");
    }
}
