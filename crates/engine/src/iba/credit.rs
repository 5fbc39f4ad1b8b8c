//! Flow control for what is not acknowledged: a credit datagram of our own between Converb peers.
//!
//! UC and UD users count on a fabric that loses nothing, which on InfiniBand is the link level's
//! doing. Here the sender asks, in the stream of its packets, "what I sent up to here is gone
//! from your buffer, isn't it?", and the peer answers when its turn comes in its receive buffer:
//! then everything before it was taken out (or lost on the way). A sender has no more on its way
//! than the peer granted. A peer that does not answer the first question is no Converb: it gets
//! no second one, and packets at a moderate pace. A Converb that has answered and falls silent is
//! gone or stopped: what is sent to it must complete all the same, so it gets packets at that
//! pace, and is asked now and then.

use super::path::PathWindow;
use crate::time::Time;
use converb_wire::{Bth, Opcode, Psn, Qpn};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use core::time::Duration;

/// The state of a path's credit, shared by its queue pairs. Counts are in `truesize` and wrap.
#[derive(Debug)]
pub struct Credit {
    peer: AtomicU8,
    sent: AtomicU32,
    confirmed: AtomicU32,
    granted: AtomicU32,
    asked: AtomicU32,
    asked_at: AtomicU64,
    /// Since when somebody waits for an answer; 0 if nobody does.
    waiting_since: AtomicU64,
    /// When the next packet to a foreign peer may go.
    paced_until: AtomicU64,
    /// Since when packets go to a foreign peer without a long pause.
    paced_since: AtomicU64,
}

impl Default for Credit {
    fn default() -> Self {
        Self {
            peer: AtomicU8::new(UNKNOWN),
            sent: AtomicU32::new(0),
            confirmed: AtomicU32::new(0),
            granted: AtomicU32::new(GRANT_FIRST),
            asked: AtomicU32::new(0),
            asked_at: AtomicU64::new(0),
            waiting_since: AtomicU64::new(0),
            paced_until: AtomicU64::new(0),
            paced_since: AtomicU64::new(0),
        }
    }
}

const UNKNOWN: u8 = 0;
const ASKED: u8 = 1;
const CONVERB: u8 = 2;
const FOREIGN: u8 = 3;
/// A Converb that does not answer any more.
const SILENT: u8 = 4;

/// What may be on its way before the peer said how much.
const GRANT_FIRST: u32 = 48 << 10;
/// No peer is granted less: a few packets must fit.
const GRANT_MIN: u32 = 20 << 10;
/// A Converb peer answers within this unless it is stopped.
const FIRST_ANSWER_MAX: Duration = Duration::from_millis(200);
/// A question is repeated after this when the sender waits for its answer.
const ASK_AGAIN: Duration = Duration::from_millis(1);
/// So long a sender waits for a peer that used to answer; longer than a machine under load stops
/// a process.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// How often a silent peer is asked.
const ASK_SILENT: Duration = Duration::from_millis(100);
/// The pace toward peers that grant nothing, in `truesize` per microsecond. Nothing tells what
/// they bear, so it begins with what an emulated machine does and doubles while sending goes on.
const PACE_FIRST: u64 = 16;
const PACE_DOUBLINGS_MAX: u64 = 5;
/// How long the first pace lasts, and how long each other.
const PACE_FIRST_FOR: Duration = Duration::from_secs(2);
const PACE_FOR: Duration = Duration::from_secs(1);
/// After a pause of this length it begins again.
const PACE_FORGOTTEN: Duration = Duration::from_secs(1);
/// How much may go at once.
const PACE_BURST: Duration = Duration::from_micros(1000);

/// Whether a packet may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Go,
    /// Not before an answer comes; try again then, or at this time.
    Wait(Time),
}

impl Credit {
    /// Whether a packet of `size` may go now.
    pub fn admit(&self, size: u32, now: Time) -> Admission {
        match self.peer.load(Relaxed) {
            UNKNOWN => Admission::Go,
            FOREIGN | SILENT => self.pace(size, now),
            peer => {
                let on_the_way = self.on_the_way();
                // A peer may say what it likes: what it confirms can lie ahead of what was sent.
                if on_the_way == 0 || on_the_way.saturating_add(size) <= self.granted.load(Relaxed)
                {
                    return Admission::Go;
                }
                if peer == CONVERB && self.has_waited(now) > SILENCE_MAX {
                    self.peer.store(SILENT, Relaxed);
                    return self.pace(size, now);
                }
                let asked_at = Time::from_nanoseconds(self.asked_at.load(Relaxed));
                if peer == ASKED && now.since(asked_at) >= FIRST_ANSWER_MAX {
                    self.peer.store(FOREIGN, Relaxed);
                    return self.pace(size, now);
                }
                let again = if peer == ASKED { FIRST_ANSWER_MAX } else { ASK_AGAIN };
                Admission::Wait((asked_at + again).max(now + Duration::from_micros(100)))
            }
        }
    }

