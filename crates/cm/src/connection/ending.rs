//! How a connection ends, from either side: DREQ, DREP and TIMEWAIT (IBA 12.9.8.3).

use super::{Connection, Event, Outbox, State, WrongState};
use crate::message::{DisconnectReply, DisconnectRequest, Message, PrivateData};
use crate::planted::{self, Planted};
use converb_engine::Time;

impl Connection {
    /// Ends the connection (DREQ).
    ///
    /// # Errors
    /// There is none, or the peer ends it already: see
    /// [`confirm_disconnect`](Self::confirm_disconnect).
    pub fn disconnect(
        &mut self,
        private_data: PrivateData<220>,
        now: Time,
        out: &mut Outbox,
    ) -> Result<(), WrongState> {
        if !matches!(self.state, State::Established(_)) {
            return Err(WrongState);
        }
        let request = DisconnectRequest {
            local_communication_id: self.local_id,
            remote_communication_id: self.remote_id,
            remote_qpn_or_eecn: self.remote_qpn,
            private_data,
        };
        let message = Message::DisconnectRequest(request);
        let exchange = self.exchange(&message, self.transaction_id, now, out);
        self.state = State::DisconnectSent(exchange);
        Ok(())
    }

    /// Agrees that the connection ends (DREP).
    ///
    /// # Errors
    /// The peer has not asked for it.
    pub fn confirm_disconnect(
        &mut self,
        private_data: PrivateData<224>,
        now: Time,
        out: &mut Outbox,
    ) -> Result<(), WrongState> {
        let State::DisconnectReceived { transaction_id } = self.state else {
            return Err(WrongState);
        };
        let mad = self.disconnect_reply(private_data, transaction_id);
        out.messages.push(mad);
        self.enter_time_wait(Some(mad), now);
        Ok(())
    }

    /// DREQ: the peer ends it.
    pub(super) fn handle_disconnect(
        &mut self,
        transaction_id: u64,
        request: &DisconnectRequest,
        now: Time,
        out: &mut Outbox,
    ) {
        // Meant for an earlier one, whose names were the same.
        if request.remote_qpn_or_eecn != self.local_qpn {
            return;
        }
        match &self.state {
            // After a REP the peer was ready, for it had a connection to end.
            State::Established(_) | State::ReplySent(_) => {
                self.state = State::DisconnectReceived { transaction_id };
                self.tell(Event::DisconnectRequested(request.private_data), out);
                if self.is_released {
                    let _ = self.confirm_disconnect(PrivateData::EMPTY, now, out);
                }
            }
            // Both at once: each has what it wants.
            State::DisconnectSent(_) => {
                let mad = self.disconnect_reply(PrivateData::EMPTY, transaction_id);
                out.messages.push(mad);
                self.enter_time_wait(Some(mad), now);
                self.tell(Event::Disconnected(PrivateData::EMPTY), out);
            }
            State::TimeWait { .. } if planted::is(Planted::TimeWaitSilent) => {}
            State::TimeWait { answer: Some(answer), .. } => out.messages.push(**answer),
            // Without the RTU it was no connection here, and its end has been said without success.
            State::TimeWait { answer: None, .. } | State::Refused { .. } => {
                out.messages.push(self.disconnect_reply(PrivateData::EMPTY, transaction_id));
            }
            _ => {}
        }
    }

    /// DREP: the connection has ended for the peer, too.
    pub(super) fn handle_disconnected(
        &mut self,
        reply: &DisconnectReply,
        now: Time,
        out: &mut Outbox,
    ) {
        if let State::DisconnectSent(_) = self.state {
            self.enter_time_wait(None, now);
            self.tell(Event::Disconnected(reply.private_data), out);
        }
    }

    /// A DREQ has come whose connection nobody here knows: it has ended, and that is what its sender
    /// wants.
    pub fn confirm_unknown_disconnect(
        request: &DisconnectRequest,
        transaction_id: u64,
        out: &mut Outbox,
    ) {
        let reply = DisconnectReply {
            local_communication_id: request.remote_communication_id,
            remote_communication_id: request.local_communication_id,
            private_data: PrivateData::EMPTY,
        };
        out.messages.push(Message::DisconnectReply(reply).datagram(transaction_id));
    }
}
