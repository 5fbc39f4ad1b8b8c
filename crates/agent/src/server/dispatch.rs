//! Whose a management datagram is: by the service that it asks for, or by the slot in the number
//! that it names. What is nobody's is answered here, that its sender does not wait.

use converb_cm::connection::{Connection, Outbox};
use converb_cm::mad::Header;
use converb_cm::manager::{answer_question, refuse_request, slot_of};
use converb_cm::message::{Message, Reason, ServiceId, ServiceReply, ServiceStatus};
use converb_engine::Address;
use core::net::Ipv6Addr;

use super::Agent;
use super::members::{Member, Presence};
use crate::protocol::{ManagementDatagram, Reply, Served};
use crate::random::random;
use crate::services::{NotTaken, Service};
use crate::transfer;

/// Whose a datagram is.
enum Whose {
    /// This member's.
    Member(u64),
    /// Nobody's now; but who it is for may be about to come back.
    Perhaps,
    /// Nobody's.
    Nobody,
}

impl Agent {
    /// Handles what has arrived for queue pair 1.
    pub(super) fn handle_management(&mut self) {
        for datagram in self.management.receive() {
            self.route(datagram, true);
        }
    }

    /// Hands a datagram to whose it is, or answers; a request may wait before that.
    pub(super) fn route(&mut self, datagram: ManagementDatagram, may_wait: bool) {
        let Ok((header, message)) = Message::parse(&datagram.mad) else {
            self.management.count_unserved();
            return;
        };
        let whose = self.whose(&message, datagram.local);
        if let Message::DisconnectRequest(_) | Message::DisconnectReply(_) = message
            && let Some((_, ours)) = message.communication_ids()
        {
            let member = if let Whose::Member(number) = whose { Some(number) } else { None };
            self.farewells.settle(member, ours, datagram.source);
        }
        match whose {
            Whose::Member(number) => self.deliver(number, datagram),
            Whose::Perhaps => self.management.count_unserved(),
            Whose::Nobody => {
                let is_request =
                    matches!(message, Message::Request(_) | Message::ServiceRequest(_));
                let datagram = if may_wait && is_request && !self.members.is_empty() {
                    let now = self.now();
                    match self.held.keep(datagram, now) {
                        Ok(()) => return,
                        Err(datagram) => datagram,
                    }
                } else {
                    datagram
                };
                self.management.count_unserved();
                self.answer_for_nobody(&datagram, &header, &message);
            }
        }
    }

    /// Whether somebody serves what a request asks for.
    pub(super) fn is_served(&self, datagram: &ManagementDatagram) -> bool {
        Message::parse(&datagram.mad).is_ok_and(|(_, message)| {
            matches!(self.whose(&message, datagram.local), Whose::Member(_))
        })
    }

    /// A member takes a service.
    pub(super) fn serve_for(&mut self, number: u64, token: u32, service: Service) {
        let served = match self.services.take(number, token, service, random()) {
            Ok(id) => Served::As(id),
            Err(NotTaken::InUse) => Served::InUse,
            Err(NotTaken::TooMany) => Served::TooMany,
        };
        if let Some(Presence::Connected(connection)) =
            self.members.get(&number).map(|member| &member.presence)
        {
            // One that does not hear it asks again.
            let _ = transfer::send(connection, &Reply::Served { token, served }.emit(), &[]);
        }
        if service.is_listening {
            self.try_held();
        }
    }

    fn whose(&self, message: &Message, local: Address) -> Whose {
        match message {
            Message::Request(request) => self.whose_service(request.service_id, local),
            Message::ServiceRequest(request) => self.whose_service(request.service_id, local),
            Message::ServiceReply(reply) => self.whose_slot(slot_of(reply.request_id)),
            _ => match message.communication_ids() {
                Some((_, ours)) => self.whose_slot(slot_of(ours)),
                None => Whose::Nobody,
            },
        }
    }

    fn whose_service(&self, id: ServiceId, local: Address) -> Whose {
        let (ip, scope) = match local {
            Address::Udp { ip, scope } => (ip, scope),
            Address::Ethernet(_) | Address::Lid(_) => (Ipv6Addr::UNSPECIFIED, 0),
        };
        match self.services.find(id, ip, scope) {
            Some(number) => Whose::Member(number),
            // Who served before our predecessor died has not said so yet.
            None if self.awaits_members() => Whose::Perhaps,
            None => Whose::Nobody,
        }
    }

    fn whose_slot(&self, slot: u16) -> Whose {
        let owns = |(_, member): &(&u64, &Member)| member.slots.contains(&slot);
        match self.members.iter().find(owns) {
            Some((&number, _)) => Whose::Member(number),
            None if self.awaits_members() => Whose::Perhaps,
            None => Whose::Nobody,
        }
    }

    fn awaits_members(&self) -> bool {
        let is_awaited = |member: &Member| matches!(member.presence, Presence::Awaited);
        self.is_successor && self.now() < SETTLING || self.members.values().any(is_awaited)
    }

    fn answer_for_nobody(
        &mut self,
        datagram: &ManagementDatagram,
        header: &Header,
        message: &Message,
    ) {
        let tid = header.transaction_id;
        let mut out = Outbox::default();
        match message {
            Message::Request(request) => {
                out.messages.push(refuse_request(header, request, Reason::INVALID_SERVICE_ID));
            }
            Message::ServiceRequest(request) => {
                let status = ServiceStatus::INVALID_SERVICE_ID;
                let nobody = ServiceReply { status, ..ServiceReply::default() };
                out.messages.push(answer_question(request, tid, nobody));
            }
            Message::Reply(reply) => Connection::refuse_unknown_reply(reply, tid, &mut out),
            Message::DisconnectRequest(request) => {
                Connection::confirm_unknown_disconnect(request, tid, &mut out);
            }
            _ => {}
        }
        let back = datagram.way_to_source(0);
        for mad in out.messages {
            self.management.send(&back, &mad);
        }
    }
}

/// Members of a dead agent come back to its successor within this time, and say what they serve.
const SETTLING: core::time::Duration = core::time::Duration::from_millis(300);
