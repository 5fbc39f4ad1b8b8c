//! Which errors are legal, and when.

use super::{Circumstances, Model, breaks_peer};
use crate::scenario::{Action, Fault, ROUTE_LENGTH, Scenario};
use converb_engine::Status;
use converb_engine::iba::Service;

/// Programs look at their completions late by this much, in nanoseconds.
pub(super) const SLACK: u64 = 10_000_000;

impl Model {
    /// What is wrong on purpose with a work.
    pub(super) fn fault(&self, end: usize, index: usize) -> Option<Fault> {
        self.ends[end].works[index].fault
    }

    /// Whether work `index` may be the first of its end to fail, with this status.
    pub(super) fn first_error(
        &self,
        end: usize,
        index: usize,
        status: Status,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let fault = self.fault(end, index);
        let legal = match (self.is_reliable(end), status) {
            (_, Status::LocalProtectionError) => fault == Some(Fault::LocalKey),
            (_, Status::WorkRequestFlushed) => self.may_die(end, around),
            (false, Status::LocalLengthError) => fault == Some(Fault::TooLong),
            (false, Status::LocalQpOperationError) => fault == Some(Fault::NoDestination),
            (false, _) => false,
            (true, Status::RemoteAccessError) => matches!(
                fault,
                Some(
                    Fault::UnknownKey
                        | Fault::OutOfBounds(_)
                        | Fault::NoAccess
                        | Fault::Invalidates
                )
            ),
            (true, Status::RemoteInvalidRequest) => {
                matches!(fault, Some(Fault::ReceiveTooShort | Fault::Misaligned))
            }
            (true, Status::RemoteOperationError) => fault == Some(Fault::ReceiveKey),
            (true, Status::RnrRetryExceeded) => return self.rnr_exceeded(end, index, around),
            (true, Status::RetryExceeded) => return self.retry_exceeded(end, index, around),
            (true, _) => false,
        };
        if legal {
            return Ok(());
        }
        Err(format!("{status:?} is no legal end of it (planted fault: {fault:?})"))
    }

    /// Whether the queue pair of an end may be in the error state at all; or, of one that is not
    /// reliable, its send queue.
    pub(super) fn may_die(&self, end: usize, around: &Circumstances<'_>) -> bool {
        if self.ends[end].killed || self.ends[end].broken {
            return true;
        }
        if !self.is_reliable(end) {
            return self.has_spoilt_receive(end);
        }
        let peer = Scenario::peer(end);
        let posted = |end: usize| {
            let state = &self.ends[end];
            state.works.iter().take(state.outcomes.len())
        };
        (around.is_dead)(peer)
            || self.scenario.may_give_up(end)
            || self.scenario.ends[end].rnr_retry != 7
            || posted(end).any(|work| work.fault.is_some())
            || posted(peer).any(|work| work.fault.is_some_and(breaks_peer))
    }

    /// Whether a receive that an end may take would not do for a message that may come.
    fn has_spoilt_receive(&self, end: usize) -> bool {
        let queue = self.scenario.ends[end].takes_from;
        let longest = self.longest_message_to(end);
        let receives = &self.ends[queue].receives;
        receives.iter().any(|receive| receive.bad_key || receive.capacity() < longest)
    }

    /// The longest message that somebody sends to an end, with all that is put into its receive.
    pub(super) fn longest_message_to(&self, end: usize) -> u32 {
        let route = self.route_length(end);
        let mut longest = 0;
        for (sender, state) in self.ends.iter().enumerate() {
            for work in &state.works {
                let is_sent = work.fault.is_none() && matches!(work.action, Action::Send(_));
                if is_sent && Scenario::target(sender, work) == end {
                    longest = longest.max(route + work.length());
                }
            }
        }
        longest
    }

    /// How much precedes a message in the receives of an end.
    pub(super) fn route_length(&self, end: usize) -> u32 {
        if self.service(end) == Service::UnreliableDatagram { ROUTE_LENGTH } else { 0 }
    }
}
