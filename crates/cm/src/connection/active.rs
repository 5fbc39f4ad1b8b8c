//! The side that asks: REQ, and what it makes of the answers.

use super::{Connection, Event, Outbox, State, Timing, WrongState};
use crate::message::{Message, MessageMraed, PrivateData, ReadyToUse, Reason, Reply, Request};
use crate::planted::{self, Planted};
use converb_engine::Time;
use converb_wire::Qpn;

impl Connection {
    /// Asks for a connection. `request.local_communication_id` names it from now on, and is part of
    /// no other one that the peer may still know.
    pub fn request(request: Request, transaction_id: u64, now: Time, out: &mut Outbox) -> Self {
        let timing = Timing::new(
            request.remote_cm_response_timeout,
            request.primary.local_ack_timeout,
            request.max_cm_retries,
        );
        let mut connection = Self {
            local_id: request.local_communication_id,
            remote_id: 0,
            transaction_id,
            local_qpn: request.local_qpn,
            remote_qpn: Qpn::new(0),
            timing,
            peer_interval: None,
            has_asked_for_time: false,
            repeat: None,
            state: State::Closed,
            is_released: false,
        };
        let exchange = connection.exchange(&Message::Request(request), transaction_id, now, out);
        connection.state = State::RequestSent(exchange);
        connection
    }

    /// REP: the peer accepts.
    pub(super) fn handle_reply(&mut self, reply: &Reply, out: &mut Outbox) {
        match &self.state {
            State::RequestSent(_) => {
                self.remote_id = reply.local_communication_id;
                self.remote_qpn = reply.local_qpn;
                self.state = State::ReplyReceived;
                self.tell(Event::Replied(*reply), out);
            }
            State::ReplyReceived => {
                self.ask_for_time(MessageMraed::REPLY, out);
                self.has_asked_for_time = true;
            }
            // The RTU was lost.
            State::Established(Some(ready)) if !planted::is(Planted::LostReadyUnrepeated) => {
                out.messages.push(**ready);
            }
            _ => {}
        }
    }

    /// Tells the peer that its answer is good (RTU): there is a connection.
    ///
    /// # Errors
    /// There is no answer, or no longer.
    pub fn ready(
        &mut self,
        private_data: PrivateData<224>,
        now: Time,
        out: &mut Outbox,
    ) -> Result<(), WrongState> {
        if !matches!(self.state, State::ReplyReceived) {
            return Err(WrongState);
        }
        let ready = ReadyToUse {
            local_communication_id: self.local_id,
            remote_communication_id: self.remote_id,
            private_data,
        };
        let mad = Message::ReadyToUse(ready).datagram(self.transaction_id);
        out.messages.push(mad);
        self.state = State::Established(Some(Box::new(mad)));
        self.begin_repeating(now);
        Ok(())
    }

    /// A REP has come whose connection nobody here knows: its sender is told, that it does not wait.
    pub fn refuse_unknown_reply(reply: &Reply, transaction_id: u64, out: &mut Outbox) {
        let stranger = Self {
            local_id: reply.remote_communication_id,
            remote_id: reply.local_communication_id,
            transaction_id,
            local_qpn: Qpn::new(0),
            remote_qpn: reply.local_qpn,
            timing: Timing::new(0, 0, 0),
            peer_interval: None,
            has_asked_for_time: false,
            repeat: None,
            state: State::ReplyReceived,
            is_released: true,
        };
        stranger.send_reject(Reason::INVALID_COMMUNICATION_ID, out);
    }
}
