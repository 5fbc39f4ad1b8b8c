//! What happens when the program forks: nothing moves meanwhile, so that the child gets a whole copy,
//! and the child closes what is its parent's.

use crate::chaos::Chaotic;
use crate::runtime::{Runtime, abandon_inherited};
use converb_driver::{Handle, Stillness};
use converb_link::UdpPort;
use std::cell::Cell;
use std::sync::{MutexGuard, Once};
use std::time::{Duration, Instant};

/// What a thread holds while it forks.
struct Holding {
    stillness: Option<Stillness<'static>>,
    /// No other thread is taking something over.
    taking_over: Option<MutexGuard<'static, ()>>,
    place: *mut Vec<Handle<UdpPort, Chaotic>>,
}

thread_local! {
    static HOLDING: Cell<*mut Holding> = const { Cell::new(core::ptr::null_mut()) };
}

/// A thread that forks waits no longer for others: it may have interrupted its own work in a signal
/// handler, and then waits for itself. The child gets nothing of ours then.
const STILL_LIMIT: Duration = Duration::from_millis(200);

const PAUSE: Duration = Duration::from_micros(50);

/// Stops everything, that the child gets a whole copy.
extern "C" fn before_fork() {
    let Some(runtime) = Runtime::current() else { return };
    let place = Box::into_raw(Box::default());
    let deadline = Instant::now() + STILL_LIMIT;
    let is_late = || Instant::now() > deadline;
    let taking_over = loop {
        match runtime.try_taking_over() {
            None if !is_late() => std::thread::sleep(PAUSE),
            guard => break guard,
        }
    };
    let journal = runtime.journal_for_fork();
    // SAFETY: the place is freed by `let_go`, after the stillness that refers to it.
    let place_of_handles = unsafe { &mut *place };
    let driver = runtime.driver();
    let stillness = taking_over
        .is_some()
        .then(|| driver.still(place_of_handles, journal.as_ref(), &is_late))
        .flatten();
    runtime.set_whole(stillness.is_some());
    HOLDING.set(Box::into_raw(Box::new(Holding { stillness, taking_over, place })));
}

/// Lets everything go on.
fn let_go() {
    let holding = HOLDING.replace(core::ptr::null_mut());
    if holding.is_null() {
        return;
    }
    // SAFETY: `before_fork` made it, and nobody else takes it.
    let mut holding = unsafe { Box::from_raw(holding) };
    drop(holding.stillness.take());
    drop(holding.taking_over.take());
    // SAFETY: so was this, and nothing refers to it any more.
    drop(unsafe { Box::from_raw(holding.place) });
}

extern "C" fn after_fork() {
    let_go();
}

extern "C" fn after_fork_in_child() {
    let_go();
    abandon_inherited();
}

/// Has [`abandon_inherited`] called in every child that is forked through libc. Others do it when
/// they first use the library themselves.
pub(crate) fn watch() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        // SAFETY: the function may run in any fork child, and the library is never unloaded. If
        // there is no memory for it, children abandon later.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork_in_child))
        };
    });
}