    /// For how long senders have waited for an answer; from now on, if none did.
    fn has_waited(&self, now: Time) -> Duration {
        let begins = self.waiting_since.compare_exchange(0, now.nanoseconds(), Relaxed, Relaxed);
        begins.map_or_else(|since| now.since(Time::from_nanoseconds(since)), |_| Duration::ZERO)
    }

    fn pace(&self, size: u32, now: Time) -> Admission {
        let until = Time::from_nanoseconds(self.paced_until.load(Relaxed));
        if now + PACE_BURST < until {
            return Admission::Wait(until - PACE_BURST);
        }
        if now.since(until) > PACE_FORGOTTEN {
            self.paced_since.store(now.nanoseconds(), Relaxed);
        }
        let busy = now.since(Time::from_nanoseconds(self.paced_since.load(Relaxed)));
        let later = busy.saturating_sub(PACE_FIRST_FOR);
        let doublings = if later.is_zero() { 0 } else { 1 + later.as_secs() / PACE_FOR.as_secs() };
        let pace = PACE_FIRST << doublings.min(PACE_DOUBLINGS_MAX);
        let cost = Duration::from_nanos(u64::from(size) * 1000 / pace);
        self.paced_until.store((until.max(now) + cost).nanoseconds(), Relaxed);
        Admission::Go
    }

    /// A packet of `size` is on its way.
    pub fn sent(&self, size: u32) {
        self.sent.fetch_add(size, Relaxed);
    }

    /// The question to send now, if one is due; `waiting` when a packet was not admitted.
    pub fn question(&self, slot: u16, now: Time, waiting: bool) -> Option<CreditMessage> {
        if !self.is_question_due(now, waiting) {
            return None;
        }
        let sent = self.sent.load(Relaxed);
        let _ = self.peer.compare_exchange(UNKNOWN, ASKED, Relaxed, Relaxed);
        self.asked.store(sent, Relaxed);
        self.asked_at.store(now.nanoseconds(), Relaxed);
        Some(CreditMessage { kind: CreditKind::Question, slot, count: sent, grant: 0 })
    }

    /// Whether [`question`](Self::question) would give one.
    pub fn is_question_due(&self, now: Time, waiting: bool) -> bool {
        match self.peer.load(Relaxed) {
            UNKNOWN => true,
            CONVERB => {
                let unasked = self.sent.load(Relaxed).wrapping_sub(self.asked.load(Relaxed));
                let asked_at = Time::from_nanoseconds(self.asked_at.load(Relaxed));
                unasked >= self.granted.load(Relaxed) / 3
                    || (waiting && now.since(asked_at) >= ASK_AGAIN)
            }
            SILENT => now.since(Time::from_nanoseconds(self.asked_at.load(Relaxed))) >= ASK_SILENT,
            _ => false,
        }
    }

    /// The peer's answer: everything before `count` has left its buffer, and `grant` more may be
    /// on its way.
    pub fn answered(&self, count: u32, grant: u32) {
        self.waiting_since.store(0, Relaxed);
        let was_silent = self.peer.swap(CONVERB, Relaxed) == SILENT;
        let confirmed = self.confirmed.load(Relaxed);
        let progress = count.wrapping_sub(confirmed);
        // At a pace more may have been sent than counts tell apart.
        if was_silent || progress <= self.on_the_way() {
            self.confirmed.store(count, Relaxed);
        }
        self.granted.store(grant.max(GRANT_MIN), Relaxed);
    }

    /// A Converb datagram came from there: who had not answered may be asked once more.
    pub fn met_converb(&self) {
        if self.peer.load(Relaxed) == FOREIGN {
            self.confirmed.store(self.sent.load(Relaxed), Relaxed);
            self.peer.store(UNKNOWN, Relaxed);
        }
    }

