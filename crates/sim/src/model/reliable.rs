//! What is special about reliable connections: every message arrives, in order, or the connection
//! ends; the peer may have to be asked again when it is not ready; READs bring data.

use super::expect::SLACK;
use super::{Circumstances, Model};
use crate::scenario::{Action, Fault, Scenario};
use converb_engine::{Completion, Status};

impl Model {
    /// A receive ended with success: it holds the next message of the peer.
    pub(super) fn check_next_message(
        &mut self,
        end: usize,
        (queue, index): (usize, usize),
        completion: &Completion,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let peer = Scenario::peer(end);
        let consuming = self.consuming(peer).nth(self.ends[end].consumed);
        let work = consuming.ok_or("the peer has sent nothing for it")?;
        let plan = &self.ends[peer].works[work];
        if work >= self.ends[peer].outcomes.len() {
            return Err(format!("work {work} of the peer, which it belongs to, is not posted"));
        }
        if let Some(fault) = plan.fault {
            return Err(format!("success in spite of {fault:?}"));
        }
        if !self.fits(peer, work, 0, completion) {
            return Err(format!("it does not fit work {work} of the peer: {plan:?}"));
        }
        let payload = self.payload(peer, work);
        match plan.action {
            Action::Write(offset, _) => {
                let own = &self.scenario.ends[end];
                let start = (own.layout.window.start + offset) as usize;
                let got = &around.memory[start..start + payload.len()];
                self.check_window(peer, offset, got, work, self.ends[peer].outcomes.len())
                    .map_err(|why| format!("the data is not there yet: {why}"))?;
            }
            _ => self.check_received((queue, index), &payload, around)?,
        }
        self.ends[end].consumed += 1;
        Ok(())
    }

    /// Whether a receive may end with this error.
    pub(super) fn may_fail_for_peer(&self, end: usize, status: Status) -> Result<(), String> {
        let peer = Scenario::peer(end);
        let posted = self.ends[peer].outcomes.len();
        let work = self.consuming(peer).nth(self.ends[end].consumed);
        let fault = work.filter(|&work| work < posted).and_then(|work| self.fault(peer, work));
        let legal = match status {
            Status::LocalLengthError => fault == Some(Fault::ReceiveTooShort),
            Status::LocalProtectionError => fault == Some(Fault::ReceiveKey),
            Status::LocalAccessError => fault == Some(Fault::Invalidates),
            _ => false,
        };
        if legal { Ok(()) } else { Err(format!("no legal end of it (planted fault: {fault:?})")) }
    }

    /// The bytes that a READ or an atomic brought.
    pub(super) fn check_returned(
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
            _ => self.note_found(end, index, got)?,
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

    /// Whether a flushed work may stand in front of the one whose error it was: a READ that waits
    /// for lost data does.
    pub(super) fn has_error_behind(&self, end: usize, index: usize) -> bool {
        let state = &self.ends[end];
        let posted = &state.works[..state.outcomes.len()];
        !state.broken
            && posted[index..].iter().any(|work| {
                work.fault.is_some()
                    || (self.scenario.ends[end].rnr_retry != 7 && work.action.consumes_receive())
            })
    }

    /// What a success says about how often the peer was not ready.
    pub(super) fn check_tries(
        &self,
        end: usize,
        index: usize,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        if self.scenario.weather.black_from == Some(0) {
            return Err("success without a network".into());
        }
        let tries = u32::from(self.scenario.ends[end].rnr_retry) + 1;
        let told = (around.rnr_naks)(end, self.rnr_psn(end, index));
        // Every RNR NAK answers a try of its own if nothing is lost, doubled or late.
        let is_exact = self.scenario.weather.is_fair() && self.scenario.weather.full == 0;
        if is_exact && tries < 8 && told > tries {
            return Err(format!("{told} RNR NAKs, but no more than {tries} tries are allowed"));
        }
        Ok(())
    }

    pub(super) fn rnr_exceeded(
        &self,
        end: usize,
        index: usize,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let plan = &self.scenario.ends[end];
        let work = &self.ends[end].works[index];
        if plan.rnr_retry == 7 || !work.action.consumes_receive() {
            return Err("RNR_RETRY_EXC, although it should be tried for ever".into());
        }
        let told = (around.rnr_naks)(end, self.rnr_psn(end, index));
        let tries = u32::from(plan.rnr_retry) + 1;
        if told < tries {
            return Err(format!("RNR_RETRY_EXC after {told} RNR NAKs instead of {tries}"));
        }
        Ok(())
    }

    /// The packet of a work that may find its receiver not ready: it is the one that takes a
    /// receive.
    fn rnr_psn(&self, end: usize, index: usize) -> u32 {
        let plan = &self.scenario.ends[end];
        let works = &self.ends[end].works;
        let packets = |length: u32| length.div_ceil(plan.mtu.bytes()).max(1);
        let before: u32 = works[..index].iter().map(|work| packets(work.length())).sum();
        let own = match works[index].action {
            Action::Write(..) => packets(works[index].length()) - 1,
            _ => 0,
        };
        (plan.send_psn + before + own) & 0x00ff_ffff
    }

    pub(super) fn retry_exceeded(
        &self,
        end: usize,
        index: usize,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let peer_is_dead = (around.is_dead)(Scenario::peer(end));
        if !peer_is_dead && !self.scenario.may_give_up(end) {
            return Err("RETRY_EXC, although the peer lives and the network lets it pass".into());
        }
        let Some(bound) = self.scenario.give_up_bound(end) else {
            return Err("RETRY_EXC, although there is no timeout".into());
        };
        let posted = self.ends[end].posted_at[index];
        let black = self.scenario.weather.black_from.filter(|_| !peer_is_dead);
        if let Some(black) = black {
            let since = around.now.saturating_sub(posted.max(black));
            if since > bound + SLACK {
                return Err(format!("RETRY_EXC after {since} ns, later than {bound}"));
            }
        }
        Ok(())
    }
}
