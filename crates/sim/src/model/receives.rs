//! Completions of receives.

use super::{Circumstances, Model};
use crate::scenario::{Action, Fault, Scenario};
use converb_engine::{Completion, CompletionKind, Extra, Status};

impl Model {
    /// A receive completed.
    ///
    /// # Errors
    /// What is wrong with that.
    pub fn receive_completed(
        &mut self,
        end: usize,
        index: usize,
        completion: &Completion,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        self.last_event = around.now;
        self.completions += 1;
        self.check_receive(end, index, completion, around).map_err(|why| {
            format!("end {end}: completion of receive {index}: {why}\n  {completion:?}")
        })?;
        self.ends[end].receive_outcomes.push(completion.status);
        Ok(())
    }

    fn check_receive(
        &mut self,
        end: usize,
        index: usize,
        completion: &Completion,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let state = &self.ends[end];
        if index >= state.receives_posted {
            return Err("it was never posted".into());
        }
        if index != state.receive_outcomes.len() {
            return Err(format!("expected that of receive {}", state.receive_outcomes.len()));
        }
        if completion.qpn.value() != state.qpn {
            return Err("it names another queue pair".into());
        }
        if state.receives_broken && completion.status != Status::WorkRequestFlushed {
            return Err("it should have been flushed".into());
        }
        let peer = Scenario::peer(end);
        let consuming = self.consuming(peer).nth(state.consumed);
        if completion.status == Status::Success {
            let work = consuming.ok_or("the peer has sent nothing for it")?;
            return self.check_message(end, index, peer, work, completion, around);
        }
        let posted = self.ends[peer].outcomes.len();
        let fault = consuming
            .filter(|&work| work < posted)
            .and_then(|work| self.ends[peer].works[work].fault);
        let legal = match completion.status {
            Status::LocalLengthError => fault == Some(Fault::ReceiveTooShort),
            Status::LocalProtectionError => fault == Some(Fault::ReceiveKey),
            Status::WorkRequestFlushed => self.may_die(end, around),
            _ => false,
        };
        if !legal {
            return Err(format!("no legal end of it (planted fault: {fault:?})"));
        }
        self.ends[end].receives_broken = true;
        self.loosen_receive(end, index);
        Ok(())
    }

    fn check_message(
        &mut self,
        end: usize,
        index: usize,
        peer: usize,
        work: usize,
        completion: &Completion,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let plan = &self.ends[peer].works[work];
        if work >= self.ends[peer].outcomes.len() {
            return Err(format!("work {work} of the peer, which it belongs to, is not posted"));
        }
        if let Some(fault) = plan.fault {
            return Err(format!("success in spite of {fault:?}"));
        }
        let kind = match plan.action {
            Action::Send(_) => CompletionKind::Receive,
            _ => CompletionKind::ReceiveWriteWithImmediate,
        };
        let extra = plan.action.immediate().map_or(Extra::None, Extra::Immediate);
        if completion.kind != kind
            || completion.extra != extra
            || completion.byte_length != plan.length()
            || completion.solicited != plan.solicited
        {
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
            _ => self.check_received(end, index, &payload, around)?,
        }
        self.ends[end].consumed += 1;
        Ok(())
    }

    /// The bytes of a SEND in the buffer of its receive.
    fn check_received(
        &mut self,
        end: usize,
        index: usize,
        payload: &[u8],
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let plan = &self.scenario.ends[end];
        let start = (plan.layout.results.start + self.ends[end].receives[index].offset) as usize;
        let got = &around.memory[start..start + payload.len()];
        if let Some(at) = (0..payload.len()).find(|&at| got[at] != payload[at]) {
            return Err(format!("byte {at} of {} is wrong", payload.len()));
        }
        self.image[plan.node][start..start + payload.len()].copy_from_slice(payload);
        Ok(())
    }

    /// The buffer of a receive that did not succeed may hold anything.
    pub(super) fn loosen_receive(&mut self, end: usize, index: usize) {
        let plan = &self.scenario.ends[end];
        let receive = &self.ends[end].receives[index];
        let start = (plan.layout.results.start + receive.offset) as usize;
        self.loose[plan.node][start..start + receive.capacity() as usize].fill(true);
    }
}
