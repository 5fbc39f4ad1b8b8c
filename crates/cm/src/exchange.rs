//! A message that wants an answer, sent again until that comes (IBA 12.9.8.2).
//!
//! The time that a peer may take to answer is several seconds, as programs ask for it, and a lost
//! message would cost all of it. A message that comes twice does no harm, so half of the retries are
//! early, each after twice as long as the one before, up to that time.

use crate::mad::MAD_SIZE;
use crate::planted::{self, Planted};
use converb_engine::Time;
use core::time::Duration;

/// A message on its way, and when to send it again.
#[derive(Clone, Debug)]
pub struct Exchange {
    mad: Box<[u8; MAD_SIZE]>,
    /// After how long without an answer the message counts as lost.
    interval: Duration,
    /// How many early retries there will be.
    early: u8,
    /// How often it may be sent again.
    left: u8,
    deadline: Time,
}

/// What is to be done about a message at some time.
#[derive(Debug, PartialEq, Eq)]
pub enum Due<'a> {
    /// Nothing before that time.
    Later(Time),
    /// It is to be sent again.
    Again(&'a [u8; MAD_SIZE]),
    /// It was sent as often as it may be.
    GivenUp,
}

/// The first retry is not earlier than after this fraction of the interval, as a power of two.
const EARLY_MAX: u8 = 7;

impl Exchange {
    /// A message that is sent now, and up to `retries` times more, the last ones each after
    /// `interval` without an answer.
    pub fn begin(mad: Box<[u8; MAD_SIZE]>, interval: Duration, retries: u8, now: Time) -> Self {
        let mut exchange =
            Self { mad, interval, early: retries / 2, left: retries, deadline: Time::NEVER };
        exchange.wait(now);
        exchange
    }

    fn wait(&mut self, now: Time) {
        self.deadline = now + self.interval / (1 << self.early.min(EARLY_MAX));
    }

    /// The message.
    pub fn mad(&self) -> &[u8; MAD_SIZE] {
        &self.mad
    }

    /// When [`due`](Self::due) has something to say.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// What is to be done now.
    pub fn due(&mut self, now: Time) -> Due<'_> {
        if now < self.deadline {
            return Due::Later(self.deadline);
        }
        if self.left == 0 {
            return Due::GivenUp;
        }
        self.left -= 1;
        self.early = self.early.saturating_sub(1);
        self.wait(now);
        if planted::is(Planted::DeadlineForgotten) {
            self.deadline = Time::NEVER;
        }
        Due::Again(&self.mad)
    }

    /// The peer has got it and asks for more time (MRA). What was left of the retries stays: they
    /// count what gets lost.
    pub fn prolong(&mut self, service_timeout: Duration, now: Time) {
        if planted::is(Planted::MoreTimeIgnored) {
            return;
        }
        self.early = 0;
        self.deadline = self.deadline.max(now + service_timeout + self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Time {
        Time::from_nanoseconds(seconds * 1_000_000_000)
    }

    fn message(retries: u8) -> Exchange {
        Exchange::begin(Box::new([7; MAD_SIZE]), SECOND, retries, at(10))
    }

    #[test]
    fn it_is_sent_as_often_as_was_said_and_no_more() {
        let mut exchange = message(1);
        assert_eq!(exchange.due(at(10)), Due::Later(at(11)));
        assert_eq!(exchange.due(at(11)), Due::Again(&[7; MAD_SIZE]));
        assert_eq!(exchange.due(at(11)), Due::Later(at(12)));
        assert_eq!(exchange.due(at(20)), Due::GivenUp);
        assert_eq!(exchange.due(at(20)), Due::GivenUp);
    }

    #[test]
    fn half_of_the_retries_are_early() {
        let mut exchange = message(15);
        let (mut now, mut pauses) = (at(10), Vec::new());
        loop {
            let deadline = exchange.deadline();
            pauses.push(deadline.since(now));
            now = deadline;
            if exchange.due(now) == Due::GivenUp {
                break;
            }
        }
        assert_eq!(pauses.len(), 16, "one wait for each time that it was sent");
        assert_eq!(pauses[0], SECOND / 128);
        assert_eq!(pauses[6], SECOND / 2);
        assert!(pauses[7..].iter().all(|&pause| pause == SECOND));
    }

    #[test]
    fn a_peer_that_asks_for_time_gets_it() {
        let mut exchange = message(15);
        exchange.prolong(SECOND * 5, at(10));
        assert_eq!(exchange.deadline(), at(16));
        exchange.prolong(SECOND, at(11));
        assert_eq!(exchange.deadline(), at(16), "it does not get less");
        assert_eq!(exchange.due(at(16)), Due::Again(&[7; MAD_SIZE]));
        assert_eq!(exchange.deadline(), at(17));
    }
}
