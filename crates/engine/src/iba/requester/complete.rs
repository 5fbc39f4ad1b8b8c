//! Ends work requests: in order, with success, with an error, or flushed.

use super::{Requester, Stuck};
use crate::completion::{Completion, CompletionKind, Status};
use crate::iba::cause::{Ending, Failure};
use crate::iba::environment::Environment;
use crate::iba::event::Side;
use crate::iba::outbox::Outbox;
use crate::iba::path::PathWindow;
use crate::iba::queue_pair::Identity;
use crate::iba::read_budget::ReadBudget;
use crate::memory::Memory;
use crate::planted::{self, Planted};
use crate::work::{Operation, SendWork};
use converb_wire::{Psn, Qpn};

impl Requester {
    /// The peer has executed everything before `limit`: completes what is complete. READs also
    /// need their responses; false if some are missing in front of `limit`.
    pub(super) fn advance<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        limit: Psn,
    ) -> bool {
        let base = self.unacknowledged;
        let goal = limit.since(base);
        let mut complete = true;
        while self.queue.first() < self.unstarted {
            let number = self.queue.first();
            let end = self.progress[self.queue.slot(number)].end();
            if self.queue.work(number).operation.returns_data() {
                while self.unacknowledged != end && self.received.remove(self.unacknowledged) {
                    self.unacknowledged = self.unacknowledged.plus(1);
                }
                if self.unacknowledged != end {
                    complete = self.unacknowledged.since(base) >= goal;
                    break;
                }
            } else if end.since(base) <= goal {
                self.unacknowledged = end;
            } else {
                if goal > self.unacknowledged.since(base) {
                    self.unacknowledged = limit;
                }
                break;
            }
            self.retire(identity, outbox);
        }
        if self.unacknowledged != base {
            self.settle(env, base);
        }
        if let Some(stuck) = self.stuck
            && stuck.work == self.queue.first()
        {
            self.fail(identity, env, outbox, stuck.work, stuck.ending);
        }
        complete
    }

    /// Gives back what the acknowledged packets held.
    fn settle<M: Memory>(&mut self, env: &mut Environment<'_, M>, base: Psn) {
        let moved = self.unacknowledged.since(base);
        let in_flight = self.cursor.since(base);
        let charge = if moved >= in_flight {
            self.charged
        } else {
            (u64::from(self.charged) * u64::from(moved) / u64::from(in_flight)) as u32
        };
        env.path.acknowledged(charge);
        self.charged -= charge;
        if moved > in_flight {
            // What was about to be sent again had arrived after all.
            self.cursor = self.unacknowledged;
            self.cursor_work = self.queue.first();
        }
        self.cursor_work = self.cursor_work.max(self.queue.first());
        while let Some(read) = self.reads.front() {
            if self.unacknowledged.is_before(read.end) {
                break;
            }
            env.reads.give(read.budget);
            self.reads.pop_front();
        }
        if let Some((psn, sent)) = self.round_trip_sample
            && !self.unacknowledged.is_before(psn)
        {
            env.path.measured(env.now.since(sent));
            self.round_trip_sample = None;
        }
        self.timers.progressed(env.now);
    }

    /// The oldest work request has succeeded.
    fn retire(&mut self, identity: &Identity, outbox: &mut Outbox) {
        let work = self.queue.work(self.queue.first());
        if work.flags.signaled || identity.signal_all {
            outbox.complete(Side::Send, completion(work, identity.qpn, Status::Success));
        }
        self.queue.pop();
        outbox.retired += 1;
    }

    /// A work request cannot be sent: it fails when those before it are complete.
    pub(super) fn get_stuck<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        work: u64,
        ending: Ending,
    ) {
        if work == self.queue.first() {
            self.fail(identity, env, outbox, work, ending);
        } else if self.stuck.is_none_or(|stuck| work < stuck.work) {
            self.stuck = Some(Stuck { work, ending });
        }
    }

    /// A work request fails, and the queue pair with it; what is before it is flushed.
    pub(super) fn fail<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        work: u64,
        ending: Ending,
    ) {
        let failed = completion(self.queue.work(work), identity.qpn, ending.status);
        let failure = Failure {
            has_completion: true,
            wr_id: failed.wr_id,
            psn: ending.psn,
            ..identity.failure(ending.status, ending.cause)
        };
        outbox.blame(&failure);
        while self.queue.first() < work {
            self.flush_first(identity, outbox);
        }
        outbox.complete_failed(Side::Send, failed, failure);
        self.queue.pop();
        outbox.retired += 1;
        outbox.failed = true;
        self.flush(identity, env.path, env.reads, outbox);
    }

    /// Flushes every work request in the queue.
    pub(in crate::iba) fn flush(
        &mut self,
        identity: &Identity,
        path: &PathWindow,
        reads: &ReadBudget,
        outbox: &mut Outbox,
    ) {
        while !self.queue.is_empty() {
            self.flush_first(identity, outbox);
        }
        self.forget(path, reads);
    }

    /// Gives back everything that is held and forgets all work requests (reset, destroy).
    pub(in crate::iba) fn forget(&mut self, path: &PathWindow, reads: &ReadBudget) {
        self.queue.clear();
        self.unstarted = self.queue.end();
        self.cursor_work = self.queue.end();
        self.unacknowledged = self.next;
        self.cursor = self.next;
        self.sent_end = self.next;
        path.left(self.charged);
        self.charged = 0;
        for read in self.reads.drain(..) {
            reads.give(read.budget);
        }
        self.received.clear();
        self.recovery.start_over();
        self.stuck = None;
        self.gap = None;
        self.round_trip_sample = None;
    }

    fn flush_first(&mut self, identity: &Identity, outbox: &mut Outbox) {
        let work = self.queue.work(self.queue.first());
        let lie = planted::is(Planted::FlushSucceeds);
        let status = if lie { Status::Success } else { Status::WorkRequestFlushed };
        let flushed = completion(work, identity.qpn, status);
        if lie {
            outbox.complete(Side::Send, flushed);
        } else {
            let failure = identity.failure(status, outbox.flush_cause());
            outbox.complete_failed(Side::Send, flushed, failure);
        }
        self.queue.pop();
        outbox.retired += 1;
    }
}

fn completion(work: &SendWork, qpn: Qpn, status: Status) -> Completion {
    let kind = match work.operation {
        Operation::Send | Operation::SendWithImmediate(_) | Operation::SendWithInvalidate(_) => {
            CompletionKind::Send
        }
        Operation::Write(_) | Operation::WriteWithImmediate(..) => CompletionKind::Write,
        Operation::Read(_) => CompletionKind::Read,
        Operation::CompareAndSwap { .. } => CompletionKind::CompareAndSwap,
        Operation::FetchAndAdd { .. } => CompletionKind::FetchAndAdd,
    };
    let byte_length = if work.operation.returns_data() { work.length } else { 0 };
    Completion { wr_id: work.wr_id, status, kind, byte_length, qpn, ..Completion::default() }
}
