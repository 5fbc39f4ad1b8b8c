//! Two processes' managers on two hosts.

use super::*;
use crate::mad::Header;
use crate::message::{
    AlternatePathStatus, LoadAlternatePath, Message, Path, PrivateData, Reason, Reject, Reply,
};
use crate::message::{ServiceId, ServiceStatus};
use converb_wire::Qpn;
use core::net::Ipv6Addr;

const SERVICE: ServiceId = ServiceId(0x0106_1234);

fn address(last: u16) -> Address {
    Address::Udp { ip: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last), scope: 0 }
}

fn path(local: u16, remote: u16) -> AddressVector {
    AddressVector {
        local: address(local),
        remote: address(remote),
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
        service_level: 0,
    }
}

fn at(seconds: u64) -> Time {
    Time::from_nanoseconds(seconds * 1_000_000_000)
}

fn request(qpn: u32) -> Request {
    Request {
        service_id: SERVICE,
        local_qpn: Qpn::new(qpn),
        remote_cm_response_timeout: 18,
        local_cm_response_timeout: 18,
        max_cm_retries: 15,
        primary: Path { local_ack_timeout: 14, ..Path::default() },
        ..Request::default()
    }
}

/// The client is host 1, the server host 2.
struct Hosts {
    client: Manager,
    server: Manager,
    now: Time,
}

impl Hosts {
    fn new() -> Self {
        Self { client: Manager::new(3, 17), server: Manager::new(4, 99), now: at(1) }
    }

    fn listening(backlog: usize) -> Self {
        let mut hosts = Self::new();
        hosts.server.listen(Listener { service_id: SERVICE, place: Place::All, backlog });
        hosts
    }

    fn deliver(&mut self) {
        loop {
            let mut is_quiet = true;
            while let Some((_, mad)) = self.client.take_message() {
                self.server.handle(&mad, path(2, 1), self.now);
                is_quiet = false;
            }
            while let Some((_, mad)) = self.server.take_message() {
                self.client.handle(&mad, path(1, 2), self.now);
                is_quiet = false;
            }
            if is_quiet {
                return;
            }
        }
    }

    fn connect(&mut self, qpn: u32) -> u32 {
        self.client.connect(request(qpn), path(1, 2), self.now).expect("there are names")
    }

    /// The name of the connection that the server is asked about.
    fn asked(&mut self) -> u32 {
        match self.server.take_news() {
            Some(News::Requested { id, .. }) => id,
            other => panic!("{other:?}"),
        }
    }

    fn accept(&mut self, id: u32, qpn: u32) {
        let reply = Reply { local_qpn: Qpn::new(qpn), ..Reply::default() };
        let now = self.now;
        self.server.decide(id, |connection, out| connection.reply(reply, now, out)).unwrap();
        self.deliver();
    }

    /// A connection, by both names.
    fn established(&mut self, qpn: u32) -> (u32, u32) {
        let ours = self.connect(qpn);
        self.deliver();
        let theirs = self.asked();
        self.accept(theirs, qpn + 1);
        assert!(matches!(self.told(), Event::Replied(_)));
        let now = self.now;
        let ready = |connection: &mut Connection, out: &mut Outbox| {
            connection.ready(PrivateData::EMPTY, now, out)
        };
        self.client.decide(ours, ready).unwrap();
        self.deliver();
        assert!(matches!(happened(&mut self.server), Event::Ready(_)));
        (ours, theirs)
    }

    fn told(&mut self) -> Event {
        happened(&mut self.client)
    }
}

fn happened(manager: &mut Manager) -> Event {
    match manager.take_news() {
        Some(News::Happened { event, .. }) => event,
        other => panic!("{other:?}"),
    }
}

