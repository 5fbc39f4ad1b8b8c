//! How an attempt ends without a connection: REJ, from either side.
//!
//! The side that was asked remembers for a while what it has said. The REQ may come again, because
//! the REJ got lost or the network doubles, and is not to be taken for another attempt.

use super::{Connection, Event, Outbox, SERVICE_TIMEOUT, State, WrongState};
use crate::mad::MAD_SIZE;
use crate::message::{
    AdditionalInformation, Message, MessageRejected, PrivateData, Reason, Reject,
};
use crate::planted::{self, Planted};
use converb_engine::Time;
use converb_wire::ack_timeout;
use core::time::Duration;

/// A refusal is remembered no longer, whatever the peer says of its patience.
const REFUSAL_LIFE_MAX: Duration = Duration::from_secs(30);

impl Connection {
    /// REJ, from either side.
    pub(super) fn handle_reject(&mut self, reject: &Reject, now: Time, out: &mut Outbox) {
        // A copy of the REQ has come where nobody listens any more, or somebody else does. What it
        // asked for has been made meanwhile, by the first one.
        if reject.message_rejected == MessageRejected::REQUEST
            && !matches!(self.state, State::RequestSent(_))
            && !planted::is(Planted::LateRefusalEnds)
        {
            return;
        }
        match self.state {
            State::TimeWait { .. } | State::Refused { .. } | State::Closed => return,
            State::DisconnectSent(_) => {
                self.enter_time_wait(None, now);
                self.tell(Event::Disconnected(PrivateData::EMPTY), out);
                return;
            }
            // Who is ready here has not been heard there.
            State::Established(_) | State::DisconnectReceived { .. } => {
                self.enter_time_wait(None, now);
            }
            State::RequestSent(_)
            | State::RequestReceived
            | State::ReplyReceived
            | State::ReplySent(_) => self.close(Reason::TIMEOUT, now),
        }
        self.tell(Event::Rejected(*reject), out);
    }

    /// Refuses, or gives up what is half made.
    ///
    /// # Errors
    /// There is nothing (more) to refuse.
    pub fn reject(
        &mut self,
        reason: Reason,
        information: AdditionalInformation,
        private_data: PrivateData<148>,
        now: Time,
        out: &mut Outbox,
    ) -> Result<(), WrongState> {
        match self.state {
            State::RequestSent(_)
            | State::RequestReceived
            | State::ReplyReceived
            | State::ReplySent(_) => {
                let mad = self.rejection(reason, information, private_data);
                out.messages.push(mad);
                self.close_with(mad, now);
                Ok(())
            }
            _ => Err(WrongState),
        }
    }

    /// Ends what is no connection yet. If the REQ comes again the peer learns that, for this reason.
    pub(super) fn close(&mut self, reason: Reason, now: Time) {
        let mad = self.rejection(reason, AdditionalInformation::EMPTY, PrivateData::EMPTY);
        self.close_with(mad, now);
    }

    fn close_with(&mut self, answer: [u8; MAD_SIZE], now: Time) {
        self.state = match self.peer_interval {
            Some(interval) if !planted::is(Planted::RefusalForgotten) => {
                let more = ack_timeout(SERVICE_TIMEOUT).filter(|_| self.has_asked_for_time);
                let all = interval * (u32::from(self.timing.retries) + 1);
                let life = (all + more.unwrap_or_default()).min(REFUSAL_LIFE_MAX);
                let until = now + life.max(self.timing.time_wait);
                State::Refused { until, answer: Box::new(answer) }
            }
            _ => State::Closed,
        };
        self.begin_repeating(now);
    }

    pub(super) fn send_reject(&self, reason: Reason, out: &mut Outbox) {
        let (information, private_data) = (AdditionalInformation::EMPTY, PrivateData::EMPTY);
        out.messages.push(self.rejection(reason, information, private_data));
    }

    fn rejection(
        &self,
        reason: Reason,
        additional_information: AdditionalInformation,
        private_data: PrivateData<148>,
    ) -> [u8; MAD_SIZE] {
        let message_rejected = match self.state {
            State::RequestReceived | State::TimeWait { .. } => MessageRejected::REQUEST,
            State::ReplyReceived => MessageRejected::REPLY,
            _ => MessageRejected::OTHER,
        };
        let reject = Reject {
            local_communication_id: self.local_id,
            remote_communication_id: self.remote_id,
            message_rejected,
            reason,
            additional_information,
            private_data,
        };
        Message::Reject(reject).datagram(self.transaction_id)
    }
}
