//! Waiting until a program has acknowledged the events of an object before it is destroyed.

use core::sync::atomic::{AtomicU32, Ordering};
use libc::{pthread_cond_t, pthread_mutex_t};

/// How many events of an object were given to the program. How many of them it acknowledged is
/// counted in the public structure, under the mutex there, as `ibv_ack_*` of any version do.
#[derive(Debug, Default)]
pub(crate) struct Acknowledgement {
    delivered: AtomicU32,
}

impl Acknowledgement {
    /// An event is about to be given to the program.
    pub(crate) fn deliver(&self) {
        self.delivered.fetch_add(1, Ordering::AcqRel);
    }

    /// The program acknowledges `count` events.
    ///
    /// # Safety
    /// The pointers are to the mutex, condition and counter of a living object.
    pub(crate) unsafe fn acknowledge(
        mutex: *mut pthread_mutex_t,
        condition: *mut pthread_cond_t,
        completed: *mut u32,
        count: u32,
    ) {
        // SAFETY: the caller's promise; the counter is touched under the mutex only.
        unsafe {
            libc::pthread_mutex_lock(mutex);
            *completed = (*completed).wrapping_add(count);
            libc::pthread_cond_signal(condition);
            libc::pthread_mutex_unlock(mutex);
        }
    }

    /// Waits until all events that were delivered are acknowledged.
    ///
    /// # Safety
    /// As for [`Self::acknowledge`].
    pub(crate) unsafe fn wait(
        &self,
        mutex: *mut pthread_mutex_t,
        condition: *mut pthread_cond_t,
        completed: *mut u32,
    ) {
        // SAFETY: the caller's promise; the counter is touched under the mutex only.
        unsafe {
            libc::pthread_mutex_lock(mutex);
            while *completed != self.delivered.load(Ordering::Acquire) {
                libc::pthread_cond_wait(condition, mutex);
            }
            libc::pthread_mutex_unlock(mutex);
        }
    }
}
