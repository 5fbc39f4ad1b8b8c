//! A receive that is being filled: the part of SEND that is the same for all services.

use super::cause::{Cause, Failure};
use super::environment::Environment;
use super::event::Side;
use super::outbox::Outbox;
use crate::completion::Completion;
use crate::execution::{ExecutionError, scatter};
use crate::memory::{Access, Memory};
use crate::work::ReceiveWork;

/// A receive taken from its queue.
#[derive(Debug, Default)]
pub(super) struct OpenReceive {
    work: ReceiveWork,
    is_open: bool,
}

impl OpenReceive {
    /// Makes sure that there is a receive: the one already taken, or the next. False if none is
    /// posted.
    pub(super) fn open<M: Memory>(&mut self, env: &mut Environment<'_, M>) -> bool {
        self.is_open = self.is_open || env.receives.take(&mut self.work);
        self.is_open
    }

    /// Stores bytes of the message.
    pub(super) fn place<M: Memory>(
        &self,
        env: &Environment<'_, M>,
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), ExecutionError> {
        let list = &self.work.scatter;
        scatter(env.keys, env.memory, env.domain, list, u64::from(offset), bytes)
    }

    /// Why bytes of the message could not be stored.
    pub(super) fn explain<M: Memory>(
        &self,
        env: &Environment<'_, M>,
        offset: u32,
        length: usize,
        error: ExecutionError,
    ) -> Cause {
        let (list, part) = (&self.work.scatter, (u64::from(offset), length));
        Cause::local(env.keys, env.domain, list, part, Access::LOCAL_WRITE, error)
    }

    /// The receive has failed: `completion` gets its number.
    pub(super) fn fail(&mut self, outbox: &mut Outbox, completion: Completion, failure: Failure) {
        self.is_open = false;
        let completion = Completion { wr_id: self.work.wr_id, ..completion };
        outbox.complete_failed(Side::Receive, completion, failure);
    }

    /// The receive is done: `completion` gets its number.
    pub(super) fn complete(&mut self, outbox: &mut Outbox, completion: Completion) {
        self.is_open = false;
        outbox.complete(Side::Receive, Completion { wr_id: self.work.wr_id, ..completion });
    }

    /// The number of the receive that was taken and not done, which is flushed.
    pub(super) fn close(&mut self) -> Option<u64> {
        core::mem::take(&mut self.is_open).then_some(self.work.wr_id)
    }
}
