//! Posting: the program's thread queues its work and, if nobody else is at it, transmits it.

use crate::driver::Driver;
use crate::facade::{Facade, Mutex};
use crate::port::Port;
use crate::queue_pair::QueuePairHandle;
use crate::receive_queue::Receives;
use converb_engine::iba::ReceiveSource;
use converb_engine::iba::{QueuePair, State};
use converb_engine::work::{PostError, ReceiveRequest, SendRequest};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl<P: Port, S: Facade> Driver<P, S> {
    /// Posts send work requests (`ibv_post_send`).
    ///
    /// # Errors
    /// The first request that was not taken, and why; those before it were.
    pub fn post_send(
        &self,
        queue_pair: &Arc<QueuePairHandle<P::Signal, S>>,
        requests: &[SendRequest<'_>],
    ) -> Result<(), (usize, PostError)> {
        self.use_now(queue_pair);
        let result = self.queue_sends(queue_pair, requests);
        if !matches!(result, Err((0, _))) {
            queue_pair.reply.replied();
            self.kick(queue_pair);
            self.port.mend();
        }
        result
    }

    fn queue_sends(
        &self,
        queue_pair: &Arc<QueuePairHandle<P::Signal, S>>,
        requests: &[SendRequest<'_>],
    ) -> Result<(), (usize, PostError)> {
        let takes_sends = queue_pair.state().takes_sends();
        let mut posted = queue_pair.posted.lock();
        for (index, request) in requests.iter().enumerate() {
            if !takes_sends {
                return Err((index, PostError::WrongState));
            }
            if !QueuePair::supports(queue_pair.service, request.operation) {
                return Err((index, PostError::WrongOperation));
            }
            let unfinished = queue_pair.unfinished.load(Ordering::Acquire) as usize;
            if unfinished >= posted.capacity() {
                return Err((index, PostError::QueueFull));
            }
            posted.push(request).map_err(|error| (index, error))?;
            queue_pair.unfinished.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Posts receives (`ibv_post_recv`).
    ///
    /// # Errors
    /// The first request that was not taken, and why; those before it were.
    pub fn post_receive(
        &self,
        queue_pair: &Arc<QueuePairHandle<P::Signal, S>>,
        requests: &[ReceiveRequest<'_>],
    ) -> Result<(), (usize, PostError)> {
        self.use_now(queue_pair);
        if !queue_pair.state().takes_receives() || queue_pair.has_shared_receives() {
            return Err((0, PostError::WrongState));
        }
        let result = queue_pair.receives.post(requests);
        // Looked at after posting: a queue pair that fails just now flushes either way.
        if queue_pair.state() == State::Error {
            self.kick(queue_pair);
        }
        result
    }
}

impl<G: crate::port::Signal, S: Facade> QueuePairHandle<G, S> {
    pub(crate) fn has_shared_receives(&self) -> bool {
        Receives(&self.receives).is_shared()
    }

    pub(crate) fn posted_is_empty(&self) -> bool {
        self.posted.lock().is_empty()
    }
}
