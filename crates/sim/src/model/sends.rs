//! Completions of send work requests.

use super::{Circumstances, Model, Outcome};
use crate::scenario::{Action, Scenario};
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
            _ => (CompletionKind::Read, work.length()),
        };
        if completion.kind != kind || completion.byte_length != bytes {
            return Err(format!("expected {kind:?} of {bytes} bytes"));
        }
        if self.scenario.weather.black_from == Some(0) {
            return Err("success without a network".into());
        }
        let tries = u32::from(self.scenario.ends[end].rnr_retry) + 1;
        let told = (around.rnr_naks)(self.rnr_psn(end, index));
        if self.counts_rnr_exactly() && tries < 8 && told > tries {
            return Err(format!("{told} RNR NAKs, but no more than {tries} tries are allowed"));
        }
        Ok(())
    }

    /// Whether every RNR NAK answers a try of its own: nothing is lost, doubled or late.
    fn counts_rnr_exactly(&self) -> bool {
        self.scenario.weather.is_fair() && self.scenario.weather.full == 0
    }

    fn succeed(
        &mut self,
        end: usize,
        index: usize,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let work = &self.ends[end].works[index];
        if let Some(fault) = work.fault {
            return Err(format!("it should have failed, for {fault:?} was planted"));
        }
        let action = work.action;
        if action.is_read() {
            self.check_read(end, index, around)?;
        }
        let state = &mut self.ends[end];
        state.outcomes[index] = Outcome::Success;
        state.resolved = index + 1;
        Ok(())
    }

    /// The bytes that a READ brought.
    fn check_read(
        &mut self,
        end: usize,
        index: usize,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let peer = Scenario::peer(end);
        let (plan, there) = (&self.scenario.ends[end], &self.scenario.ends[peer]);
        let work = &self.ends[end].works[index];
        let length = work.length() as usize;
        let start = (plan.layout.results.start + work.offset) as usize;
        let node = plan.node;
        let got = &around.memory[start..start + length];
        match work.action {
            Action::ReadArchive(offset) => {
                let from = (there.layout.archive.start + offset) as usize;
                let want = &self.initial[there.node][from..from + length];
                if let Some(at) = (0..length).find(|&at| got[at] != want[at]) {
                    return Err(format!("byte {at} of {length} that it read is wrong"));
                }
            }
            Action::ReadWindow(offset) => self
                .check_window(end, offset, got, index, self.unfenced_end(end, index))
                .map_err(|why| format!("it read what never was there: {why}"))?,
            _ => {}
        }
        self.image[node][start..start + length].copy_from_slice(got);
        Ok(())
    }

    /// The first posted work behind READ `index` that waits until it is complete.
    fn unfenced_end(&self, end: usize, index: usize) -> usize {
        let state = &self.ends[end];
        let posted = state.outcomes.len();
        (index + 1..posted).find(|&later| state.works[later].fence).unwrap_or(posted)
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
        let state = &mut self.ends[end];
        state.broken = broken;
        state.outcomes[index] = Outcome::Failed(status);
        state.resolved = index + 1;
        Ok(())
    }

    /// Whether a flushed work may stand in front of the one whose error it was.
    fn has_error_behind(&self, end: usize, index: usize) -> bool {
        let state = &self.ends[end];
        let posted = &state.works[..state.outcomes.len()];
        !state.broken
            && posted[index..].iter().any(|work| {
                work.fault.is_some()
                    || (self.scenario.ends[end].rnr_retry != 7 && work.action.consumes_receive())
            })
    }
}
