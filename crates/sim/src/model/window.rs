//! What a window may contain: the last WRITE that was certainly executed, or any of those that may
//! have been.

use super::{Model, Outcome, is_window_write};
use crate::scenario::{Action, Scenario};
use converb_engine::Status;

impl Model {
    /// Checks bytes of the window that `writer` writes into, from `offset` on: works up to and
    /// including `executed` were executed, those before `maybe_end` may have been.
    pub(super) fn check_window(
        &self,
        writer: usize,
        offset: u64,
        got: &[u8],
        executed: usize,
        maybe_end: usize,
    ) -> Result<(), String> {
        let certain = (0..self.ends[writer].outcomes.len()).take_while(|&index| index <= executed);
        let want = self.window_after(writer, offset, got.len(), certain);
        let later: Vec<usize> = (executed.wrapping_add(1)..maybe_end)
            .filter(|&index| self.may_have_written(writer, index))
            .collect();
        self.compare_window(writer, offset, got, &want, &later)
    }

    /// Checks a whole window after everything has ended.
    pub(super) fn check_final_window(&self, writer: usize, got: &[u8]) -> Result<(), String> {
        let outcomes = &self.ends[writer].outcomes;
        // What has no outcome asked for none, on a connection that lives: it was executed.
        let certain =
            (0..outcomes.len()).filter(|&index| !matches!(outcomes[index], Outcome::Failed(_)));
        let want = self.window_after(writer, 0, got.len(), certain);
        let maybe: Vec<usize> = (0..outcomes.len())
            .filter(|&index| matches!(outcomes[index], Outcome::Failed(_)))
            .filter(|&index| self.may_have_written(writer, index))
            .collect();
        self.compare_window(writer, 0, got, &want, &maybe)
    }

    /// The bytes of a window after these works, in order.
    pub(super) fn window_after(
        &self,
        writer: usize,
        offset: u64,
        length: usize,
        works: impl Iterator<Item = usize>,
    ) -> Vec<u8> {
        let target = &self.scenario.ends[Scenario::peer(writer)];
        let start = (target.layout.window.start + offset) as usize;
        let mut bytes = self.initial[target.node][start..start + length].to_vec();
        for index in works {
            self.overlay(writer, index, offset, &mut bytes);
        }
        bytes
    }

    /// Applies a WRITE to bytes of its window.
    fn overlay(&self, writer: usize, index: usize, offset: u64, bytes: &mut [u8]) {
        let work = &self.ends[writer].works[index];
        let Action::Write(to, _) = work.action else { return };
        if work.fault.is_some() {
            return;
        }
        let payload = self.payload(writer, index);
        for (at, byte) in payload.into_iter().enumerate() {
            let place = (to + at as u64).checked_sub(offset).map(|place| place as usize);
            if let Some(slot) = place.and_then(|place| bytes.get_mut(place)) {
                *slot = byte;
            }
        }
    }

    fn compare_window(
        &self,
        writer: usize,
        offset: u64,
        got: &[u8],
        want: &[u8],
        maybe: &[usize],
    ) -> Result<(), String> {
        let wrong: Vec<usize> = (0..got.len()).filter(|&at| got[at] != want[at]).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let alternatives: Vec<Vec<Option<u8>>> =
            maybe.iter().map(|&index| self.written(writer, index, offset, got.len())).collect();
        for at in wrong {
            if !alternatives.iter().any(|bytes| bytes[at] == Some(got[at])) {
                let place = offset + at as u64;
                return Err(format!(
                    "byte {place} of the window of end {} is {:02x}, not {:02x}",
                    Scenario::peer(writer),
                    got[at],
                    want[at]
                ));
            }
        }
        Ok(())
    }

    /// What a WRITE puts at each byte of a part of the window.
    pub(super) fn written(
        &self,
        writer: usize,
        index: usize,
        offset: u64,
        length: usize,
    ) -> Vec<Option<u8>> {
        let mut bytes = vec![None; length];
        let work = &self.ends[writer].works[index];
        let Action::Write(to, _) = work.action else { return bytes };
        if work.fault.is_some() {
            return bytes;
        }
        for (at, byte) in self.payload(writer, index).into_iter().enumerate() {
            let place = (to + at as u64).checked_sub(offset).map(|place| place as usize);
            if let Some(slot) = place.and_then(|place| bytes.get_mut(place)) {
                *slot = Some(byte);
            }
        }
        bytes
    }

    fn may_have_written(&self, writer: usize, index: usize) -> bool {
        is_window_write(self.ends[writer].works[index].action)
            && !self.certainly_not_executed(writer, index)
    }

    /// Whether a work cannot have changed the peer's memory: it was refused, or stands behind one
    /// that was.
    pub(super) fn certainly_not_executed(&self, writer: usize, index: usize) -> bool {
        let state = &self.ends[writer];
        let failed = state.outcomes.iter().position(|outcome| {
            matches!(outcome, Outcome::Failed(status) if *status != Status::WorkRequestFlushed)
        });
        let Some(failed) = failed else { return false };
        let Outcome::Failed(status) = state.outcomes[failed] else { return false };
        // A READ fails at home when its answer comes, while later works are on their way.
        let at_home = status == Status::LocalProtectionError;
        let stays_at_home = at_home && !state.works[failed].action.returns_data();
        let ends_the_responder = stays_at_home
            || matches!(
                status,
                Status::RemoteInvalidRequest
                    | Status::RemoteAccessError
                    | Status::RemoteOperationError
            );
        let refused_at_once = status == Status::RemoteAccessError && index == failed;
        ends_the_responder && (index > failed || refused_at_once)
    }
}
