//! Completions of send work requests.

use super::{Circumstances, Model, Outcome, stays_at_home};
use crate::scenario::{Action, Fault};
use converb_engine::{Completion, CompletionKind, Status};

impl Model {
    /// A send work request completed.
    ///
    /// # Errors
    /// What is wrong with that.
    pub fn send_completed(
        &mut self,
        end: usize,
        index: usize,
        completion: &Completion,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        self.last_event = around.now;
        self.completions += 1;
        let checked = self.check_send(end, index, completion, around);
        checked.map_err(|why| {
            let work = self.ends[end].works.get(index);
            format!("end {end}: completion of work {index}: {why}\n  {completion:?}\n  {work:?}")
        })
    }

    fn check_send(
        &mut self,
        end: usize,
        index: usize,
        completion: &Completion,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let state = &self.ends[end];
        if index >= state.outcomes.len() {
            return Err("it was never posted".into());
        }
        if index < state.resolved {
            return Err("it had completed before, or a later one had".into());
        }
        if completion.qpn.value() != state.qpn {
            return Err("it names another queue pair".into());
        }
        for skipped in state.resolved..index {
            if self.ends[end].broken {
                return Err(format!("work {skipped} before it was not flushed"));
            }
            if self.signals(end, skipped) {
                return Err(format!("the completion of work {skipped} before it is missing"));
            }
            self.succeed(end, skipped, around)
                .map_err(|why| format!("so work {skipped} before it succeeded, but {why}"))?;
        }
        if completion.status == Status::Success {
            self.check_success(end, index, completion, around)?;
            self.succeed(end, index, around)
        } else {
            self.fail(end, index, completion.status, around)
        }
    }

    fn check_success(
        &self,
        end: usize,
        index: usize,
        completion: &Completion,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let work = &self.ends[end].works[index];
        if self.ends[end].broken {
            return Err("success after an error".into());
        }
        if !self.signals(end, index) {
            return Err("it did not ask for a completion".into());
        }
        let (kind, bytes) = match work.action {
            Action::Send(_) => (CompletionKind::Send, 0),
            Action::Write(..) => (CompletionKind::Write, 0),
            Action::FetchAdd { .. } => (CompletionKind::FetchAndAdd, 8),
            Action::CompareSwap { .. } => (CompletionKind::CompareAndSwap, 8),
            Action::ReadWindow(_) | Action::ReadArchive(_) => (CompletionKind::Read, work.length()),
        };
        if completion.kind != kind || completion.byte_length != bytes {
            return Err(format!("expected {kind:?} of {bytes} bytes"));
        }
        if self.is_reliable(end) { self.check_tries(end, index, around) } else { Ok(()) }
    }

    fn succeed(
        &mut self,
        end: usize,
        index: usize,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        // What goes wrong with the peer is only heard of on a reliable connection.
        let is_noticed = |&fault: &Fault| self.is_reliable(end) || stays_at_home(fault);
        if let Some(fault) = self.fault(end, index).filter(is_noticed) {
            return Err(format!("it should have failed, for {fault:?} was planted"));
        }
        if self.ends[end].works[index].action.returns_data() {
            self.check_returned(end, index, around)?;
        }
        let state = &mut self.ends[end];
        state.outcomes[index] = Outcome::Success;
        state.resolved = index + 1;
        Ok(())
    }

    fn fail(
        &mut self,
        end: usize,
        index: usize,
        status: Status,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        if self.ends[end].broken {
            if status != Status::WorkRequestFlushed {
                return Err("a second error; all after the first should be flushed".into());
            }
        } else {
            self.first_error(end, index, status, around)?;
        }
        // A READ that waits for lost data is flushed in front of the work whose error it was.
        let broken = status != Status::WorkRequestFlushed || !self.has_error_behind(end, index);
        // Wherever the error stands, a reliable queue pair that flushes has failed.
        let told = self.is_reliable(end);
        let state = &mut self.ends[end];
        state.told |= told;
        state.broken = broken;
        state.outcomes[index] = Outcome::Failed(status);
        state.resolved = index + 1;
        Ok(())
    }
}
