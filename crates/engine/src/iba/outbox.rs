//! What a queue pair gives back besides packets, until its driver fetches it.

use super::cause::{Cause, Failure};
use super::event::{Event, Side};
use crate::completion::{Completion, Status};
use std::collections::VecDeque;

/// The most failures that wait to be fetched when nothing is at stake.
const NOTES_MAX: usize = 16;

/// What a queue pair gives back besides packets.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) completions: VecDeque<(Side, Completion)>,
    pub(super) events: VecDeque<Event>,
    pub(super) failures: VecDeque<Failure>,
    /// Why the queue pair, or its send queue, is in error: the first failure since it was reset.
    root: Option<Cause>,
    /// Send work requests that left the queue, for the poster's count.
    pub(super) retired: u32,
    /// One half of the queue pair failed: it goes to the error state.
    pub(super) failed: bool,
    /// The send queue of an unreliable queue pair failed: it stops, receiving goes on.
    pub(super) send_failed: bool,
    /// Whether the state is ready to send, or was until it began to drain.
    pub(super) ready_to_send: bool,
}

impl Outbox {
    pub(super) fn complete(&mut self, side: Side, completion: Completion) {
        self.completions.push_back((side, completion));
    }

    /// Keeps a failure for the record; flushes of the same half that follow each other are one.
    pub(super) fn record(&mut self, failure: Failure) {
        let last = self.failures.back_mut().filter(|last| {
            failure.is_flush() && last.cause == failure.cause && last.side == failure.side
        });
        if let Some(last) = last {
            last.count = last.count.saturating_add(failure.count);
            return;
        }
        if !failure.is_flush() {
            self.blame(&failure);
        }
        self.failures.push_back(failure);
    }

    /// Keeps something for the record that is lost without harm to the queue pair. Whoever sends
    /// much of it gets few lines.
    pub(super) fn note(&mut self, failure: Failure) {
        if self.failures.len() < NOTES_MAX {
            self.failures.push_back(failure);
        }
    }

    /// What is flushed from now on is flushed because of this, if nothing had failed before.
    pub(super) fn blame(&mut self, failure: &Failure) {
        self.root.get_or_insert(Cause::Flushed {
            wr_id: if failure.has_completion { failure.wr_id } else { 0 },
            status: failure.status as u64,
            cause: failure.cause.number().into(),
            is_ours: failure.has_completion.into(),
        });
    }

    /// Why work is flushed now.
    pub(super) fn flush_cause(&self) -> Cause {
        self.root.unwrap_or(Cause::FlushedByProgram {})
    }

    /// The queue pair works again: what fails from now on has a cause of its own.
    pub(super) fn forget_root(&mut self) {
        self.root = None;
    }

    /// A completion with an error, and its record.
    pub(super) fn complete_failed(&mut self, side: Side, completion: Completion, failure: Failure) {
        debug_assert!(completion.status != Status::Success, "only failures are recorded");
        self.record(Failure {
            has_completion: true,
            wr_id: completion.wr_id,
            status: completion.status,
            kind: completion.kind,
            side,
            ..failure
        });
        let vendor_error = failure.cause.number();
        self.complete(side, Completion { vendor_error, ..completion });
    }

    pub(super) fn event_before_ready_to_send(&mut self, event: Event) {
        if !self.ready_to_send {
            self.events.push_back(event);
        }
    }
}
