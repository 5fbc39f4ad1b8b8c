//! What programs do: at random, whatever connection management lets them do, and what it does not.

use super::model::{Decision, Phase, number_out};
use super::plan::{MILLISECOND, SECOND};
use super::process::Who;
use super::world::{Happening, World, address, path};
use crate::addresses::number_of;
use crate::dice::Dice;
use converb_cm::connection::{Connection, Outbox, WrongState};
use converb_cm::manager::{Listener, News};
use converb_cm::message::{
    AdditionalInformation, Path, PrivateData, Reason, Reply, Request, ServiceId, ServiceReply,
    ServiceRequest, ServiceStatus,
};
use converb_engine::{AddressVector, Time};
use converb_wire::Qpn;

/// Services that programs offer and ask for.
const SERVICES: u64 = 3;
/// What is in no program's phase to let go of.
const OPEN: [Phase; 8] = [
    Phase::Asking,
    Phase::Answered,
    Phase::Undecided,
    Phase::Accepted,
    Phase::Connected,
    Phase::Ending,
    Phase::PeerEnding,
    Phase::Resting,
];

impl World {
    fn has_let_go(&self) -> bool {
        self.now() >= self.plan.let_go_at
    }

    /// A program does something of its own accord.
    pub(super) fn acts(&mut self, who: Who) -> Result<(), String> {
        if self.has_let_go() || self.process(who).is_none() {
            return Ok(());
        }
        let pause = self.dice.between(MILLISECOND, self.plan.pause_max);
        self.after(pause, Happening::Acts(who));
        match self.dice.below(20) {
            0..4 => self.listen(who),
            4 => self.close_listener(who),
            5..11 => self.connect(who),
            11..13 => self.wonder(who),
            13..15 => self.hear(who),
            15..17 => self.leave(who),
            17 => self.forget(who),
            _ => self.try_anything(who),
        }
    }

    fn listen(&mut self, who: Who) -> Result<(), String> {
        let service_id = ServiceId(self.dice.below(SERVICES));
        let own = address(who.host);
        let is_own = self.dice.chance(400);
        let listener = Listener {
            service_id,
            address: is_own.then_some(own),
            backlog: self.dice.between(1, 3) as usize,
        };
        let others = self.hosts[who.host].processes.values().filter(|other| other.who != who);
        let is_taken = others.into_iter().any(|other| other.serves(service_id, own));
        let Some(process) = self.process(who) else { return Ok(()) };
        let is_alike = |(_, before): &(u32, Listener)| {
            (before.service_id, before.address) == (service_id, listener.address)
        };
        if is_taken || process.listeners.iter().any(is_alike) {
            return Ok(());
        }
        let id = process.manager.listen(listener);
        process.listeners.push((id, listener));
        self.model.listens(who, id, listener);
        self.note(|| format!("{who} listens: {listener:?} is {id}"));
        Ok(())
    }

    fn close_listener(&mut self, who: Who) -> Result<(), String> {
        let Some(process) = self.process(who) else { return Ok(()) };
        if process.listeners.is_empty() {
            return Ok(());
        }
        let (id, _) = process.listeners.remove(0);
        process.manager.close_listener(id);
        self.model.closes(who, id);
        self.note(|| format!("{who} closes listener {id}"));
        self.settle(who).map(drop)
    }

    fn connect(&mut self, who: Who) -> Result<(), String> {
        let peer = self.dice.below(self.plan.hosts as u64) as usize;
        let (number, time, now) = (self.model.next(), self.time(), self.now());
        let Some(process) = self.process(who) else { return Ok(()) };
        let qpn = process.take_queue_pair();
        let request = draw_request(&mut process.dice, qpn, number);
        let connected = process.manager.connect(request, path(who.host, peer), time);
        let id = connected.map_err(|_| "there are no names left")?;
        self.model.connects(who, id, peer, &request, now);
        self.note(|| format!("{who} connects to host {peer} as #{number}, {id:08x}"));
        self.settle(who).map(drop)
    }

