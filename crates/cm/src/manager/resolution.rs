//! Which queue pair serves by datagrams (SIDR_REQ and SIDR_REP, IBA 12.11): questions, and what is
//! answered to them.

use super::{Manager, News, transaction_id};
use crate::connection::WrongState;
use crate::exchange::{Due, Exchange};
use crate::mad::{Header, MAD_SIZE};
use crate::message::{Message, ServiceReply, ServiceRequest, ServiceStatus};
use converb_engine::{Address, AddressVector, Time};
use core::time::Duration;

/// A question, ours or a peer's.
#[derive(Debug)]
pub(super) enum Resolution {
    /// We have asked.
    Asking { exchange: Exchange, path: AddressVector },
    /// A peer has asked, and the program has not decided.
    Asked { question: Question, listener: u32 },
    /// It has decided; the answer is kept for a peer that has not got it.
    Answered { question: Question, mad: Box<[u8; MAD_SIZE]>, until: Time },
}

/// What a peer has asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    path: AddressVector,
    request: ServiceRequest,
    transaction_id: u64,
}

impl Question {
    /// What tells questions apart.
    fn key(&self) -> (Address, u32) {
        (self.path.remote, self.request.request_id)
    }
}

/// A peer that has not got an answer asks again within this time.
const ANSWER_LIFE: Duration = Duration::from_secs(10);

impl Resolution {
    pub(super) fn deadline(&self) -> Time {
        match self {
            Self::Asking { exchange, .. } => exchange.deadline(),
            Self::Asked { .. } => Time::NEVER,
            Self::Answered { until, .. } => *until,
        }
    }
}

impl Manager {
    /// Asks which queue pair serves; the request ID is filled in here, and is the question's name.
    /// It is asked again up to `retries` times, the last ones each after `interval`.
    ///
    /// # Errors
    /// `WrongState`: there are as many as there are names.
    pub fn resolve(
        &mut self,
        request: ServiceRequest,
        path: AddressVector,
        interval: Duration,
        retries: u8,
        now: Time,
    ) -> Result<u32, WrongState> {
        let id = self.new_id()?;
        let request = ServiceRequest { request_id: id, ..request };
        let mad = Message::ServiceRequest(request).datagram(transaction_id(id));
        self.messages.push_back((path, mad));
        let exchange = Exchange::begin(Box::new(mad), interval, retries, now);
        self.keep_resolution(id, Resolution::Asking { exchange, path });
        Ok(id)
    }

    /// Answers a question; request ID and service ID are filled in here.
    ///
    /// # Errors
    /// It is none, or no longer.
    pub fn answer(&mut self, id: u32, reply: ServiceReply, now: Time) -> Result<(), WrongState> {
        let Some(Resolution::Asked { question, listener }) = self.resolutions.get(&id) else {
            return Err(WrongState);
        };
        let (question, listener) = (*question, *listener);
        if let Some(listening) = self.listeners.get_mut(&listener) {
            listening.waiting -= 1;
        }
        let mad = answer_question(&question.request, question.transaction_id, reply);
        self.messages.push_back((question.path, mad));
        let until = now + ANSWER_LIFE;
        let answered = Resolution::Answered { question, mad: Box::new(mad), until };
        self.keep_resolution(id, answered);
        Ok(())
    }

    /// The program lets go of a question, ours or a peer's, which is refused then.
    pub fn release_resolution(&mut self, id: u32, now: Time) {
        let refusal = ServiceReply { status: ServiceStatus::REJECTED, ..ServiceReply::default() };
        if self.answer(id, refusal, now).is_err()
            && let Some(Resolution::Asking { .. }) = self.resolutions.get(&id)
        {
            self.forget_resolution(id);
        }
        self.news.retain(|news| news.resolution() != Some(id));
    }

    /// SIDR_REQ.
    pub(super) fn handle_service_request(
        &mut self,
        header: &Header,
        request: &ServiceRequest,
        path: AddressVector,
    ) {
        let question = Question { path, request: *request, transaction_id: header.transaction_id };
        if let Some(&id) = self.questions.get(&question.key()) {
            match self.resolutions.get(&id) {
                Some(Resolution::Answered { mad, question: before, .. })
                    if before.transaction_id == header.transaction_id =>
                {
                    self.messages.push_back((path, **mad));
                    return;
                }
                Some(Resolution::Asked { .. }) => return,
                _ => {}
            }
        }
        let Some(listener) = self.find_listener(request.service_id, path) else {
            self.counters.unserved += 1;
            let status = ServiceStatus::INVALID_SERVICE_ID;
            let nobody = ServiceReply { status, ..ServiceReply::default() };
            self.messages
                .push_back((path, answer_question(request, header.transaction_id, nobody)));
            return;
        };
        let Ok(id) = self.new_id() else { return };
        if !self.take_place(listener) {
            return;
        }
        self.questions.insert(question.key(), id);
        self.keep_resolution(id, Resolution::Asked { question, listener });
        self.news.push_back(News::Asked { listener, id, request: Box::new(*request), path });
    }

    /// SIDR_REP.
    pub(super) fn handle_service_reply(&mut self, reply: &ServiceReply, from: Address) {
        let id = reply.request_id;
        match self.resolutions.get(&id) {
            Some(Resolution::Asking { path, .. }) if path.remote == from => {
                self.forget_resolution(id);
                self.news.push_back(News::Resolved { id, reply: Some(Box::new(*reply)) });
            }
            _ => self.counters.unknown += 1,
        }
    }

    /// Does what is due for a question; false if there is none of that name.
    pub(super) fn expire_resolution(&mut self, id: u32, now: Time) -> bool {
        let Some(resolution) = self.resolutions.get_mut(&id) else { return false };
        let over = match resolution {
            Resolution::Asking { exchange, path } => match exchange.due(now) {
                Due::Later(_) => None,
                Due::Again(mad) => {
                    self.messages.push_back((*path, *mad));
                    None
                }
                Due::GivenUp => Some(true),
            },
            Resolution::Asked { .. } => None,
            Resolution::Answered { until, .. } => (*until <= now).then_some(false),
        };
        match over {
            Some(is_ours) => {
                self.forget_resolution(id);
                if is_ours {
                    self.news.push_back(News::Resolved { id, reply: None });
                }
            }
            None => {
                let deadline = self.resolutions[&id].deadline();
                if deadline < Time::NEVER {
                    self.deadlines.insert((deadline, id));
                }
            }
        }
        true
    }

    fn keep_resolution(&mut self, id: u32, resolution: Resolution) {
        let deadline = resolution.deadline();
        if let Some(before) = self.resolutions.insert(id, resolution) {
            self.deadlines.remove(&(before.deadline(), id));
        }
        if deadline < Time::NEVER {
            self.deadlines.insert((deadline, id));
        }
    }

    fn forget_resolution(&mut self, id: u32) {
        let Some(resolution) = self.resolutions.remove(&id) else { return };
        self.deadlines.remove(&(resolution.deadline(), id));
        if let Resolution::Asked { question, .. } | Resolution::Answered { question, .. } =
            resolution
            && self.questions.get(&question.key()) == Some(&id)
        {
            self.questions.remove(&question.key());
        }
    }
}

/// The SIDR_REP to a SIDR_REQ.
pub fn answer_question(
    request: &ServiceRequest,
    transaction_id: u64,
    reply: ServiceReply,
) -> [u8; MAD_SIZE] {
    let reply =
        ServiceReply { request_id: request.request_id, service_id: request.service_id, ..reply };
    Message::ServiceReply(reply).datagram(transaction_id)
}
