//! Starts the agent's process from inside a program that knows nothing of it.
//!
//! The caller is a library in an arbitrary, multi-threaded process, so between the first clone
//! and exec only system calls on memory prepared beforehand may happen. The children share the
//! caller's memory while its thread waits for them (as posix_spawn does it), so even a huge
//! program with registered memory pays no page table copy. They have no exit signal: the program
//! gets no SIGCHLD, and its own wait() never finds a child of ours.
//!
//! ```text
//!   caller ---- clone ----> middle: setsid, descriptors, signals, affinity
//!      | waits                | ---- clone ----> the agent: exec
//!      | <------- exit ------ |                    (its parent is gone: init's child)
//! ```
//!
//! What the agent must not keep: the program's descriptors (else `$(converb run x)` waits for
//! ever for the pipe's end), terminal, working directory, environment (LD_PRELOAD!), signal mask
//! and dispositions, affinity, scheduling policy.

use core::ffi::{c_char, c_int, c_long, c_void};
use core::ptr::{null, null_mut};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The first descriptor that the agent inherits on purpose; more follow.
pub const FIRST_INHERITED: RawFd = 3;

/// Executes `program` with `arguments` as a process of its own, which inherits `descriptors` as
/// numbers 3, 4, ... in their order and nothing else. Returns once the exec has succeeded.
///
/// `program` has to be an absolute path. Of the environment, what begins with `CONVERB_` is kept.
pub fn start(
    program: &Path,
    arguments: &[OsString],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(io::Error::from);
    let path = text(program.as_os_str())?;
    let arguments = arguments.iter().map(|argument| text(argument));
    let argv: Vec<CString> =
        [Ok(path.clone())].into_iter().chain(arguments).collect::<io::Result<_>>()?;
    let envp = kept_environment();
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([null()]).collect()
    };
    let (argv_pointers, envp_pointers) = (pointers(&argv), pointers(&envp));
    let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let mut copies = vec![-1; numbers.len()];
    // In one block: valgrind, which gives the children memory of their own, finds it by the plan.
    let mut stacks = vec![0_u128; 2 * STACK_SIZE / size_of::<u128>()];
    let mut plan = Plan {
        path: path.as_ptr(),
        argv: argv_pointers.as_ptr(),
        envp: envp_pointers.as_ptr(),
        descriptors: numbers.as_ptr(),
        copies: copies.as_mut_ptr(),
        count: numbers.len(),
        stacks: stacks.as_mut_ptr().cast(),
        error: 0,
    };
    let middle_top = stacks.as_mut_ptr_range().end.cast();

    let all_signals = u64::MAX;
    let mut mask_before = 0_u64;
    // SAFETY: the pointers are to live local variables of the size given. A signal handler of the
    // program must not run in the child, which shares its memory.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const all_signals,
            &raw mut mask_before,
            SIGNAL_SET_SIZE,
        );
    }
    // SAFETY: `middle` gets a stack of its own and a plan, both of which live until this thread
    // goes on, and CLONE_VFORK stops this thread until the child has exited.
    let child =
        unsafe { libc::clone(middle, middle_top, CLONE_FLAGS, (&raw mut plan).cast::<c_void>()) };
    let clone_error = io::Error::last_os_error();
    if child > 0 {
        wait_for(child);
    }
    // SAFETY: as above.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask_before,
            null_mut::<u64>(),
            SIGNAL_SET_SIZE,
        );
    }
    if child < 0 {
        return Err(clone_error);
    }
    // SAFETY: `plan` is a live local; volatile, for the children wrote it behind the compiler's
    // back.
    match unsafe { (&raw const plan.error).read_volatile() } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// What the children need, all of it prepared before they exist.
struct Plan {
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
    /// The descriptors to inherit, and room for `count` more numbers.
    descriptors: *const RawFd,
    copies: *mut RawFd,
    count: usize,
    /// The agent's stack until its exec, and behind it the first child's.
    stacks: *mut c_void,
    /// The errno of what failed.
    error: c_int,
}

const CLONE_FLAGS: c_int = libc::CLONE_VM | libc::CLONE_VFORK;
const STACK_SIZE: usize = 64 * 1024;
const SIGNAL_SET_SIZE: usize = 8;
const SIGNALS: c_int = 64;

/// Runs in the first child: prepares everything that the agent inherits, starts it, and exits.
extern "C" fn middle(plan: *mut c_void) -> c_int {
    let plan = plan.cast::<Plan>();
    // SAFETY: `start` passes a plan that outlives both children, and its thread waits meanwhile.
    unsafe {
        prepare(plan);
        if (*plan).error == 0
            && libc::clone(execute, (*plan).stacks.byte_add(STACK_SIZE), CLONE_FLAGS, plan.cast())
                < 0
        {
            (*plan).error = last_error();
        }
    }
    0
}

