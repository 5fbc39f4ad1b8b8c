//! Delays on purpose at each lock and flag of the driver, so that threads meet where they rarely
//! do. Off unless `CONVERB_CHAOS` holds a seed; then each thread pauses now and then, before it
//! takes a lock and while it has it, for times that the seed, the thread and its steps decide.
//!
//! Off, it costs a load of a number that never changes and a branch.

use converb_driver::{Facade, Flag, Mutex, RwLock, Std};
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The standard library's primitives, with delays if asked for.
#[derive(Debug)]
pub(crate) struct Chaotic;

/// The variable of the environment that holds the seed.
pub(crate) const VARIABLE: &str = "CONVERB_CHAOS";

/// 0: no delays.
static SEED: AtomicU64 = AtomicU64::new(0);

/// Reads the seed from the environment. What is no number is none.
pub(crate) fn prepare() {
    let seed: Option<u64> = std::env::var(VARIABLE).ok().and_then(|value| value.parse().ok());
    SEED.store(seed.map_or(0, |seed| seed.wrapping_add(1).max(1)), Ordering::Relaxed);
}

/// A place where threads change.
#[inline]
fn place() {
    if SEED.load(Ordering::Relaxed) != 0 {
        pause();
    }
}

#[cold]
fn pause() {
    thread_local! {
        /// Of plain numbers, so that no destructor is registered.
        static STATE: Cell<u64> = const { Cell::new(0) };
    }
    static THREADS: AtomicU64 = AtomicU64::new(0);
    let mut state = STATE.get();
    if state == 0 {
        let thread = THREADS.fetch_add(1, Ordering::Relaxed) + 1;
        state = SEED.load(Ordering::Relaxed).wrapping_add(thread << 32) | 1;
    }
    // Marsaglia's xorshift64.
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    STATE.set(state);
    let dice = state >> 40;
    if dice.is_multiple_of(1024) {
        std::thread::sleep(Duration::from_micros(dice / 1024 % 4096));
    } else if dice.is_multiple_of(64) {
        std::thread::sleep(Duration::from_micros(dice / 64 % 64));
    } else if dice.is_multiple_of(8) {
        std::thread::yield_now();
    }
}

impl Facade for Chaotic {
    type Mutex<T: Send + 'static> = ChaoticMutex<T>;
    type RwLock<T: Send + Sync + 'static> = ChaoticRwLock<T>;
    type Flag = ChaoticFlag;

    fn yield_now() {
        place();
        Std::yield_now();
    }
}

/// A mutual exclusion lock.
#[derive(Debug)]
pub(crate) struct ChaoticMutex<T>(std::sync::Mutex<T>);

impl<T: Send> Mutex<T> for ChaoticMutex<T> {
    type Guard<'a>
        = std::sync::MutexGuard<'a, T>
    where
        T: 'a;

    fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    #[inline]
    fn lock(&self) -> Self::Guard<'_> {
        place();
        let guard = Mutex::lock(&self.0);
        place();
        guard
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        place();
        let guard = Mutex::try_lock(&self.0);
        place();
        guard
    }
}

/// A lock for many readers or one writer.
#[derive(Debug)]
pub(crate) struct ChaoticRwLock<T>(std::sync::RwLock<T>);

impl<T: Send + Sync> RwLock<T> for ChaoticRwLock<T> {
    type ReadGuard<'a>
        = std::sync::RwLockReadGuard<'a, T>
    where
        T: 'a;
    type WriteGuard<'a>
        = std::sync::RwLockWriteGuard<'a, T>
    where
        T: 'a;

    fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }

    #[inline]
    fn read(&self) -> Self::ReadGuard<'_> {
        place();
        let guard = RwLock::read(&self.0);
        place();
        guard
    }

    #[inline]
    fn try_read(&self) -> Option<Self::ReadGuard<'_>> {
        RwLock::try_read(&self.0)
    }

    #[inline]
    fn write(&self) -> Self::WriteGuard<'_> {
        place();
        let guard = RwLock::write(&self.0);
        place();
        guard
    }
}

/// A flag between threads.
#[derive(Debug)]
pub(crate) struct ChaoticFlag(AtomicBool);

impl Flag for ChaoticFlag {
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    #[inline]
    fn raise(&self) {
        place();
        Flag::raise(&self.0);
        place();
    }

    #[inline]
    fn take(&self) -> bool {
        let was_up = Flag::take(&self.0);
        place();
        was_up
    }

    #[inline]
    fn is_up(&self) -> bool {
        let is_up = Flag::is_up(&self.0);
        place();
        is_up
    }
}