fn rejected(event: Event) -> Reason {
    match event {
        Event::Rejected(Reject { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_connections_live_side_by_side_and_leave_nothing() {
    let mut hosts = Hosts::listening(8);
    let all: Vec<_> = (0..500).map(|number| hosts.established(2 * number)).collect();
    assert_eq!((hosts.client.connections(), hosts.server.connections()), (500, 500));
    assert!(all.iter().all(|&(ours, theirs)| (slot_of(ours), slot_of(theirs)) == (3, 4)));
    for (number, &(ours, theirs)) in all.iter().enumerate() {
        // Either side ends it, and the other one agrees by letting go.
        let now = hosts.now;
        if number % 2 == 0 {
            hosts.client.release(ours, now);
            hosts.deliver();
            assert!(matches!(happened(&mut hosts.server), Event::DisconnectRequested(_)));
            hosts.server.release(theirs, now);
        } else {
            hosts.server.release(theirs, now);
            hosts.deliver();
            assert!(matches!(hosts.told(), Event::DisconnectRequested(_)));
            hosts.client.release(ours, now);
        }
        hosts.deliver();
    }
    hosts.now = at(100);
    hosts.client.expire(hosts.now);
    hosts.server.expire(hosts.now);
    for manager in [&mut hosts.client, &mut hosts.server] {
        assert!(manager.take_news().is_none() && manager.take_message().is_none());
        assert_eq!((manager.connections(), manager.deadline()), (0, Time::NEVER));
        assert!(manager.asked.is_empty() && manager.queue_pairs.is_empty());
    }
}

#[test]
fn who_is_not_served_is_refused_at_once() {
    let mut hosts = Hosts::new();
    let elsewhere = Listener { service_id: SERVICE, place: Place::One(address(9)), backlog: 8 };
    hosts.server.listen(elsewhere);
    hosts.server.listen(Listener { service_id: ServiceId(5), place: Place::All, backlog: 8 });
    hosts.connect(1);
    hosts.deliver();
    assert_eq!(rejected(hosts.told()), Reason::INVALID_SERVICE_ID);
    assert_eq!(hosts.server.counters().unserved, 1);
    assert_eq!((hosts.client.connections(), hosts.server.connections()), (0, 0));
    // One for the address goes before one for all.
    hosts.server.listen(Listener { service_id: SERVICE, place: Place::All, backlog: 8 });
    let own = Listener { service_id: SERVICE, place: Place::One(address(2)), backlog: 8 };
    let own = hosts.server.listen(own);
    hosts.connect(1);
    hosts.deliver();
    let Some(News::Requested { listener, id, .. }) = hosts.server.take_news() else { panic!() };
    assert_eq!(listener, own);
    // A listener that is closed leaves what it has been told of.
    hosts.server.close_listener(own);
    hosts.accept(id, 7);
    assert!(matches!(hosts.told(), Event::Replied(_)));
}

#[test]
fn a_flood_of_requests_takes_no_more_than_the_backlog() {
    let mut hosts = Hosts::listening(4);
    let now = hosts.now;
    let (_, there) = hosts.established(2);
    for number in 0..100_000 {
        let flood = Request { local_communication_id: number, ..request(number + 10) };
        let mut mad = [0; MAD_SIZE];
        Message::Request(flood).emit(number.into(), &mut mad);
        hosts.server.handle(&mad, path(2, 66), now);
        assert!(hosts.server.connections() <= 5);
    }
    assert_eq!(hosts.server.counters().backlogged, 100_000 - 4);
    // Each decision makes room for another one.
    let first = hosts.asked();
    hosts.server.release(first, now);
    hosts.connect(4);
    hosts.deliver();
    for _ in 0..3 {
        hosts.asked();
    }
    let id = hosts.asked();
    hosts.accept(id, 5);
    assert!(matches!(hosts.told(), Event::Replied(_)));
    hosts.server.release(there, now);
    hosts.deliver();
    assert!(matches!(hosts.told(), Event::DisconnectRequested(_)));
}

#[test]
fn a_peer_that_has_forgotten_a_connection_ends_it_by_asking_anew() {
    let mut hosts = Hosts::listening(8);
    hosts.established(2);
    hosts.client = Manager::new(3, 5000);
    hosts.connect(2);
    hosts.deliver();
    assert_eq!(rejected(hosts.told()), Reason::STALE_CONNECTION);
    // The answer to its DREQ comes though nobody there knows the connection.
    assert!(matches!(happened(&mut hosts.server), Event::Disconnected(_)));
    hosts.connect(2);
    hosts.deliver();
    let id = hosts.asked();
    hosts.accept(id, 9);
    assert!(matches!(hosts.told(), Event::Replied(_)));
}

#[test]
fn a_peer_that_gives_up_unanswered_takes_its_request_back() {
    let mut hosts = Hosts::listening(1);
    let ours = hosts.connect(2);
    hosts.deliver();
    let theirs = hosts.asked();
    hosts.client.release(ours, hosts.now);
    hosts.deliver();
    assert_eq!(rejected(happened(&mut hosts.server)), Reason::TIMEOUT);
    let reply = |connection: &mut Connection, out: &mut Outbox| {
        connection.reply(Reply::default(), at(1), out)
    };
    assert_eq!(hosts.server.decide(theirs, reply), Err(WrongState));
    // Its place is free again.
    hosts.connect(3);
    hosts.deliver();
    hosts.asked();
}

#[test]
fn all_that_a_peer_has_forgotten_of_a_queue_pair_ends() {
    let mut hosts = Hosts::listening(8);
    let (first, _) = hosts.established(2);
    // The server's process is another one now, and has given the same queue pair away again.
    hosts.server = Manager::new(4, 7000);
    hosts.server.listen(Listener { service_id: SERVICE, place: Place::All, backlog: 8 });
    let (_, second) = hosts.established(2);
    let now = hosts.now;
    hosts.client.release(first, now);
    hosts.deliver();
    let mut mad = [0; MAD_SIZE];
    let anew = Request { local_communication_id: 77, ..request(3) };
    Message::Request(anew).emit(5, &mut mad);
    hosts.client.handle(&mad, path(1, 2), now);
    hosts.deliver();
    let Some(News::Happened { id, event: Event::DisconnectRequested(_) }) =
        hosts.server.take_news()
    else {
        panic!()
    };
    assert_eq!(id, second);
}

#[test]
fn the_last_words_of_a_process_end_its_connections() {
    let mut hosts = Hosts::listening(8);
    let ids = [hosts.established(2), hosts.established(4)];
    for (_, mad) in hosts.client.last_words(hosts.now) {
        hosts.server.handle(&mad, path(2, 1), hosts.now);
    }
    for (_, theirs) in ids {
        let Some(News::Happened { id, event }) = hosts.server.take_news() else { panic!() };
        assert!(id == theirs && matches!(event, Event::DisconnectRequested(_)));
    }
    assert!(hosts.client.take_message().is_none() && hosts.client.connections() == 2);
}

#[test]
fn only_the_peer_itself_may_speak_of_a_connection() {
    let mut hosts = Hosts::listening(8);
    let (ours, theirs) = hosts.established(2);
    let forged = crate::message::DisconnectRequest {
        local_communication_id: ours,
        remote_communication_id: theirs,
        remote_qpn_or_eecn: Qpn::new(3),
        private_data: PrivateData::EMPTY,
    };
    let mut mad = [0; MAD_SIZE];
    Message::DisconnectRequest(forged).emit(1, &mut mad);
    hosts.server.handle(&mad, path(2, 66), hosts.now);
    // With the right names, queue pair and address it counts.
    let others = crate::message::DisconnectRequest { local_communication_id: ours + 1, ..forged };
    let mut other = [0; MAD_SIZE];
    Message::DisconnectRequest(others).emit(1, &mut other);
    hosts.server.handle(&other, path(2, 1), hosts.now);
    assert_eq!(hosts.server.counters().unknown, 2);
    assert!(hosts.server.take_news().is_none());
    hosts.server.handle(&mad, path(2, 1), hosts.now);
    assert!(matches!(happened(&mut hosts.server), Event::DisconnectRequested(_)));
    hosts.server.handle(&[0xff; MAD_SIZE], path(2, 1), hosts.now);
    assert_eq!(hosts.server.counters().malformed, 1);
}

#[test]
fn alternate_paths_are_refused() {
    let mut hosts = Hosts::listening(8);
    let (ours, theirs) = hosts.established(2);
    let load = LoadAlternatePath {
        local_communication_id: ours,
        remote_communication_id: theirs,
        ..LoadAlternatePath::default()
    };
    let mut mad = [0; MAD_SIZE];
    Message::LoadAlternatePath(load).emit(5, &mut mad);
    hosts.server.handle(&mad, path(2, 1), hosts.now);
    let (to, answer) = hosts.server.take_message().expect("an answer");
    assert_eq!(to.remote, address(1));
    let (header, message): (Header, Message) = Message::parse(&answer).unwrap();
    let Message::AlternatePathResponse(response) = message else { panic!() };
    assert_eq!((header.transaction_id, response.status), (5, AlternatePathStatus::NOT_SUPPORTED));
}

fn question() -> ServiceRequest {
    ServiceRequest { service_id: SERVICE, ..ServiceRequest::default() }
}

const SECOND: core::time::Duration = core::time::Duration::from_secs(1);

#[test]
fn a_service_is_found_however_often_messages_get_lost() {
    let mut hosts = Hosts::listening(2);
    let id = hosts.client.resolve(question(), path(1, 2), SECOND, 4, hosts.now).unwrap();
    // The question is lost, then the answer.
    hosts.client.take_message().unwrap();
    hosts.now = hosts.client.deadline();
    hosts.client.expire(hosts.now);
    hosts.deliver();
    let Some(News::Asked { id: asked, .. }) = hosts.server.take_news() else { panic!() };
    let reply = ServiceReply { qpn: Qpn::new(9), qkey: 5, ..ServiceReply::default() };
    hosts.server.answer(asked, reply, hosts.now).unwrap();
    hosts.server.take_message().unwrap();
    hosts.now = hosts.client.deadline();
    hosts.client.expire(hosts.now);
    hosts.deliver();
    let Some(News::Resolved { id: of, reply: Some(reply) }) = hosts.client.take_news() else {
        panic!()
    };
    assert_eq!((of, reply.qpn, reply.qkey, reply.service_id), (id, Qpn::new(9), 5, SERVICE));
    assert!(hosts.server.take_news().is_none(), "it is asked once");
    // Once it has been said it cannot be said otherwise.
    assert_eq!(hosts.server.answer(asked, *reply, hosts.now), Err(WrongState));
    hosts.now = at(100);
    hosts.server.expire(hosts.now);
    for manager in [&hosts.client, &hosts.server] {
        assert!(manager.resolutions.is_empty() && manager.questions.is_empty());
        assert_eq!(manager.deadline(), Time::NEVER);
    }
}

#[test]
fn questions_that_nobody_answers_end() {
    let mut hosts = Hosts::new();
    let ask = |hosts: &mut Hosts| {
        hosts.client.resolve(question(), path(1, 2), SECOND, 4, hosts.now).unwrap()
    };
    let status = |hosts: &mut Hosts| match hosts.client.take_news() {
        Some(News::Resolved { reply, .. }) => reply.map(|reply| reply.status),
        other => panic!("{other:?}"),
    };
    // Nobody is there.
    ask(&mut hosts);
    for _ in 0..5 {
        hosts.now = hosts.client.deadline();
        hosts.client.expire(hosts.now);
    }
    assert_eq!(status(&mut hosts), None);
    while hosts.client.take_message().is_some() {}
    // Nobody serves.
    ask(&mut hosts);
    hosts.deliver();
    assert_eq!(status(&mut hosts), Some(ServiceStatus::INVALID_SERVICE_ID));
    // Who serves lets go; and a flood leaves room for no more than the backlog.
    hosts.server.listen(Listener { service_id: SERVICE, place: Place::All, backlog: 2 });
    for _ in 0..10 {
        ask(&mut hosts);
    }
    hosts.deliver();
    assert_eq!(hosts.server.counters().backlogged, 8);
    let Some(News::Asked { id, .. }) = hosts.server.take_news() else { panic!() };
    hosts.server.release_resolution(id, hosts.now);
    hosts.deliver();
    assert_eq!(status(&mut hosts), Some(ServiceStatus::REJECTED));
    // Who asks lets go.
    let id = ask(&mut hosts);
    hosts.client.release_resolution(id, hosts.now);
    assert!(!hosts.client.resolutions.contains_key(&id));
}