    /// How much was sent that the peer has not confirmed.
    pub fn on_the_way(&self) -> u32 {
        self.sent.load(Relaxed).wrapping_sub(self.confirmed.load(Relaxed))
    }
}

impl PathWindow {
    /// What is granted to a peer that asks, of a receive buffer of `buffer` bytes that `peers`
    /// others use too: half of it is left to what is acknowledged, and to newcomers.
    pub fn grant(buffer: usize, peers: usize) -> u32 {
        let share = buffer / 2 / (peers + 1);
        u32::try_from(share).unwrap_or(u32::MAX).clamp(GRANT_MIN, 1 << 20)
    }
}

/// A credit datagram.
///
/// ```text
/// BTH: opcode 0xDC (manufacturer's range), destination: slot << 14, PSN 0
/// +-------------------------------+---------------+---------------+
/// |             "CVCR"            |    version 1  | 0 ask, 1 tell |
/// +-------------------------------+---------------+---------------+
/// |     0 (reserved, 16 bits)     |         sender's slot         |
/// +-------------------------------+-------------------------------+
/// |                             count                             |
/// +---------------------------------------------------------------+
/// |                             grant                             |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditMessage {
    /// Question or answer.
    pub kind: CreditKind,
    /// Who asks or answers.
    pub slot: u16,
    /// How much was sent before the question.
    pub count: u32,
    /// How much may be on its way (answers).
    pub grant: u32,
}

/// Which way a credit datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditKind {
    /// From the sender of data.
    Question,
    /// Back to it.
    Answer,
}

impl CreditMessage {
    /// The opcode, of the manufacturer's range (IBA 9.2.1).
    pub const OPCODE: Opcode = Opcode(0xdc);
    /// The length, BTH to the end.
    pub const LENGTH: usize = Bth::LENGTH + 20;
    const MAGIC: [u8; 4] = *b"CVCR";
    const VERSION: u8 = 1;

    /// The queue pair number by which a slot as a whole is reached.
    pub fn destination(slot: u16) -> Qpn {
        Qpn::new(u32::from(slot) << 14)
    }

