//! The driver's locks and flags as the scheduler's: at each of them a seed decides who goes on.

use converb_driver::{Facade, Flag, Mutex, RwLock};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;

/// Primitives of virtual threads.
#[derive(Debug)]
pub struct SimFacade;

impl Facade for SimFacade {
    type Mutex<T: Send + 'static> = SimMutex<T>;
    type RwLock<T: Send + Sync + 'static> = SimRwLock<T>;
    type Flag = SimFlag;

    fn yield_now() {
        shuttle::thread::yield_now();
    }
}

/// A lock of virtual threads.
pub struct SimMutex<T>(shuttle::sync::Mutex<T>);

impl<T: Send> Mutex<T> for SimMutex<T> {
    type Guard<'a>
        = shuttle::sync::MutexGuard<'a, T>
    where
        T: 'a;

    fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    fn lock(&self) -> Self::Guard<'_> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.0.try_lock().ok()
    }
}

/// A lock of virtual threads for many readers or one writer.
pub struct SimRwLock<T>(shuttle::sync::RwLock<T>);

impl<T: Send + Sync> RwLock<T> for SimRwLock<T> {
    type ReadGuard<'a>
        = shuttle::sync::RwLockReadGuard<'a, T>
    where
        T: 'a;
    type WriteGuard<'a>
        = shuttle::sync::RwLockWriteGuard<'a, T>
    where
        T: 'a;

    fn new(value: T) -> Self {
        Self(shuttle::sync::RwLock::new(value))
    }

    fn read(&self) -> Self::ReadGuard<'_> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_read(&self) -> Option<Self::ReadGuard<'_>> {
        self.0.try_read().ok()
    }

    fn write(&self) -> Self::WriteGuard<'_> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A flag between virtual threads.
pub struct SimFlag(shuttle::sync::atomic::AtomicBool);

impl Flag for SimFlag {
    fn new() -> Self {
        Self(shuttle::sync::atomic::AtomicBool::new(false))
    }

    fn raise(&self) {
        self.0.store(true, SeqCst);
    }

    fn take(&self) -> bool {
        self.is_up() && self.0.swap(false, SeqCst)
    }

    fn is_up(&self) -> bool {
        self.0.load(SeqCst)
    }
}
