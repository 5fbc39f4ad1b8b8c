//! Unreliable connections: what arrives is a part of what was sent, in order, each message at most
//! once and whole. A message of which a packet is missing is dropped; of a WRITE the packets in
//! front of the gap have changed memory all the same (IBA 9.8.2).
//!
//! The numbers of the packets tell what came late or twice, so the receiver has to notice it, in
//! contrast to datagrams.

use super::{Circumstances, Model, Outcome, is_window_write};
use crate::scenario::{Action, Scenario};
use converb_engine::Completion;

impl Model {
    /// A receive ended with success: it holds one of the messages behind the last that arrived.
    pub(super) fn check_whole_message(
        &mut self,
        end: usize,
        (queue, index): (usize, usize),
        completion: &Completion,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let sender = Scenario::peer(end);
        let posted = self.ends[sender].outcomes.len();
        let last = self.ends[sender].arrivals.iter().rposition(|&count| count != 0);
        let first = last.map_or(0, |last| last + 1);
        let buffer = self.buffer((queue, index), around.memory);
        let is_it = |&work: &usize| {
            let plan = &self.ends[sender].works[work];
            let may_come = plan.action.consumes_receive() && plan.fault.is_none();
            // Data that was written is looked at below: it may be overwritten again.
            let is_there = |payload: Vec<u8>| {
                is_window_write(plan.action) || buffer.get(..payload.len()) == Some(&payload)
            };
            may_come
                && self.fits(sender, work, 0, completion)
                && is_there(self.payload(sender, work))
        };
        // Where several would do, the first leaves the most to those that follow.
        let Some(work) = (first..posted).find(is_it) else {
            return Err(format!("it is none of works {first} to {posted} of the peer, whole"));
        };
        // A longer message that was lost in part may have been there before.
        self.loosen_receive(queue, index);
        match self.ends[sender].works[work].action {
            Action::Write(offset, _) => {
                let start = self.scenario.ends[end].layout.window.start + offset;
                let length = completion.byte_length as usize;
                let got = &around.memory[start as usize..][..length];
                self.check_lossy_window(sender, offset, got, &|other| {
                    other == work || self.ends[sender].arrivals[other] != 0
                })
                .map_err(|why| format!("the data is not there: {why}"))?;
            }
            _ => {
                if self.ends[queue].receives[index].bad_key && completion.byte_length != 0 {
                    return Err("success in spite of a key that nobody has".into());
                }
                let payload = self.payload(sender, work);
                self.keep_received((queue, index), &payload);
                self.hold_received((queue, index), payload.len());
            }
        }
        self.ends[sender].arrivals[work] += 1;
        self.ends[end].consumed += 1;
        Ok(())
    }

    /// The first bytes of a buffer may not be anything.
    fn hold_received(&mut self, (queue, index): (usize, usize), length: usize) {
        let plan = &self.scenario.ends[queue];
        let start = (plan.layout.results.start + self.ends[queue].receives[index].offset) as usize;
        self.loose[plan.node][start..start + length].fill(false);
    }

    /// Checks the whole window that `writer` writes into after everything has ended.
    pub(super) fn check_final_lossy_window(&self, writer: usize, got: &[u8]) -> Result<(), String> {
        let target = Scenario::peer(writer);
        let must_arrive = self.scenario.loses_nothing() && !self.looks_dead(target);
        self.check_lossy_window(writer, 0, got, &|index| {
            let failed = matches!(self.ends[writer].outcomes[index], Outcome::Failed(_));
            self.ends[writer].arrivals[index] != 0 || (must_arrive && !failed)
        })
    }

    /// Checks bytes of the window that `writer` writes into: each is of the last WRITE to it that
    /// certainly arrived, or of one after that.
    fn check_lossy_window(
        &self,
        writer: usize,
        offset: u64,
        got: &[u8],
        is_certain: &dyn Fn(usize) -> bool,
    ) -> Result<(), String> {
        let mut unexplained: Vec<usize> = (0..got.len()).collect();
        for index in (0..self.ends[writer].outcomes.len()).rev() {
            let written = self.written(writer, index, offset, got.len());
            unexplained.retain(|&at| written[at] != Some(got[at]));
            let must_be = |&&at: &&usize| written[at].is_some() && is_certain(index);
            if let Some(at) = unexplained.iter().find(must_be) {
                return Err(format!(
                    "byte {} of the window of end {} is {:02x}, neither of work {index}, which \
                     arrived, nor of a later one",
                    offset + *at as u64,
                    Scenario::peer(writer),
                    got[*at]
                ));
            }
        }
        let want = self.window_after(writer, offset, got.len(), core::iter::empty());
        match unexplained.into_iter().find(|&at| got[at] != want[at]) {
            None => Ok(()),
            Some(at) => Err(format!(
                "byte {} of the window of end {} is {:02x}, which nobody wrote",
                offset + at as u64,
                Scenario::peer(writer),
                got[at]
            )),
        }
    }
}