    /// The message in a packet, if it is one of these.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (bth, body) = Bth::parse(bytes)?;
        let body: &[u8; 20] = body.try_into().ok()?;
        let [a, b, c, d, version, kind, 0, 0, s0, s1, 0, 0, c0, c1, c2, c3, g0, g1, g2, g3] = *body
        else {
            return None;
        };
        if bth.opcode != Self::OPCODE || [a, b, c, d] != Self::MAGIC || version != Self::VERSION {
            return None;
        }
        let kind = match kind {
            0 => CreditKind::Question,
            1 => CreditKind::Answer,
            _ => return None,
        };
        Some(Self {
            kind,
            slot: u16::from_be_bytes([s0, s1]),
            count: u32::from_be_bytes([c0, c1, c2, c3]),
            grant: u32::from_be_bytes([g0, g1, g2, g3]),
        })
    }

    /// Writes the packet to slot `to`.
    pub fn emit(&self, to: u16, bytes: &mut [u8]) {
        Bth::new(Self::OPCODE, Self::destination(to), Psn::default()).emit(bytes);
        let body = &mut bytes[Bth::LENGTH..Self::LENGTH];
        body.fill(0);
        body[..4].copy_from_slice(&Self::MAGIC);
        body[4] = Self::VERSION;
        body[5] = u8::from(self.kind == CreditKind::Answer);
        body[8..10].copy_from_slice(&self.slot.to_be_bytes());
        body[12..16].copy_from_slice(&self.count.to_be_bytes());
        body[16..20].copy_from_slice(&self.grant.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::from_nanoseconds(milliseconds * 1_000_000)
    }

    #[test]
    fn a_message_survives_the_wire() {
        let message =
            CreditMessage { kind: CreditKind::Answer, slot: 700, count: 0xfedc_ba98, grant: 5 };
        let mut bytes = [0xff; CreditMessage::LENGTH];
        message.emit(3, &mut bytes);
        assert_eq!(CreditMessage::parse(&bytes), Some(message));
        assert_eq!(Bth::parse(&bytes).unwrap().0.destination, Qpn::new(3 << 14));
        bytes[13] ^= 1;
        assert_eq!(CreditMessage::parse(&bytes), None);
        assert_eq!(CreditMessage::parse(&bytes[..20]), None);
    }

    #[test]
    fn a_peer_that_answers_is_never_sent_more_than_it_granted() {
        let credit = Credit::default();
        assert_eq!(credit.admit(1000, at(0)), Admission::Go);
        let question = credit.question(1, at(0), false).expect("the first packet asks");
        credit.answered(question.count, 100_000);
        let mut sent = 0;
        while credit.admit(1000, at(0)) == Admission::Go {
            credit.sent(1000);
            sent += 1000;
        }
        assert_eq!(sent, 100_000);
        let question = credit.question(1, at(1), true).expect("a waiting sender asks");
        credit.answered(question.count, 100_000);
        assert_eq!(credit.admit(1000, at(1)), Admission::Go);
    }

    #[test]
    fn a_foreign_peer_sees_one_question_and_a_moderate_pace() {
        let credit = Credit::default();
        assert!(credit.question(1, at(0), false).is_some());
        credit.sent(GRANT_FIRST);
        assert!(matches!(credit.admit(1000, at(1)), Admission::Wait(_)));
        assert!(credit.question(1, at(50), true).is_none());
        assert_eq!(credit.admit(1000, at(201)), Admission::Go);
        assert!(credit.question(1, at(202), true).is_none());
        let sent_in = |from: Time, to: Time| {
            let (mut now, mut sent) = (from, 0u64);
            while now < to {
                match credit.admit(8448, now) {
                    Admission::Go => sent += 8448,
                    Admission::Wait(until) => now = until,
                }
            }
            sent
        };
        let first = sent_in(at(300), at(1300));
        assert!((15_500_000..17_000_000).contains(&first), "{first} in the first second");
        sent_in(at(1300), at(9000));
        let later = sent_in(at(9000), at(10_000));
        assert!((480_000_000..530_000_000).contains(&later), "{later} in a later second");
    }

    #[test]
    fn a_peer_that_falls_silent_is_not_waited_for_for_ever() {
        let credit = Credit::default();
        let question = credit.question(1, at(0), false).unwrap();
        credit.answered(question.count, 30_000);
        credit.sent(30_000);
        assert!(matches!(credit.admit(1000, at(1)), Admission::Wait(_)));
        assert!(matches!(credit.admit(1000, at(2001)), Admission::Wait(_)));
        assert_eq!(credit.admit(1000, at(2002)), Admission::Go);
        // At the first pace, and asked now and then.
        while credit.admit(1000, at(2002)) == Admission::Go {
            credit.sent(1000);
        }
        let question = credit.question(1, at(2003), false).expect("it was asked long ago");
        assert!(credit.question(1, at(2050), false).is_none());
        assert!(credit.question(1, at(2103), false).is_some());
        credit.answered(question.count, 30_000);
        assert_eq!(credit.admit(30_000, at(2104)), Admission::Go);
        credit.sent(30_000);
        assert!(matches!(credit.admit(1000, at(2105)), Admission::Wait(_)));
        assert!(matches!(credit.admit(1000, at(4000)), Admission::Wait(_)));
    }

    #[test]
    fn a_peer_that_confirms_more_than_was_sent_is_waited_for_and_given_up_as_any_other() {
        let credit = Credit::default();
        let question = credit.question(1, at(0), false).unwrap();
        credit.answered(question.count, 30_000);
        credit.sent(30_000);
        assert!(matches!(credit.admit(1000, at(1)), Admission::Wait(_)));
        assert_eq!(credit.admit(1000, at(2002)), Admission::Go);
        // It was silent, so what it says is believed: that more arrived than was sent.
        credit.answered(30_001, 30_000);
        assert_eq!(credit.on_the_way(), u32::MAX);
        assert!(matches!(credit.admit(9000, at(2003)), Admission::Wait(_)));
        assert!(matches!(credit.admit(9000, at(4000)), Admission::Wait(_)));
        assert_eq!(credit.admit(9000, at(4004)), Admission::Go);
    }

    #[test]
    fn a_lost_answer_is_asked_for_again_only_while_someone_waits() {
        let credit = Credit::default();
        let question = credit.question(1, at(0), false).unwrap();
        credit.answered(question.count, 30_000);
        credit.sent(30_000);
        assert!(credit.question(1, at(1), false).is_some());
        assert!(credit.question(1, at(1), true).is_none());
        assert!(credit.question(1, at(3), true).is_some());
        assert!(credit.question(1, at(5), false).is_none());
    }
}
