//! The side that is asked: REP, and waiting for the RTU.

use super::{Connection, Event, Outbox, State, Timing, WrongState};
use crate::mad::Header;
use crate::message::{Message, MessageMraed, PrivateData, Reason, Reply, Request};
use converb_engine::Time;
use converb_wire::Qpn;

impl Connection {
    /// A connection that a REQ asks for, which the program decides about. `local_id` names it from
    /// now on.
    pub fn requested(local_id: u32, header: &Header, request: &Request) -> Self {
        let timing = Timing::new(
            request.local_cm_response_timeout,
            request.primary.local_ack_timeout,
            request.max_cm_retries,
        );
        Self {
            local_id,
            remote_id: request.local_communication_id,
            transaction_id: header.transaction_id,
            local_qpn: Qpn::new(0),
            remote_qpn: request.local_qpn,
            timing,
            peer_interval: Some(Timing::interval(
                request.remote_cm_response_timeout,
                request.primary.local_ack_timeout,
            )),
            has_asked_for_time: false,
            repeat: None,
            state: State::RequestReceived,
            is_released: false,
        }
    }

    /// Accepts (REP), with the queue pair and the limits of this side; both communication IDs are
    /// filled in here.
    ///
    /// # Errors
    /// The peer has given up meanwhile, or this was said already.
    pub fn reply(&mut self, reply: Reply, now: Time, out: &mut Outbox) -> Result<(), WrongState> {
        if !matches!(self.state, State::RequestReceived) {
            return Err(WrongState);
        }
        self.local_qpn = reply.local_qpn;
        let reply = Reply {
            local_communication_id: self.local_id,
            remote_communication_id: self.remote_id,
            ..reply
        };
        let exchange = self.exchange(&Message::Reply(reply), self.transaction_id, now, out);
        self.state = State::ReplySent(exchange);
        Ok(())
    }

    /// The same REQ once more: the answer was lost, or takes its time.
    pub(super) fn handle_duplicate(&mut self, out: &mut Outbox) {
        match &self.state {
            State::RequestReceived => {
                self.ask_for_time(MessageMraed::REQUEST, out);
                self.has_asked_for_time = true;
            }
            State::ReplySent(exchange) => out.messages.push(*exchange.mad()),
            // What it asks for has been and is over.
            State::TimeWait { .. } => self.send_reject(Reason::STALE_CONNECTION, out),
            State::Refused { answer, .. } => out.messages.push(**answer),
            _ => {}
        }
    }

    /// RTU: the peer is ready.
    pub(super) fn handle_ready(&mut self, private_data: PrivateData<224>, out: &mut Outbox) {
        if let State::ReplySent(_) = self.state {
            self.state = State::Established(None);
            self.tell(Event::Ready(private_data), out);
        }
    }

    /// A packet has come on the queue pair, so the peer is ready, whatever became of its RTU
    /// (IBA 12.9.6, `rdma_notify` with `IBV_EVENT_COMM_EST`).
    pub fn heard(&mut self, out: &mut Outbox) {
        self.handle_ready(PrivateData::EMPTY, out);
    }
}