/// Runs in the second child.
extern "C" fn execute(plan: *mut c_void) -> c_int {
    let plan = plan.cast::<Plan>();
    // SAFETY: as in `middle`; the vectors end with null pointers. Only system calls here.
    unsafe {
        call(
            libc::SYS_execve,
            [(*plan).path as c_long, (*plan).argv as c_long, (*plan).envp as c_long],
        );
        (*plan).error = last_error();
    }
    127
}

/// # Safety
/// `plan` is valid, and nobody else uses it.
unsafe fn prepare(plan: *mut Plan) {
    // SAFETY: system calls with constants, live locals, or what the plan holds. None of them
    // touches memory of the program beyond the plan and errno of the thread that waits.
    unsafe {
        call(libc::SYS_setsid, []);
        call(libc::SYS_chdir, [c"/".as_ptr() as c_long]);
        call(libc::SYS_umask, [0o077]);

        // Dispositions: what the program ignores stays ignored over exec otherwise. All zeros is
        // SIG_DFL with an empty mask on every architecture.
        let default_action = [0_u64; 8];
        for signal in 1..=SIGNALS {
            let action = default_action.as_ptr() as c_long;
            call(libc::SYS_rt_sigaction, [signal.into(), action, 0, SIGNAL_SET_SIZE as c_long]);
        }
        let no_signals = 0_u64;
        let mask = (&raw const no_signals) as c_long;
        call(
            libc::SYS_rt_sigprocmask,
            [libc::SIG_SETMASK.into(), mask, 0, SIGNAL_SET_SIZE as c_long],
        );

        // Affinity and priority: these can fail where something forbids them, which is no reason
        // to have no agent.
        let all_processors = [u64::MAX; 128];
        let size = size_of_val(&all_processors) as c_long;
        call(libc::SYS_sched_setaffinity, [0, size, all_processors.as_ptr() as c_long]);
        let parameter: c_int = 0;
        let ordinary = libc::SCHED_OTHER.into();
        call(libc::SYS_sched_setscheduler, [0, ordinary, (&raw const parameter) as c_long]);

        // Descriptors: first out of the way of the final numbers, then into place.
        let end = FIRST_INHERITED as c_long + (*plan).count as c_long;
        for place in 0..(*plan).count {
            let from = (*(*plan).descriptors.add(place)).into();
            let copy = call(libc::SYS_fcntl, [from, libc::F_DUPFD_CLOEXEC.into(), end]);
            if copy < 0 {
                (*plan).error = last_error();
                return;
            }
            *(*plan).copies.add(place) = copy as RawFd;
        }
        for place in 0..(*plan).count {
            let copy = (*(*plan).copies.add(place)).into();
            if call(libc::SYS_dup3, [copy, FIRST_INHERITED as c_long + place as c_long, 0]) < 0 {
                (*plan).error = last_error();
                return;
            }
        }
        if call(libc::SYS_close_range, [end, c_long::from(u32::MAX), 0]) < 0 {
            // Before Linux 5.9, or forbidden.
            for descriptor in end..CLOSED_ONE_BY_ONE {
                call(libc::SYS_close, [descriptor]);
            }
        }
        let path = c"/dev/null".as_ptr() as c_long;
        for descriptor in 0..FIRST_INHERITED as c_long {
            call(libc::SYS_close, [descriptor]);
        }
        // The lowest free numbers are now 0, 1 and 2.
        for _ in 0..FIRST_INHERITED {
            call(libc::SYS_openat, [libc::AT_FDCWD.into(), path, libc::O_RDWR.into()]);
        }
    }
}

const CLOSED_ONE_BY_ONE: c_long = 65536;

/// A system call past libc's wrappers, which a preloaded library may have replaced (with ours).
///
/// # Safety
/// As the system call's.
unsafe fn call<const N: usize>(number: c_long, arguments: [c_long; N]) -> c_long {
    let argument = |place: usize| arguments.get(place).copied().unwrap_or(0);
    // SAFETY: the caller keeps the system call's own rules.
    unsafe { libc::syscall(number, argument(0), argument(1), argument(2), argument(3)) }
}

fn last_error() -> c_int {
    // SAFETY: errno of this thread is always there.
    match unsafe { *libc::__errno_location() } {
        0 => libc::EIO,
        error => error,
    }
}

/// Waits until the middle child has exited, whatever the program has made of SIGCHLD.
fn wait_for(child: c_int) {
    loop {
        // SAFETY: no memory is passed. __WALL, because the child has no exit signal.
        let waited = unsafe { call(libc::SYS_wait4, [child.into(), 0, libc::__WALL.into(), 0]) };
        if waited >= 0 || last_error() != libc::EINTR {
            return;
        }
    }
}

/// What the agent may know of the program's environment: its own settings.
fn kept_environment() -> Vec<CString> {
    std::env::vars_os()
        .filter(|(name, _)| name.as_bytes().starts_with(b"CONVERB_"))
        .filter_map(|(name, value)| {
            let mut entry = name.into_vec();
            entry.push(b'=');
            entry.extend(value.into_vec());
            CString::new(entry).ok()
        })
        .collect()
}
