//! What becomes of a message that has come.

use super::{Entry, Listener, Manager, News, Place};
use crate::connection::{Connection, Outbox};
use crate::mad::{Header, MAD_SIZE};
use crate::message::{
    AlternatePathResponse, AlternatePathStatus, LoadAlternatePath, Message, MessageRejected,
    PrivateData, Reason, Reject, Request, ServiceId,
};
use crate::planted::{self, Planted};
use converb_engine::{AddressVector, Time};

impl Manager {
    /// Takes in a datagram that has come to queue pair 1. `path` is the way back: its `remote` is
    /// where the datagram came from.
    pub fn handle(&mut self, mad: &[u8; MAD_SIZE], path: AddressVector, now: Time) {
        self.counters.messages += 1;
        let Ok((header, message)) = Message::parse(mad) else {
            self.counters.malformed += 1;
            return;
        };
        match &message {
            Message::Request(request) => self.handle_request(&header, request, path, now),
            Message::ServiceRequest(request) => self.handle_service_request(&header, request, path),
            Message::ServiceReply(reply) => self.handle_service_reply(reply, path.remote),
            _ => self.handle_of_connection(&header, &message, path, now),
        }
    }

    /// A message that names its connection.
    fn handle_of_connection(
        &mut self,
        header: &Header,
        message: &Message,
        path: AddressVector,
        now: Time,
    ) {
        match (self.find(message, path), message) {
            (Some(id), Message::LoadAlternatePath(load)) => {
                self.refuse_alternate_path(id, header, load);
            }
            (Some(id), _) => {
                let _ = self.with(id, |connection, out| {
                    connection.handle(header, message, now, out);
                });
            }
            (None, _) => self.handle_unknown(header, message, path),
        }
    }

    /// The connection that a message names, if it comes from that one's peer.
    fn find(&self, message: &Message, path: AddressVector) -> Option<u32> {
        let (theirs, mut ours) = message.communication_ids()?;
        if ours == 0 && matches!(message, Message::Reject(_)) {
            // A peer that gives up before it has heard of us knows only its own name.
            ours = *self.asked.get(&(path.remote, theirs))?;
        }
        let entry = self.connections.get(&ours)?;
        let remote = entry.connection.remote_id();
        // Who does not serve has no name for it, and before a REP nobody knows the peer's.
        let is_peer =
            theirs == remote || remote == 0 || theirs == 0 && matches!(message, Message::Reject(_));
        (is_peer && entry.path.remote == path.remote).then_some(ours)
    }

    fn handle_unknown(&mut self, header: &Header, message: &Message, path: AddressVector) {
        self.counters.unknown += 1;
        let mut out = Outbox::default();
        let tid = header.transaction_id;
        match message {
            Message::Reply(reply) => Connection::refuse_unknown_reply(reply, tid, &mut out),
            Message::DisconnectRequest(request) => {
                Connection::confirm_unknown_disconnect(request, tid, &mut out);
            }
            _ => {}
        }
        self.messages.extend(out.messages.into_iter().map(|mad| (path, mad)));
    }

    fn handle_request(
        &mut self,
        header: &Header,
        request: &Request,
        path: AddressVector,
        now: Time,
    ) {
        let asked = (path.remote, request.local_communication_id);
        if let Some(&id) = self.asked.get(&asked)
            && self.connections[&id].connection.transaction_id() == header.transaction_id
            && !planted::is(Planted::DuplicateRequestTakenForNew)
        {
            let message = Message::Request(*request);
            let _ = self.with(id, |connection, out| connection.handle(header, &message, now, out));
            return;
        }
        if self.ends_stale(path, request.local_qpn.value(), now) {
            self.refuse(header, request, Reason::STALE_CONNECTION, path);
            return;
        }
        let Some(listener) = self.find_listener(request.service_id, path) else {
            self.counters.unserved += 1;
            self.refuse(header, request, Reason::INVALID_SERVICE_ID, path);
            return;
        };
        let Ok(id) = self.new_id() else {
            self.refuse(header, request, Reason::NO_RESOURCES, path);
            return;
        };
        if !self.take_place(listener) {
            return;
        }
        let connection = Connection::requested(id, header, request);
        let entry = Entry::new(connection, path, Some(listener));
        self.connections.insert(id, entry);
        self.asked.insert(asked, id);
        self.news.push_back(News::Requested { listener, id, request: Box::new(*request), path });
        self.settle(id, Outbox::default());
    }

    /// A peer that asks for a connection of a queue pair has forgotten those that it is part of.
    /// They end here first (IBA 12.9.8.3.1); whether there are any.
    fn ends_stale(&mut self, path: AddressVector, queue_pair: u32, now: Time) -> bool {
        let all = (path.remote, queue_pair, 0)..=(path.remote, queue_pair, u32::MAX);
        let stale: Vec<u32> = self.queue_pairs.range(all).map(|&(_, _, id)| id).collect();
        if planted::is(Planted::StaleUnnoticed) {
            return false;
        }
        for &id in &stale {
            let _ = self
                .with(id, |connection, out| connection.disconnect(PrivateData::EMPTY, now, out));
        }
        !stale.is_empty()
    }

    /// The listener for a service at an address; one for that address before one for all.
    pub(super) fn find_listener(&self, service: ServiceId, path: AddressVector) -> Option<u32> {
        let takes = |listener: &Listener| {
            listener.service_id == service && listener.place.takes(path.local)
        };
        let listeners = self.listeners.iter().map(|(&id, listening)| (id, listening.listener));
        let mut all = listeners.filter(|(_, listener)| takes(listener));
        let own = all.clone().find(|(_, listener)| matches!(listener.place, Place::One(_)));
        own.or_else(|| all.next()).map(|(id, _)| id)
    }

    fn refuse(&mut self, header: &Header, request: &Request, reason: Reason, path: AddressVector) {
        let mad = refuse_request(header, request, reason);
        self.messages.push_back((path, mad));
    }

    fn refuse_alternate_path(&mut self, id: u32, header: &Header, load: &LoadAlternatePath) {
        let response = AlternatePathResponse {
            local_communication_id: id,
            remote_communication_id: load.local_communication_id,
            status: AlternatePathStatus::NOT_SUPPORTED,
            ..AlternatePathResponse::default()
        };
        let mad = Message::AlternatePathResponse(response).datagram(header.transaction_id);
        self.messages.push_back((self.connections[&id].path, mad));
    }
}

/// The REJ of a REQ for which there is no connection.
pub fn refuse_request(header: &Header, request: &Request, reason: Reason) -> [u8; MAD_SIZE] {
    let reject = Reject {
        local_communication_id: 0,
        remote_communication_id: request.local_communication_id,
        message_rejected: MessageRejected::REQUEST,
        reason,
        ..Reject::default()
    };
    Message::Reject(reject).datagram(header.transaction_id)
}
