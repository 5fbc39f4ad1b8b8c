//! Polling: a thread that finds its completion queue empty drains the port itself.

use crate::completion_queue::CompletionQueueHandle;
use crate::driver::Driver;
use crate::facade::Facade;
use crate::port::Port;
use converb_engine::Completion;
use std::sync::atomic::Ordering;

impl<P: Port, S: Facade> Driver<P, S> {
    /// Takes completions (`ibv_poll_cq`); returns how many.
    pub fn poll(
        &self,
        completion_queue: &CompletionQueueHandle<P::Signal, S>,
        completions: &mut [Completion],
    ) -> usize {
        completion_queue.use_now(&self.forking.count);
        let count = completion_queue.take(completions);
        if count != 0 || completions.is_empty() {
            return count;
        }
        self.look(true);
        let looked_at = self.drained_at.load(Ordering::Relaxed);
        self.polled_at.store(looked_at, Ordering::Release);
        self.port.mend();
        completion_queue.take(completions)
    }
}