    fn wonder(&mut self, who: Who) -> Result<(), String> {
        let peer = self.dice.below(self.plan.hosts as u64) as usize;
        let service_id = ServiceId(self.dice.below(SERVICES));
        let interval = self.dice.between(200, 2000) * MILLISECOND;
        let retries = self.dice.between(0, 7) as u8;
        let (time, now) = (self.time(), self.now());
        let Some(process) = self.process(who) else { return Ok(()) };
        let request = ServiceRequest { service_id, ..ServiceRequest::default() };
        let wait = core::time::Duration::from_nanos(interval);
        let way = path(who.host, peer);
        let asked = process.manager.resolve(request, way, wait, retries, time);
        let id = asked.map_err(|_| "there are no names left")?;
        let limit = now + (u64::from(retries) + 1) * interval + 3 * SECOND;
        self.model.wonders(who, id, limit);
        self.note(|| format!("{who} asks host {peer} for service {} as {id:08x}", service_id.0));
        self.settle(who).map(drop)
    }

    /// A packet comes on a queue pair whose peer is ready.
    fn hear(&mut self, who: Who) -> Result<(), String> {
        let waiting = self.model.of(who, &[Phase::Accepted]);
        let Some(number) = waiting.into_iter().find(|&it| self.model.may_hear(it)) else {
            return Ok(());
        };
        self.note(|| format!("#{number} hears its peer"));
        let id = self.model.conversation(number).id;
        let Some(process) = self.process(who) else { return Ok(()) };
        // It may have ended meanwhile.
        let _ = process.manager.decide(id, |connection, out| {
            connection.heard(out);
            Ok(())
        });
        self.settle(who).map(drop)
    }

    /// Ends a connection, in the way that is meant for it or by letting go.
    fn leave(&mut self, who: Who) -> Result<(), String> {
        let connected = self.model.of(who, &[Phase::Connected]);
        match self.pick(&connected) {
            Some(number) if self.dice.chance(700) => self.decide(number, Decision::End),
            Some(number) => self.release(number),
            None => Ok(()),
        }
    }

    /// Lets go of anything.
    fn forget(&mut self, who: Who) -> Result<(), String> {
        let questions = self.model.wondering(who);
        if let Some(&id) = questions.first()
            && self.dice.chance(300)
        {
            return self.release_question(who, id);
        }
        let open = self.model.of(who, &OPEN);
        self.pick(&open).map_or(Ok(()), |number| self.release(number))
    }

    /// Decides what may not be to decide.
    fn try_anything(&mut self, who: Who) -> Result<(), String> {
        let all = self.model.of(who, &[&OPEN[..], &[Phase::Over]].concat());
        let decision = self.dice.pick(&[
            Decision::Accept,
            Decision::Refuse,
            Decision::Ready,
            Decision::End,
            Decision::Agree,
        ]);
        match self.pick(&all) {
            Some(number) if !self.model.lags(who) => self.decide(number, decision),
            _ => Ok(()),
        }
    }

    fn pick(&mut self, numbers: &[usize]) -> Option<usize> {
        (!numbers.is_empty()).then(|| self.dice.pick(numbers))
    }

    /// A program decides what it has thought about.
    pub(super) fn decides(&mut self, number: usize) -> Result<(), String> {
        let phase = self.model.conversation(number).phase;
        let lets_go = self.has_let_go() || self.dice.chance(100);
        let refuses = self.dice.chance(150);
        match phase {
            Phase::Dead | Phase::Released | Phase::Over => Ok(()),
            _ if lets_go => self.release(number),
            Phase::Undecided | Phase::Answered if refuses => self.decide(number, Decision::Refuse),
            Phase::Undecided => self.accept(number),
            Phase::Answered => self.decide(number, Decision::Ready),
            Phase::PeerEnding => self.decide(number, Decision::Agree),
            _ => Ok(()),
        }
    }

