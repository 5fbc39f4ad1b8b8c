//! What to send again: the missing packet alone for peers that keep packets which came early,
//! everything behind it for those that go back.

use converb_wire::Psn;

/// How the peer treats packets behind a lost one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// Not seen yet.
    #[default]
    Unknown,
    /// It keeps them: after the missing one its next ACK jumps.
    Selective,
    /// It drops them (IBA 9.7.5 allows either).
    GoBackN,
}

/// The recovery of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovery {
    peer: Peer,
    trial: Option<Trial>,
    /// The packets to send before anything else: from the first up to, not including, the second.
    pub resend: Option<(Psn, Psn)>,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    missing: Psn,
    sent_end: Psn,
}

/// What a report of loss leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing more than [`Recovery::resend`] says.
    Selective,
    /// Send everything from there on again.
    GoBack(Psn),
}

impl Recovery {
    /// How the peer is known to recover.
    #[cfg(test)]
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// The peer misses `missing`; we have sent everything before `sent_end`.
    pub fn sequence_error(&mut self, missing: Psn, sent_end: Psn) -> Verdict {
        if self.peer == Peer::GoBackN {
            return Verdict::GoBack(missing);
        }
        if self.trial.is_some_and(|trial| trial.missing.plus(1).is_before(missing)) {
            self.peer = Peer::Selective;
        }
        self.resend = Some((missing, missing.plus(1)));
        self.trial = Some(Trial { missing, sent_end });
        Verdict::Selective
    }

    /// The peer acknowledged everything before `limit`. If that is just the packet that was sent
    /// again and no more, although more had been sent, it did not keep the rest.
    pub fn acknowledged(&mut self, limit: Psn) -> Option<Verdict> {
        let trial = self.trial?;
        let next = trial.missing.plus(1);
        if limit.is_before(next) {
            return None;
        }
        self.trial = None;
        if next.is_before(limit) {
            self.peer = Peer::Selective;
        } else if next.is_before(trial.sent_end) && self.peer == Peer::Unknown {
            self.peer = Peer::GoBackN;
            return Some(Verdict::GoBack(next));
        }
        None
    }

    /// Whether a packet that was sent again has not been acknowledged.
    pub fn is_waiting(&self) -> bool {
        self.trial.is_some()
    }

    /// Everything is sent again anyway.
    pub fn start_over(&mut self) {
        self.trial = None;
        self.resend = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn psn(value: u32) -> Psn {
        Psn::new(value)
    }

    #[test]
    fn a_peer_whose_ack_jumps_keeps_packets() {
        let mut recovery = Recovery::default();
        assert_eq!(recovery.sequence_error(psn(5), psn(20)), Verdict::Selective);
        assert_eq!(recovery.resend, Some((psn(5), psn(6))));
        assert_eq!(recovery.acknowledged(psn(20)), None);
        assert_eq!(recovery.peer(), Peer::Selective);
        assert!(!recovery.is_waiting());
    }

    #[test]
    fn a_peer_whose_ack_does_not_jump_is_remembered_as_going_back() {
        let mut recovery = Recovery::default();
        recovery.sequence_error(psn(5), psn(20));
        assert_eq!(recovery.acknowledged(psn(6)), Some(Verdict::GoBack(psn(6))));
        assert_eq!(recovery.sequence_error(psn(9), psn(20)), Verdict::GoBack(psn(9)));
    }

    #[test]
    fn the_last_packet_alone_tells_nothing() {
        let mut recovery = Recovery::default();
        recovery.sequence_error(psn(5), psn(6));
        assert_eq!(recovery.acknowledged(psn(6)), None);
        assert_eq!(recovery.peer(), Peer::Unknown);
    }

    #[test]
    fn a_second_hole_is_reported_by_a_peer_that_keeps_packets() {
        let mut recovery = Recovery::default();
        recovery.sequence_error(psn(5), psn(20));
        assert_eq!(recovery.sequence_error(psn(8), psn(20)), Verdict::Selective);
        assert_eq!(recovery.peer(), Peer::Selective);
    }
}
