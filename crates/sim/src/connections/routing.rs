//! What an agent does with management datagrams: it hands each to the process that it is for, and
//! speaks for those that are not there, or no longer.

use super::model::Delivery;
use super::plan::SECOND;
use super::process::{Process, Who};
use super::world::{Arrival, Happening, Mad, World, address, path};
use converb_cm::connection::{Connection, Outbox};
use converb_cm::mad::Header;
use converb_cm::manager::{answer_question, refuse_request, slot_of};
use converb_cm::message::{Message, Reason, ServiceId, ServiceReply, ServiceStatus};

impl World {
    /// A datagram waits for the agent, or is lost where nobody waits.
    pub(super) fn arrives(&mut self, arrival: Arrival) {
        let wait = self.dice.below(self.plan.wait_max + 1);
        let host = &self.hosts[arrival.to];
        if host.is_routing {
            let agent = host.agents;
            self.after(wait, Happening::Routes(agent, arrival));
        }
    }

    pub(super) fn routes(&mut self, agent: u32, arrival: &Arrival) -> Result<(), String> {
        let host = &self.hosts[arrival.to];
        // What waits for an agent dies with it.
        if !host.is_routing || host.agents != agent {
            return Ok(());
        }
        let parsed = Message::parse(&arrival.mad);
        let (header, message) = parsed.map_err(|why| format!("a datagram is malformed: {why}"))?;
        let (from, to) = (arrival.from, arrival.to);
        if is_from_stranger(&message) {
            return self.deliver_to_all(arrival, &message);
        }
        match receiver(host.processes.values(), to, &message) {
            Some(who) => self.deliver(who, from, &arrival.mad, &message),
            None => {
                for mad in answer_for_nobody(&header, &message) {
                    self.send(&path(to, from), &mad);
                }
                Ok(())
            }
        }
    }

    /// Who gives up before any answer names no connection of ours: the process that was asked knows
    /// the peer's name.
    fn deliver_to_all(&mut self, arrival: &Arrival, message: &Message) -> Result<(), String> {
        let processes = self.hosts[arrival.to].processes.values();
        let all: Vec<Who> = processes.map(|process| process.who).collect();
        all.into_iter().try_for_each(|who| self.deliver(who, arrival.from, &arrival.mad, message))
    }

    fn deliver(
        &mut self,
        who: Who,
        from: usize,
        mad: &Mad,
        message: &Message,
    ) -> Result<(), String> {
        let (now, time) = (self.now(), self.time());
        let Some(process) = self.process(who) else { return Ok(()) };
        let listener =
            service_of(message).and_then(|service| process.listener(service, address(who.host)));
        let expected = self.model.comes(&Delivery { who, from, message, listener, now });
        let Some(process) = self.process(who) else { return Ok(()) };
        process.manager.handle(mad, path(who.host, from), time);
        let said = self.settle(who)?;
        expected.check(who, message, &said)
    }

    pub(super) fn agent_dies(&mut self, host: usize, rest: u64) {
        if !core::mem::take(&mut self.hosts[host].is_routing) {
            return;
        }
        self.hosts[host].agents += 1;
        self.note(|| format!("the agent of host {host} dies"));
        self.after(rest, Happening::Begins(host, None));
    }

    pub(super) fn agent_begins(&mut self, host: usize) {
        self.note(|| format!("host {host} has an agent"));
        self.hosts[host].is_routing = true;
        self.say_last_words(host);
    }

    pub(super) fn process_dies(&mut self, host: usize, slot: u16, rest: u64) {
        let Some(process) = self.hosts[host].processes.remove(&slot) else { return };
        self.note(|| format!("{} dies", process.who));
        self.model.dies(process.who);
        let words = process.manager.last_words(self.time());
        self.hosts[host].last_words.extend(words);
        self.say_last_words(host);
        self.after(rest, Happening::Begins(host, Some(slot)));
    }

    /// If there is an agent, it says what the dead have left to say.
    fn say_last_words(&mut self, host: usize) {
        if self.hosts[host].is_routing {
            for (path, mad) in core::mem::take(&mut self.hosts[host].last_words) {
                self.send(&path, &mad);
            }
        }
    }

    pub(super) fn process_begins(&mut self, host: usize, slot: u16) {
        let life = self.hosts[host].lives;
        self.hosts[host].lives += 1;
        let who = Who { host, slot, life };
        self.note(|| format!("{who} begins"));
        let process = Process::new(who, self.dice.fork());
        self.hosts[host].processes.insert(slot, process);
        let pause = self.dice.below(SECOND);
        self.after(pause, Happening::Acts(who));
    }
}

/// Whether it is a REJ whose sender does not know the name of the connection.
fn is_from_stranger(message: &Message) -> bool {
    matches!(message, Message::Reject(reject) if reject.remote_communication_id == 0)
}

/// The process that a message is for.
fn receiver<'a>(
    mut processes: impl Iterator<Item = &'a Process>,
    host: usize,
    message: &Message,
) -> Option<Who> {
    let process = if let Some(service) = service_of(message) {
        processes.find(|process| process.serves(service, address(host)))
    } else {
        let id = match message {
            Message::ServiceReply(reply) => reply.request_id,
            _ => message.communication_ids()?.1,
        };
        processes.find(|process| process.who.slot == slot_of(id))
    };
    process.map(|process| process.who)
}

/// The service that a message asks for.
const fn service_of(message: &Message) -> Option<ServiceId> {
    match message {
        Message::Request(request) => Some(request.service_id),
        Message::ServiceRequest(request) => Some(request.service_id),
        _ => None,
    }
}

/// What an agent answers when there is no process to do so.
fn answer_for_nobody(header: &Header, message: &Message) -> Vec<Mad> {
    let id = header.transaction_id;
    let mut out = Outbox::default();
    match message {
        Message::Request(request) => {
            out.messages.push(refuse_request(header, request, Reason::INVALID_SERVICE_ID));
        }
        Message::ServiceRequest(request) => {
            let status = ServiceStatus::INVALID_SERVICE_ID;
            let reply = ServiceReply { status, ..ServiceReply::default() };
            out.messages.push(answer_question(request, id, reply));
        }
        Message::Reply(reply) => Connection::refuse_unknown_reply(reply, id, &mut out),
        Message::DisconnectRequest(request) => {
            Connection::confirm_unknown_disconnect(request, id, &mut out);
        }
        _ => {}
    }
    out.messages
}
