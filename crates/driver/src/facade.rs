//! The locks, flags and threads that the driver is generic over: the standard library's, or a
//! simulator's, which decides by a seed who goes on at each of them.

use core::ops::DerefMut;

/// A family of primitives.
pub trait Facade: Sized + Send + Sync + 'static {
    /// A mutual exclusion lock.
    type Mutex<T: Send + 'static>: Mutex<T>;
    /// A lock for many readers or one writer.
    type RwLock<T: Send + Sync + 'static>: RwLock<T>;
    /// A flag between threads, sequentially consistent.
    type Flag: Flag;

    /// Lets another thread run, if one waits for this processor.
    fn yield_now();
}

/// A mutual exclusion lock. A thread that panicked while it held the lock does not poison it.
pub trait Mutex<T>: Send + Sync {
    /// Unlocks when dropped.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a,
        T: 'a;

    /// An unlocked lock around `value`.
    fn new(value: T) -> Self;
    /// Waits for the lock.
    fn lock(&self) -> Self::Guard<'_>;
    /// Takes the lock if nobody has it.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;
}

/// A lock for many readers or one writer. A reader must not read again while it reads: a writer
/// that waits in between would stop both.
pub trait RwLock<T>: Send + Sync {
    /// Unlocks when dropped.
    type ReadGuard<'a>: core::ops::Deref<Target = T>
    where
        Self: 'a,
        T: 'a;
    /// Unlocks when dropped.
    type WriteGuard<'a>: DerefMut<Target = T>
    where
        Self: 'a,
        T: 'a;

    /// An unlocked lock around `value`.
    fn new(value: T) -> Self;
    /// Waits until nobody writes.
    fn read(&self) -> Self::ReadGuard<'_>;
    /// Reads if nobody writes or waits to.
    fn try_read(&self) -> Option<Self::ReadGuard<'_>>;
    /// Waits until nobody reads or writes.
    fn write(&self) -> Self::WriteGuard<'_>;
}

/// A flag between threads.
pub trait Flag: Send + Sync {
    /// A flag that is down.
    fn new() -> Self;
    /// Raises it.
    fn raise(&self);
    /// Takes it down; whether it was up.
    fn take(&self) -> bool;
    /// Whether it is up.
    fn is_up(&self) -> bool;
}

/// The standard library's primitives.
#[derive(Debug)]
pub struct Std;

impl Facade for Std {
    type Mutex<T: Send + 'static> = std::sync::Mutex<T>;
    type RwLock<T: Send + Sync + 'static> = std::sync::RwLock<T>;
    type Flag = std::sync::atomic::AtomicBool;

    fn yield_now() {
        std::thread::yield_now();
    }
}

/// The guard of a lock that was free, whoever panicked with it.
fn taken<G>(result: std::sync::TryLockResult<G>) -> Option<G> {
    match result {
        Ok(guard) => Some(guard),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    }
}

impl<T: Send> Mutex<T> for std::sync::Mutex<T> {
    type Guard<'a>
        = std::sync::MutexGuard<'a, T>
    where
        T: 'a;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn lock(&self) -> Self::Guard<'_> {
        Self::lock(self).unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        taken(Self::try_lock(self))
    }
}

impl<T: Send + Sync> RwLock<T> for std::sync::RwLock<T> {
    type ReadGuard<'a>
        = std::sync::RwLockReadGuard<'a, T>
    where
        T: 'a;
    type WriteGuard<'a>
        = std::sync::RwLockWriteGuard<'a, T>
    where
        T: 'a;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn read(&self) -> Self::ReadGuard<'_> {
        Self::read(self).unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn try_read(&self) -> Option<Self::ReadGuard<'_>> {
        taken(Self::try_read(self))
    }

    fn write(&self) -> Self::WriteGuard<'_> {
        Self::write(self).unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Flag for std::sync::atomic::AtomicBool {
    fn new() -> Self {
        Self::new(false)
    }

    fn raise(&self) {
        self.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    fn take(&self) -> bool {
        // Looking before taking keeps the line shared when there is nothing to take.
        self.is_up() && self.swap(false, std::sync::atomic::Ordering::SeqCst)
    }

    fn is_up(&self) -> bool {
        self.load(std::sync::atomic::Ordering::SeqCst)
    }
}
