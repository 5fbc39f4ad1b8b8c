//! How long somebody waits for a peer: as often and as long as was said, no less and no more.

use super::{Model, Phase};
use crate::connections::plan::SECOND;
use crate::connections::process::Who;
use converb_cm::connection::Event;
use converb_cm::message::{Message, Request};
use converb_wire::ack_timeout;

/// How long one end waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    /// Nanoseconds for one answer.
    interval: u64,
    /// How often a message may be sent again.
    retries: u64,
    /// How often it was sent since the phase began.
    sent: u64,
    /// It must not give up before.
    patient_until: u64,
    /// The phase must be over by then.
    limit: Option<u64>,
}

/// Lateness of clocks, of programs that read late and of packets, all together.
const LATE_MAX: u64 = 4 * SECOND;
/// The longest TIMEWAIT.
const TIME_WAIT_MAX: u64 = 4 * SECOND;

fn nanoseconds(code: u8) -> u64 {
    ack_timeout(code).map_or(0, |time| time.as_nanos() as u64)
}

impl Waiting {
    /// That of the end that sends the REQ, or of the one that it asks.
    pub fn new(request: &Request, is_active: bool) -> Self {
        let code = if is_active {
            request.remote_cm_response_timeout
        } else {
            request.local_cm_response_timeout
        };
        let interval = nanoseconds(code) + nanoseconds(request.primary.local_ack_timeout);
        Self { interval, retries: request.max_cm_retries.into(), ..Self::default() }
    }

    fn longest(&self) -> u64 {
        (self.retries + 1) * self.interval + LATE_MAX
    }
}

impl Model {
    /// A phase begins: it may last until then.
    pub(super) fn wait_in_phase(&mut self, number: usize, now: u64) {
        let conversation = &mut self.conversations[number];
        let waiting = &mut conversation.waiting;
        (waiting.sent, waiting.patient_until) = (0, 0);
        waiting.limit = match conversation.phase {
            Phase::Asking | Phase::Accepted | Phase::Ending => Some(now + waiting.longest()),
            Phase::Resting => Some(now + TIME_WAIT_MAX + LATE_MAX),
            _ => None,
        };
        self.limited.push(number);
    }

    /// The conversations whose limit has changed, and when it is to be looked at.
    pub fn take_limits(&mut self) -> Vec<(usize, u64)> {
        let numbers = core::mem::take(&mut self.limited);
        let limit = |number: usize| Some((number, self.conversations[number].waiting.limit?));
        numbers.into_iter().filter_map(limit).collect()
    }

    /// Looks at a limit.
    ///
    /// # Errors
    /// Somebody still waits.
    pub fn check_limit(&self, number: usize, now: u64) -> Result<(), String> {
        let conversation = &self.conversations[number];
        match conversation.waiting.limit {
            Some(limit) if limit <= now => {
                Err(format!("#{number} waits too long: {conversation:?}"))
            }
            _ => Ok(()),
        }
    }

    /// A process sends a message.
    pub fn sends(&mut self, who: Who, message: &Message) {
        let (id, phase) = match message {
            Message::Request(request) => (request.local_communication_id, Phase::Asking),
            Message::Reply(reply) => (reply.local_communication_id, Phase::Accepted),
            Message::DisconnectRequest(request) => (request.local_communication_id, Phase::Ending),
            _ => return,
        };
        if let Some(number) = self.named(who, id) {
            let conversation = &mut self.conversations[number];
            if conversation.phase == phase {
                conversation.waiting.sent += 1;
            }
        }
    }

    /// An MRA is handed to a process: the peer wants more time.
    pub(super) fn is_asked_for_time(&mut self, number: usize, code: u8, now: u64) {
        let is_behind = self.is_behind(&self.conversations[number]);
        let conversation = &mut self.conversations[number];
        if !matches!(conversation.phase, Phase::Asking | Phase::Accepted) {
            return;
        }
        let waiting = &mut conversation.waiting;
        let until = now + nanoseconds(code);
        waiting.limit = waiting.limit.max(Some(until + waiting.longest()));
        if !is_behind {
            waiting.patient_until = waiting.patient_until.max(until);
        }
        self.limited.push(number);
    }

    /// Whoever gives up has tried, and has waited for a peer that wanted more time.
    pub(super) fn check_patience(
        &self,
        number: usize,
        event: &Event,
        now: u64,
    ) -> Result<(), String> {
        let conversation = &self.conversations[number];
        let waiting = &conversation.waiting;
        if !matches!(event, Event::Unreachable) {
            return Ok(());
        }
        if now < waiting.patient_until {
            return Err(format!("#{number} has given up early: {conversation:?}"));
        }
        if waiting.sent <= waiting.retries {
            return Err(format!("#{number} has not tried often enough: {conversation:?}"));
        }
        Ok(())
    }
}
