//! Questions about services: each is put to a program once, and ends once, with the answer that was
//! given to it.

use super::Model;
use crate::connections::plan::SECOND;
use crate::connections::process::Who;
use converb_cm::message::{ServiceReply, ServiceStatus};
use std::collections::BTreeMap;

/// The host that asks, and the question's name there.
pub(super) type Name = (usize, u32);

/// A question.
#[derive(Debug)]
pub(super) struct Question {
    who: Who,
    is_open: bool,
    limit: u64,
    /// Who was asked, as what, and what the answer was and when.
    asked: BTreeMap<Who, Asked>,
}

#[derive(Debug)]
struct Asked {
    id: u32,
    listener: u32,
    answer: Option<(u32, u64)>,
}

/// How long an answer can be asked for again, at least.
const ANSWER_LIFE: u64 = 9 * SECOND;

impl Question {
    /// A process has died.
    pub(super) fn dies(&mut self, who: Who) {
        self.is_open &= self.who != who;
        self.asked.remove(&who);
    }

    pub(super) fn check_end(&self) -> Result<(), String> {
        if self.is_open { Err(format!("a question never ends: {self:?}")) } else { Ok(()) }
    }
}

impl Model {
    /// A program asks, and must have an answer or none by that time.
    pub fn wonders(&mut self, who: Who, id: u32, limit: u64) {
        let question = Question { who, is_open: true, limit, asked: BTreeMap::new() };
        self.checked += 1;
        self.questions.insert((who.host, id), question);
    }

    /// The questions of a program that have no answer.
    pub fn wondering(&self, who: Who) -> Vec<u32> {
        let open = self.questions.iter().filter(|(_, it)| it.is_open && it.who == who);
        open.map(|(&(_, id), _)| id).collect()
    }

    /// A program lets go of its question.
    pub fn forgets(&mut self, who: Who, id: u32) {
        if let Some(question) = self.questions.get_mut(&(who.host, id)) {
            question.is_open = false;
        }
    }

    /// A question comes to a process; what it must answer at once.
    pub(super) fn question_comes(
        &mut self,
        who: Who,
        listener: Option<u32>,
        name: Name,
        now: u64,
    ) -> Option<&'static str> {
        match self.questions.get(&name)?.asked.get(&who) {
            Some(Asked { answer: Some((_, at)), .. }) if now < at + ANSWER_LIFE => Some("SIDR_REP"),
            Some(_) => None,
            None => listener.is_none().then_some("SIDR_REP"),
        }
    }

    /// A program is asked.
    ///
    /// # Errors
    /// It was asked before, or its listener had no room.
    pub fn is_wondered(
        &mut self,
        who: Who,
        (listener, id): (u32, u32),
        name: Name,
    ) -> Result<(), String> {
        let Some(question) = self.questions.get_mut(&name) else {
            return Err(format!("{who} is asked what nobody has asked: {name:x?}"));
        };
        if question.asked.insert(who, Asked { id, listener, answer: None }).is_some() {
            return Err(format!("{who} is asked twice: {name:x?}"));
        }
        if let Some(open) = self.listeners.get_mut(&(who, listener)) {
            if !open.has_room() {
                return Err(format!("{name:x?} is beyond the backlog of listener {listener}"));
            }
            open.questions.insert(name);
        }
        Ok(())
    }

    /// The questions of others that a program has not answered, as it names them.
    pub fn unanswered(&self, who: Who) -> Vec<u32> {
        let asked = self.questions.values().filter_map(|it| it.asked.get(&who));
        asked.filter(|it| it.answer.is_none()).map(|it| it.id).collect()
    }

    /// A program answers with a queue pair, or refuses with none, unless it has done so.
    pub fn answers(&mut self, who: Who, id: u32, qpn: u32, now: u64) {
        let mut all = self.questions.iter_mut();
        let Some((name, asked)) = all.find_map(|(&name, question)| {
            let asked = question.asked.get_mut(&who)?;
            (asked.id == id).then_some((name, asked))
        }) else {
            return;
        };
        asked.answer.get_or_insert((qpn, now));
        if let Some(open) = self.listeners.get_mut(&(who, asked.listener)) {
            open.questions.remove(&name);
        }
    }

    /// A program is told the answer, or that there is none.
    ///
    /// # Errors
    /// It is not what was said, or comes too late, or not for the first time.
    pub fn resolves(
        &mut self,
        who: Who,
        id: u32,
        reply: Option<&ServiceReply>,
        now: u64,
    ) -> Result<(), String> {
        let question =
            self.questions.get_mut(&(who.host, id)).filter(|it| it.who == who && it.is_open);
        let Some(question) = question else {
            return Err(format!("{who} is told of a question that is none of its own: {id:08x}"));
        };
        question.is_open = false;
        if now > question.limit {
            return Err(format!("{who} waits too long: {question:?}"));
        }
        let valid = reply.filter(|reply| reply.status == ServiceStatus::VALID);
        let is_said = |reply: &ServiceReply| {
            let mut answers = question.asked.values().filter_map(|asked| asked.answer);
            answers.any(|(qpn, _)| qpn == reply.qpn.value())
        };
        // Whoever has answered may have died since.
        if valid.is_some_and(|reply| !question.asked.is_empty() && !is_said(reply)) {
            return Err(format!("{who} is told {reply:?}: {question:?}"));
        }
        Ok(())
    }
}
