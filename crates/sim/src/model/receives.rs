//! Completions of receives.

use super::{Circumstances, Model};
use crate::scenario::Action;
use converb_engine::iba::Service;
use converb_engine::{Completion, CompletionKind, Extra, Status};

impl Model {
    /// Receive `index` of the queue that end `queue` owns has completed.
    ///
    /// # Errors
    /// What is wrong with that.
    pub fn receive_completed(
        &mut self,
        queue: usize,
        index: usize,
        completion: &Completion,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        self.last_event = around.now;
        self.completions += 1;
        self.check_receive((queue, index), completion, around).map_err(|why| {
            format!("end {queue}: completion of receive {index}: {why}\n  {completion:?}")
        })?;
        self.ends[queue].receive_outcomes[index] = Some(completion.status);
        Ok(())
    }

    fn check_receive(
        &mut self,
        (queue, index): (usize, usize),
        completion: &Completion,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        if index >= self.ends[queue].receives_posted {
            return Err("it was never posted".into());
        }
        let qpn = completion.qpn.value();
        let end = self.ends.iter().position(|end| end.qpn == qpn);
        let end = end.ok_or("it names a queue pair that nobody has")?;
        if self.scenario.ends[end].takes_from != queue {
            return Err(format!("it names the queue pair of end {end}, which takes from another"));
        }
        self.check_order(end, (queue, index))?;
        let state = &self.ends[end];
        if state.receives_broken && completion.status != Status::WorkRequestFlushed {
            return Err("it should have been flushed".into());
        }
        self.ends[end].last_receive = Some(index);
        if completion.status == Status::Success {
            return match self.service(end) {
                Service::ReliableConnection => {
                    self.check_next_message(end, (queue, index), completion, around)
                }
                Service::UnreliableConnection => {
                    self.check_whole_message(end, (queue, index), completion, around)
                }
                Service::UnreliableDatagram => {
                    self.check_datagram(end, (queue, index), completion, around)
                }
            };
        }
        match completion.status {
            Status::WorkRequestFlushed if self.may_die(end, around) => {}
            Status::WorkRequestFlushed => return Err("nothing is wrong with the queue pair".into()),
            status if self.is_reliable(end) => self.may_fail_for_peer(end, status)?,
            status => self.may_fail_for_receive(end, (queue, index), status)?,
        }
        self.ends[end].receives_broken = true;
        self.loosen_receive(queue, index);
        Ok(())
    }

    /// Receives complete in the order they were posted; of a shared queue, those of one queue pair
    /// do, for another may have taken one and not filled it yet.
    fn check_order(&self, end: usize, (queue, index): (usize, usize)) -> Result<(), String> {
        if self.ends[queue].receive_outcomes[index].is_some() {
            return Err("it had completed before".into());
        }
        let is_shared = self.scenario.ends[queue].shared.is_some();
        match self.ends[end].last_receive {
            Some(last) if is_shared && index < last => {
                Err(format!("end {end} had completed receive {last} before"))
            }
            _ if is_shared || index == self.receives_resolved(queue) => Ok(()),
            _ => Err(format!("expected that of receive {}", self.receives_resolved(queue))),
        }
    }

    /// Whether a receive may end with this error for what is wrong with itself: which message
    /// finds it is not known where messages may be lost.
    fn may_fail_for_receive(
        &self,
        end: usize,
        (queue, index): (usize, usize),
        status: Status,
    ) -> Result<(), String> {
        let receive = &self.ends[queue].receives[index];
        let legal = match status {
            Status::LocalLengthError => receive.capacity() < self.longest_message_to(end),
            Status::LocalProtectionError => receive.bad_key,
            _ => false,
        };
        if legal { Ok(()) } else { Err(format!("no legal end of {receive:?}")) }
    }

    /// Whether a completion tells of the message of a work, which `route` bytes precede.
    pub(super) fn fits(
        &self,
        sender: usize,
        work: usize,
        route: u32,
        completion: &Completion,
    ) -> bool {
        let plan = &self.ends[sender].works[work];
        let kind = match plan.action {
            Action::Send(_) => CompletionKind::Receive,
            _ => CompletionKind::ReceiveWriteWithImmediate,
        };
        let extra = plan.action.immediate().map_or(Extra::None, Extra::Immediate);
        completion.kind == kind
            && completion.extra == extra
            && completion.byte_length == route + plan.length()
            && completion.solicited == plan.solicited
    }

    /// What is in the buffer of a receive.
    pub(super) fn buffer<'a>(&self, (queue, index): (usize, usize), memory: &'a [u8]) -> &'a [u8] {
        let receive = &self.ends[queue].receives[index];
        let start = (self.scenario.ends[queue].layout.results.start + receive.offset) as usize;
        &memory[start..start + receive.capacity() as usize]
    }

    /// The bytes of a SEND in the buffer of its receive.
    pub(super) fn check_received(
        &mut self,
        receive: (usize, usize),
        payload: &[u8],
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let got = &self.buffer(receive, around.memory)[..payload.len()];
        if let Some(at) = (0..payload.len()).find(|&at| got[at] != payload[at]) {
            return Err(format!("byte {at} of {} is wrong", payload.len()));
        }
        self.keep_received(receive, payload);
        Ok(())
    }

    /// The buffer of a receive must hold these bytes from now on.
    pub(super) fn keep_received(&mut self, (queue, index): (usize, usize), bytes: &[u8]) {
        let plan = &self.scenario.ends[queue];
        let start = (plan.layout.results.start + self.ends[queue].receives[index].offset) as usize;
        self.image[plan.node][start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// The buffer of a receive that did not succeed may hold anything.
    pub(super) fn loosen_receive(&mut self, queue: usize, index: usize) {
        let plan = &self.scenario.ends[queue];
        let receive = &self.ends[queue].receives[index];
        let start = (plan.layout.results.start + receive.offset) as usize;
        self.loose[plan.node][start..start + receive.capacity() as usize].fill(true);
    }
}
