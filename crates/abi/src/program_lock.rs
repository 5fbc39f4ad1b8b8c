//! A lock that one call takes and another one releases, as pairs of verbs do (`ibv_wr_start` and
//! `ibv_wr_complete`).

use core::cell::UnsafeCell;

/// A mutual exclusion lock without a guard.
pub(crate) struct ProgramLock(UnsafeCell<libc::pthread_mutex_t>);

impl Default for ProgramLock {
    fn default() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }
}

impl ProgramLock {
    /// Waits for the lock.
    pub(crate) fn lock(&self) {
        // SAFETY: the mutex is initialised, and stays where it is: it is in an object on the heap.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The calling thread holds it.
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: as above, and the caller's promise.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}
