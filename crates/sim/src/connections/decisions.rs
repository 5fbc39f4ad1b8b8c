//! What programs decide about connections and questions, and how they let go of them.

use super::model::{Decision, Phase, number_out};
use super::process::Who;
use super::world::{Happening, World};
use converb_cm::connection::{Connection, Outbox, WrongState};
use converb_cm::message::{
    AdditionalInformation, PrivateData, Reason, Reply, ServiceReply, ServiceStatus,
};
use converb_engine::Time;
use converb_wire::Qpn;

/// Phases of what a program may let go of.
pub(super) const OPEN: [Phase; 8] = [
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

    pub(super) fn decide(&mut self, number: usize, decision: Decision) -> Result<(), String> {
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
    pub(super) fn give_back(&mut self, number: usize) {
        let conversation = self.model.conversation(number);
        let (who, qpn, phase) = (conversation.who, conversation.qpn, conversation.phase);
        if phase == Phase::Over
            && self.model.frees(number)
            && let Some(process) = self.process(who)
        {
            process.give_back(qpn);
        }
    }

    pub(super) fn release(&mut self, number: usize) -> Result<(), String> {
        let (time, now) = (self.time(), self.now());
        let (who, id) = (self.model.conversation(number).who, self.model.conversation(number).id);
        let Some(process) = self.process(who) else { return Ok(()) };
        process.manager.release(id, time);
        self.note(|| format!("#{number} is let go"));
        self.model.releases(number, now);
        self.settle(who).map(drop)
    }

    pub(super) fn release_question(&mut self, who: Who, id: u32) -> Result<(), String> {
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

pub(super) fn said<const LIMIT: usize>(words: &[u8]) -> PrivateData<LIMIT> {
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
        Decision::Ready => connection.ready(said(words), now, out),
        Decision::End => connection.disconnect(said(words), now, out),
        Decision::Agree => connection.confirm_disconnect(said(words), now, out),
    }
}