    /// Accepts; a program that wants one connection only listens no more.
    fn accept(&mut self, number: usize) -> Result<(), String> {
        let who = self.model.conversation(number).who;
        self.decide(number, Decision::Accept)?;
        if self.dice.chance(150) { self.close_listener(who) } else { Ok(()) }
    }

    fn decide(&mut self, number: usize, decision: Decision) -> Result<(), String> {
        let (time, now) = (self.time(), self.now());
        let (who, id) = (self.model.conversation(number).who, self.model.conversation(number).id);
        let Some(process) = self.process(who) else { return Ok(()) };
        let qpn = if decision == Decision::Accept { process.take_queue_pair() } else { 0 };
        let words = number_out(number);
        let result = process
            .manager
            .decide(id, |connection, out| carry_out(decision, connection, qpn, &words, time, out));
        self.note(|| format!("#{number} {decision:?}: {result:?}"));
        if decision == Decision::Accept {
            if result.is_ok() {
                self.model.has_queue_pair(number, qpn);
            } else if let Some(process) = self.process(who) {
                process.give_back(qpn);
            }
        }
        self.model.decided(number, decision, result.is_ok(), now)?;
        self.give_back(number);
        self.settle(who).map(drop)
    }

    /// What is over leaves its queue pair to another connection.
    fn give_back(&mut self, number: usize) {
        let conversation = self.model.conversation(number);
        let (who, qpn, phase) = (conversation.who, conversation.qpn, conversation.phase);
        if phase == Phase::Over
            && self.model.frees(number)
            && let Some(process) = self.process(who)
        {
            process.give_back(qpn);
        }
    }

    fn release(&mut self, number: usize) -> Result<(), String> {
        let (time, now) = (self.time(), self.now());
        let (who, id) = (self.model.conversation(number).who, self.model.conversation(number).id);
        let Some(process) = self.process(who) else { return Ok(()) };
        process.manager.release(id, time);
        self.note(|| format!("#{number} is let go"));
        self.model.releases(number, now);
        self.settle(who).map(drop)
    }

    fn release_question(&mut self, who: Who, id: u32) -> Result<(), String> {
        let time = self.time();
        let Some(process) = self.process(who) else { return Ok(()) };
        process.manager.release_resolution(id, time);
        self.note(|| format!("{who} lets go of question {id:08x}"));
        self.model.forgets(who, id);
        self.settle(who).map(drop)
    }

    /// A program answers a question, or lets go of it.
    pub(super) fn answers(&mut self, who: Who, id: u32) -> Result<(), String> {
        let lets_go = self.has_let_go() || self.dice.chance(200);
        let (time, now) = (self.time(), self.now());
        let Some(process) = self.process(who) else { return Ok(()) };
        let qpn = if lets_go { 0 } else { process.take_queue_pair() };
        if lets_go {
            process.manager.release_resolution(id, time);
        } else {
            let reply = ServiceReply {
                status: ServiceStatus::VALID,
                qpn: Qpn::new(qpn),
                ..ServiceReply::default()
            };
            let result = process.manager.answer(id, reply, time);
            if result.is_ok() != self.model.unanswered(who).contains(&id) {
                return Err(format!("{who} answers question {id:08x}: {result:?}"));
            }
        }
        self.note(|| format!("{who} answers question {id:08x} with {qpn:06x}"));
        self.model.answers(who, id, qpn, now);
        self.settle(who).map(drop)
    }

    /// A program reads its news.
    pub(super) fn reads(&mut self, who: Who) -> Result<(), String> {
        let Some(process) = self.process(who) else { return Ok(()) };
        process.reads = false;
        let news: Vec<News> = core::iter::from_fn(|| process.manager.take_news()).collect();
        for news in news {
            self.note(|| format!("{who} is told {}", shorten(&news)));
            self.learns(who, news)?;
        }
        self.model.catches_up(who)
    }

