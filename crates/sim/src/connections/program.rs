//! What programs do: at random, whatever connection management lets them do, and what it does not.

use super::decisions::{OPEN, said};
use super::model::{Decision, Phase, number_out};
use super::plan::{MILLISECOND, SECOND};
use super::process::Who;
use super::world::{Happening, World, address, path};
use crate::dice::Dice;
use converb_cm::manager::{Listener, Place};
use converb_cm::message::{Path, Request, ServiceId, ServiceRequest};
use converb_wire::Qpn;

/// Services that programs offer and ask for.
const SERVICES: u64 = 3;
impl World {
    pub(super) fn has_let_go(&self) -> bool {
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
            place: if is_own { Place::One(own) } else { Place::All },
            backlog: self.dice.between(1, 3) as usize,
        };
        let others = self.hosts[who.host].processes.values().filter(|other| other.who != who);
        let is_taken = others.into_iter().any(|other| other.serves(service_id, own));
        let Some(process) = self.process(who) else { return Ok(()) };
        let is_alike = |(_, before): &(u32, Listener)| {
            (before.service_id, before.place) == (service_id, listener.place)
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

    pub(super) fn close_listener(&mut self, who: Who) -> Result<(), String> {
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
