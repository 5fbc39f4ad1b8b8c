//! What a member serves: taken from the agent, and said again to each successor.
//!
//! The wish goes by the member's own connection, for its answer may have to wait for a successor;
//! who looks after the membership hands the answer to the thread that waits.

use core::mem;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Membership;
use crate::protocol::{ManagementDatagram, Request, Served};
use crate::services::Service;
use crate::transfer;

/// The services of a member, and what came for them.
#[derive(Debug, Default)]
pub struct Serving {
    wishes: Mutex<Wishes>,
    answered: Condvar,
    datagrams: Mutex<VecDeque<ManagementDatagram>>,
}

#[derive(Debug, Default)]
struct Wishes {
    last_token: u32,
    all: BTreeMap<u32, Wish>,
}

#[derive(Debug)]
struct Wish {
    service: Service,
    is_said: bool,
    answer: Option<Served>,
}

/// Why a member does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotServed {
    /// Another one has the service. `EADDRINUSE`.
    InUse,
    /// It has as many as it may. `ENOBUFS`.
    TooMany,
    /// There is no agent, or an old one that knows nothing of services.
    NoAnswer,
}

/// A successor is there within milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often to say it again to an agent whose connection was full.
const PAUSE: Duration = Duration::from_millis(20);
/// More datagrams than that are not kept, if nobody looks at them: they come again.
const DATAGRAMS_MAX: usize = 4096;

impl Serving {
    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent has answered.
    pub(super) fn answer(&self, token: u32, served: Served) {
        if let Some(wish) = self.wishes().all.get_mut(&token) {
            // A successor may say no, if another one was faster after the agent's death. Who was
            // told yes goes on, as with a port whose packets are lost.
            if wish.answer.is_none() {
                wish.answer = Some(served);
            }
            if let (Some(Served::As(id)), Served::As(_)) = (wish.answer, served) {
                wish.service.id = id;
            }
        }
        self.answered.notify_all();
    }

    pub(super) fn keep(&self, datagram: ManagementDatagram) {
        let mut datagrams = self.datagrams.lock().unwrap_or_else(PoisonError::into_inner);
        if datagrams.len() < DATAGRAMS_MAX {
            datagrams.push_back(datagram);
        }
    }
}

impl Membership {
    /// Serves a service from now on, or changes how; which one it is, with its port. Waits for the
    /// agent, and for a successor if there is none just now; some other thread has to look after
    /// the membership meanwhile.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn serve(&self, service: Service) -> Result<Service, NotServed> {
        let deadline = Instant::now() + PATIENCE;
        let mut wishes = self.serving.wishes();
        wishes.last_token = wishes.last_token.wrapping_add(1);
        let token = wishes.last_token;
        wishes.all.insert(token, Wish { service, is_said: false, answer: None });
        loop {
            self.say(&mut wishes);
            if let Some(served) = wishes.all[&token].answer {
                return self.conclude(&mut wishes, token, served);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                wishes.all.remove(&token);
                return Err(NotServed::NoAnswer);
            }
            let (again, _) = self
                .serving
                .answered
                .wait_timeout(wishes, left.min(PAUSE))
                .unwrap_or_else(PoisonError::into_inner);
            wishes = again;
        }
    }

    fn conclude(
        &self,
        wishes: &mut Wishes,
        token: u32,
        served: Served,
    ) -> Result<Service, NotServed> {
        let refusal = match served {
            Served::As(_) => {
                let service = wishes.all[&token].service;
                // What was changed is not said as it was before.
                wishes.all.retain(|&other, wish| {
                    other == token || (wish.service.id, wish.service.at) != (service.id, service.at)
                });
                return Ok(service);
            }
            Served::InUse => NotServed::InUse,
            Served::TooMany => NotServed::TooMany,
        };
        wishes.all.remove(&token);
        Err(refusal)
    }

    /// Serves it no more.
    pub fn serve_no_more(&self, service: Service) {
        let is_it = |wish: &Wish| (wish.service.id, wish.service.at) == (service.id, service.at);
        self.serving.wishes().all.retain(|_, wish| !is_it(wish));
        if let Some(connection) = self.connection.get() {
            // An agent that does not hear it is told no more by our successor's wishes.
            let message = Request::ServeNoMore { service }.emit();
            let _ = transfer::send(connection, &message, &[]);
        }
    }

    /// What came to queue pair 1 for us since the last call: to be looked at after each
    /// [`Membership::handle_event`].
    pub fn take_management(&self) -> VecDeque<ManagementDatagram> {
        let mut datagrams = self.serving.datagrams.lock().unwrap_or_else(PoisonError::into_inner);
        mem::take(&mut *datagrams)
    }

    /// Tells an agent that does not know us what we serve.
    pub(super) fn serve_again(&self) {
        let mut wishes = self.serving.wishes();
        wishes.all.values_mut().for_each(|wish| wish.is_said = false);
        self.say(&mut wishes);
    }

    /// Says what the agent has not been told.
    fn say(&self, wishes: &mut Wishes) {
        let Some(connection) = self.connection.get() else { return };
        for (&token, wish) in wishes.all.iter_mut().filter(|(_, wish)| !wish.is_said) {
            let message = Request::Serve { token, service: wish.service }.emit();
            wish.is_said = transfer::send(connection, &message, &[]).is_ok();
        }
    }
}
