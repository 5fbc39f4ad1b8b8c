//! What a waiting thread waits at: opened by whoever has news for it.

use shuttle::sync::{Condvar, Mutex};
use std::sync::{Arc, PoisonError};

/// A gate for one thread; copies are the same gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Waits until the gate is open, and closes it behind.
    pub fn pass(&self) {
        let (lock, condition) = &*self.0;
        let mut open = lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            open = condition.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
        *open = false;
    }

    /// Opens the gate.
    pub fn open(&self) {
        let (lock, condition) = &*self.0;
        *lock.lock().unwrap_or_else(PoisonError::into_inner) = true;
        condition.notify_one();
    }
}
