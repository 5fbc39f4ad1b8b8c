//! The handler of SIGSEGV and SIGBUS: it ends guarded routines that fault, and passes everything
//! else on to whoever had the signal before.
//!
//! It runs wherever the program faults, so it only reads statics that never change after it was
//! installed, and calls nothing but system calls.

use super::guarded;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use std::sync::OnceLock;

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What handled the signals before. Written before our handler can run, and never again.
struct Previous(UnsafeCell<[MaybeUninit<libc::sigaction>; 2]>);

// SAFETY: written once under `INSTALLED`'s lock before the handler is installed, then only read.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new([MaybeUninit::uninit(); 2]));
static INSTALLED: OnceLock<bool> = OnceLock::new();

/// Installs the handler for both signals, once. Returns whether that succeeded.
pub(super) fn install() -> bool {
    *INSTALLED.get_or_init(|| {
        for (index, signal) in SIGNALS.into_iter().enumerate() {
            let Some(before) = current(signal) else { return false };
            // SAFETY: nobody else writes here (this runs once), and nobody reads yet.
            unsafe { (*PREVIOUS.0.get())[index].write(before) };
        }
        SIGNALS.into_iter().all(|signal| {
            // SAFETY: an all-zero sigaction is a valid one; its fields are set below.
            let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
            action.sa_sigaction = handle as *const () as usize;
            // The alternate stack where the thread has one: the program's own handler may need
            // it, for overflows of the stack.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            // SAFETY: `action` is a complete description of a handler that has the signature
            // that SA_SIGINFO asks for.
            unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0 }
        })
    })
}

/// Whether both signals still come to our handler: the program may have installed its own later.
pub(super) fn is_ours() -> bool {
    let ours = handle as *const () as usize;
    SIGNALS
        .into_iter()
        .all(|signal| current(signal).is_some_and(|action| action.sa_sigaction == ours))
}

fn current(signal: c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: with a null action the call only writes the present one.
    let result = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: a call that succeeds has written it.
    (result == 0).then(|| unsafe { action.assume_init() })
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let is_fault = {
        // SAFETY: the kernel passes a valid siginfo.
        let code = unsafe { (*info).si_code };
        // Others are sent by kill(2) and the like.
        code > 0
    };
    // SAFETY: the kernel passes a valid context, which is ours to change.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let instruction = registers[libc::REG_RIP as usize].cast_unsigned();
    if is_fault && guarded::contains(instruction) {
        // SAFETY: faults have an address, 0 where the processor does not tell it.
        let address = unsafe { (*info).si_addr() } as u64;
        registers[libc::REG_RAX as usize] = 1;
        registers[libc::REG_RDX as usize] = address.cast_signed();
        registers[libc::REG_RIP as usize] = guarded::landing().cast_signed();
        return;
    }
    let index = usize::from(signal == libc::SIGBUS);
    // SAFETY: written before this handler was installed, and never again.
    let previous = unsafe { (*PREVIOUS.0.get())[index].assume_init_ref() };
    pass_on(previous, signal, info, context, is_fault);
}

/// Does with a signal what would have been done without us.
fn pass_on(
    previous: &libc::sigaction,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    is_fault: bool,
) {
    match previous.sa_sigaction {
        libc::SIG_IGN if !is_fault => (),
        // A fault cannot be ignored: the kernel ends the process as by default.
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: an all-zero sigaction asks for the default.
            let default: libc::sigaction = unsafe { core::mem::zeroed() };
            // SAFETY: `default` is complete. After a fault the instruction faults again once we
            // return; a signal that was sent is sent once more, and comes when we return.
            unsafe {
                libc::sigaction(signal, &raw const default, ptr::null_mut());
                if !is_fault {
                    let thread = libc::syscall(libc::SYS_gettid);
                    libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal);
                }
            }
        }
        handler => {
            // SAFETY: masks are complete; the kernel restores ours when this handler returns. The
            // handler was installed with the signature that its flags say, and gets what the
            // kernel would have passed it.
            unsafe {
                libc::pthread_sigmask(
                    libc::SIG_BLOCK,
                    &raw const previous.sa_mask,
                    ptr::null_mut(),
                );
                if previous.sa_flags & libc::SA_NODEFER != 0 {
                    let mut this = MaybeUninit::<libc::sigset_t>::uninit();
                    libc::sigemptyset(this.as_mut_ptr());
                    libc::sigaddset(this.as_mut_ptr(), signal);
                    libc::pthread_sigmask(libc::SIG_UNBLOCK, this.as_ptr(), ptr::null_mut());
                }
                if previous.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                        core::mem::transmute(handler);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(c_int) = core::mem::transmute(handler);
                    handler(signal);
                }
            }
        }
    }
}
