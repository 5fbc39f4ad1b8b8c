//! Which errors are legal, and when.

use super::{Circumstances, Model, breaks_peer};
use crate::scenario::{Action, Fault, Scenario};
use converb_engine::Status;

impl Model {
    /// Whether work `index` may be the first of its end to fail, with this status.
    pub(super) fn first_error(
        &self,
        end: usize,
        index: usize,
        status: Status,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let work = &self.ends[end].works[index];
        let fault = work.fault;
        let legal = match status {
            Status::RemoteAccessError => {
                matches!(fault, Some(Fault::UnknownKey | Fault::OutOfBounds(_) | Fault::NoAccess))
            }
            Status::LocalProtectionError => fault == Some(Fault::LocalKey),
            Status::RemoteInvalidRequest => fault == Some(Fault::ReceiveTooShort),
            Status::RemoteOperationError => fault == Some(Fault::ReceiveKey),
            Status::RnrRetryExceeded => return self.rnr_exceeded(end, index, around),
            Status::RetryExceeded => return self.retry_exceeded(end, index, around),
            Status::WorkRequestFlushed => self.may_die(end, around),
            _ => false,
        };
        if legal {
            return Ok(());
        }
        Err(format!("{status:?} is no legal end of it (planted fault: {fault:?})"))
    }

    fn rnr_exceeded(
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
        let told = (around.rnr_naks)(self.rnr_psn(end, index));
        let tries = u32::from(plan.rnr_retry) + 1;
        if told < tries {
            return Err(format!("RNR_RETRY_EXC after {told} RNR NAKs instead of {tries}"));
        }
        Ok(())
    }

    /// The packet of a work that may find its receiver not ready: it is the one that takes a
    /// receive.
    pub(super) fn rnr_psn(&self, end: usize, index: usize) -> u32 {
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

    fn retry_exceeded(
        &self,
        end: usize,
        index: usize,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        if !around.peer_is_dead && !self.scenario.may_give_up(end) {
            return Err("RETRY_EXC, although the peer lives and the network lets it pass".into());
        }
        let Some(bound) = self.scenario.give_up_bound(end) else {
            return Err("RETRY_EXC, although there is no timeout".into());
        };
        let posted = self.ends[end].posted_at[index];
        let black = self.scenario.weather.black_from.filter(|_| !around.peer_is_dead);
        if let Some(black) = black {
            let since = around.now.saturating_sub(posted.max(black));
            if since > bound + SLACK {
                return Err(format!("RETRY_EXC after {since} ns, later than {bound}"));
            }
        }
        Ok(())
    }

    /// Whether the queue pair of an end may be in the error state at all.
    pub(super) fn may_die(&self, end: usize, around: &Circumstances<'_>) -> bool {
        let peer = Scenario::peer(end);
        let posted = |end: usize| {
            let state = &self.ends[end];
            state.works.iter().take(state.outcomes.len())
        };
        self.ends[end].killed
            || self.ends[end].broken
            || around.peer_is_dead
            || self.scenario.may_give_up(end)
            || self.scenario.ends[end].rnr_retry != 7
            || posted(end).any(|work| work.fault.is_some())
            || posted(peer).any(|work| work.fault.is_some_and(breaks_peer))
    }
}

/// Programs look at their completions late by this much, in nanoseconds.
const SLACK: u64 = 10_000_000;