    fn learns(&mut self, who: Who, news: News) -> Result<(), String> {
        let (now, end) = (self.now(), self.plan.let_go_at);
        let pause = match self.process(who) {
            Some(process) if now < end => process.ponder(),
            _ => 0,
        };
        match news {
            News::Requested { listener, id, request, path } => {
                let from = host_of(&path);
                let number = self.model.is_asked(who, (listener, id), from, &request)?;
                self.after(pause, Happening::Decides(number));
            }
            News::Asked { listener, id, request, path } => {
                let name = (host_of(&path), request.request_id);
                self.model.is_wondered(who, (listener, id), name)?;
                self.after(pause, Happening::Answers(who, id));
            }
            News::Resolved { id, reply } => self.model.resolves(who, id, reply.as_deref(), now)?,
            News::Happened { id, event } => {
                let number = self.model.happens(who, id, &event, now)?;
                self.give_back(number);
                self.after(pause, Happening::Decides(number));
            }
        }
        Ok(())
    }

    /// All programs let go of everything.
    pub(super) fn let_go(&mut self) -> Result<(), String> {
        self.note(|| "all programs let go");
        let processes = self.hosts.iter().flat_map(|host| host.processes.values());
        let all: Vec<Who> = processes.map(|process| process.who).collect();
        for who in all {
            while self.process(who).is_some_and(|process| !process.listeners.is_empty()) {
                self.close_listener(who)?;
            }
            for number in self.model.of(who, &OPEN) {
                self.release(number)?;
            }
            for id in self.model.unanswered(who) {
                self.after(0, Happening::Answers(who, id));
            }
        }
        Ok(())
    }
}

fn host_of(path: &AddressVector) -> usize {
    usize::from(number_of(path.remote)) - 1
}

fn shorten(news: &News) -> String {
    match news {
        News::Requested { listener, id, .. } => format!("of a request, {id:08x} at {listener}"),
        News::Asked { listener, id, .. } => format!("of a question, {id:08x} at {listener}"),
        News::Resolved { id, reply } => {
            let status = reply.as_ref().map(|reply| reply.status);
            format!("the answer to {id:08x}: {status:?}")
        }
        News::Happened { id, event } => {
            let event = format!("{event:?}");
            let end = event.find(['(', ' ']).unwrap_or(event.len());
            format!("{id:08x}: {}", &event[..end])
        }
    }
}

fn draw_request(dice: &mut Dice, qpn: u32, number: usize) -> Request {
    Request {
        service_id: ServiceId(dice.below(SERVICES)),
        local_qpn: Qpn::new(qpn),
        remote_cm_response_timeout: dice.pick(&[14, 16, 17]),
        local_cm_response_timeout: dice.pick(&[14, 16, 17]),
        max_cm_retries: dice.pick(&[0, 1, 4, 15]),
        primary: Path { local_ack_timeout: dice.pick(&[8, 14, 15]), ..Path::default() },
        private_data: said(&number_out(number)),
        ..Request::default()
    }
}

fn said<const LIMIT: usize>(words: &[u8]) -> PrivateData<LIMIT> {
    PrivateData::new(words).expect("a number fits")
}

fn carry_out(
    decision: Decision,
    connection: &mut Connection,
    qpn: u32,
    words: &[u8],
    now: Time,
    out: &mut Outbox,
) -> Result<(), WrongState> {
    match decision {
        Decision::Accept => {
            let private_data = said(words);
            let reply = Reply { local_qpn: Qpn::new(qpn), private_data, ..Reply::default() };
            connection.reply(reply, now, out)
        }
        Decision::Refuse => {
            let nothing = AdditionalInformation::EMPTY;
            connection.reject(Reason::CONSUMER_REJECT, nothing, said(words), now, out)
        }
        Decision::Ready => connection.ready(said(words), out),
        Decision::End => connection.disconnect(said(words), now, out),
        Decision::Agree => connection.confirm_disconnect(said(words), now, out),
    }
}
