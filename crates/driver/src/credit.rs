//! Credit datagrams between Converb processes: answered as they come out of the receive buffer.

use crate::driver::Driver;
use crate::facade::{Facade, Mutex};
use crate::port::{Port, Received};
use crate::queue_pair::QueuePairHandle;
use converb_engine::iba::{CreditKind, CreditMessage, PathWindow};
use converb_engine::{Address, AddressVector, PacketSink, Time};
use converb_wire::Bth;
use core::time::Duration;
use std::sync::Arc;

/// Who has asked lately, for they share the receive buffer.
#[derive(Debug, Default)]
pub(crate) struct Askers {
    recent: Vec<(Address, u16, Time)>,
}

/// Who has not asked for this long uses no buffer.
const RECENT: Duration = Duration::from_millis(500);
/// No more than this many are told apart.
const ASKERS_MAX: usize = 256;

impl Askers {
    /// How many there are, the one that asks now included.
    fn count(&mut self, source: Address, slot: u16, now: Time) -> usize {
        self.recent.retain(|(_, _, asked)| now.since(*asked) < RECENT);
        let known = self.recent.iter_mut().find(|(ip, number, _)| *ip == source && *number == slot);
        if let Some((_, _, asked)) = known {
            *asked = now;
        } else if self.recent.len() < ASKERS_MAX {
            self.recent.push((source, slot, now));
        }
        self.recent.len().max(1)
    }
}

/// The traffic class of the answer to a question: that of the question, as it left the asker. A
/// router's word about congestion is for us, and says that the asker knows of such words.
fn class_of_answer(question: u8) -> u8 {
    const ECN: u8 = 0b11;
    const CONGESTION_EXPERIENCED: u8 = 0b11;
    const CAPABLE: u8 = 0b10;
    if question & ECN == CONGESTION_EXPERIENCED { question & !ECN | CAPABLE } else { question }
}

impl<P: Port, S: Facade> Driver<P, S> {
    /// A credit datagram came: answers a question into `batch`; true if it was an answer, so that
    /// senders may go on.
    pub(crate) fn handle_credit(
        &self,
        message: CreditMessage,
        received: &Received<'_>,
        askers: &mut Askers,
        batch: &mut P::Outgoing,
    ) -> bool {
        let path = self.paths.0.lock().known(received.source, message.slot);
        if let Some(path) = &path {
            path.credit().met_converb();
        }
        match message.kind {
            CreditKind::Answer => {
                if let Some(path) = path {
                    path.credit().answered(message.count, message.grant);
                }
                true
            }
            CreditKind::Question => {
                let now = self.port.now();
                let peers = askers.count(received.source, message.slot, now);
                let grant = PathWindow::grant(self.port.receive_buffer_bytes(), peers);
                self.answer(message, grant, received, batch);
                false
            }
        }
    }

    fn answer(
        &self,
        question: CreditMessage,
        grant: u32,
        received: &Received<'_>,
        batch: &mut P::Outgoing,
    ) {
        let Some((bth, _)) = Bth::parse(received.bytes) else { return };
        let slot = (bth.destination.value() >> 14) as u16;
        let back = AddressVector {
            local: received.local,
            remote: received.source,
            traffic_class: class_of_answer(received.traffic_class),
            hop_limit: 0,
            flow_label: 0,
            service_level: 0,
        };
        let to = CreditMessage::destination(question.slot);
        let answer = CreditMessage { kind: CreditKind::Answer, slot, grant, ..question };
        for _ in 0..2 {
            if let Some(bytes) = batch.begin(&back, to, CreditMessage::LENGTH) {
                answer.emit(question.slot, bytes);
                batch.finish();
                return;
            }
            self.outlet.send(&self.port, batch);
        }
    }

    /// Remembers a queue pair that waits for an answer.
    pub(crate) fn wait_for_credit(&self, handle: &Arc<QueuePairHandle<P::Signal, S>>) {
        let mut waiters = self.credit_waiters.lock();
        if !waiters.iter().any(|waiter| Arc::ptr_eq(waiter, handle)) {
            waiters.push_back(Arc::clone(handle));
        }
    }

    /// An answer came: whoever waits for one tries again.
    pub(crate) fn serve_credit_waiters(&self) {
        // Who has to wait again is at the end then, and not tried a second time.
        let count = self.credit_waiters.lock().len();
        for _ in 0..count {
            let waiter = self.credit_waiters.lock().pop_front();
            let Some(handle) = waiter else { return };
            self.kick(&handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_of_the_class_of_their_questions() {
        assert_eq!(class_of_answer(0), 0);
        assert_eq!(class_of_answer(96), 96);
        assert_eq!(class_of_answer(98), 98);
        assert_eq!(class_of_answer(97), 97);
        assert_eq!(class_of_answer(99), 98, "congestion on the way here is none on the way back");
    }
}
