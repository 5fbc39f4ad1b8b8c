//! In which order failures are shown: who asks for one wants the cause, not what followed from it.

use converb::FailureRecord;
use converb_agent::protocol::FailureEntry;

/// What orders a failure.
struct About {
    /// Process, device and number.
    queue_pair: (u32, String, u32),
    is_flush: bool,
}

impl About {
    fn of(entry: &FailureEntry) -> Option<Self> {
        let record = FailureRecord::from_words(&entry.words)?;
        let queue_pair = (entry.pid, record.device, record.qpn.value());
        Some(Self { queue_pair, is_flush: record.failure.is_flush() })
    }
}

/// Of failures in order, the newest first: what was flushed behind the failure before it of the
/// same queue pair, if that is there, and everything else where it is.
pub(super) fn causes_first(failures: Vec<FailureEntry>) -> Vec<FailureEntry> {
    let known: Vec<_> = failures.iter().map(About::of).collect();
    let rank = |place: usize| {
        let flush = known[place].as_ref().filter(|about| about.is_flush)?;
        known[place..].iter().position(|other| {
            other
                .as_ref()
                .is_some_and(|other| !other.is_flush && other.queue_pair == flush.queue_pair)
        })
    };
    let mut ranked: Vec<_> = failures
        .into_iter()
        .enumerate()
        .map(|(place, entry)| (rank(place).map_or((place, 0), |behind| (place + behind, 1)), entry))
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, entry)| entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use converb::iba::{Cause, Failure, Side};
    use converb::{Address, CompletionKind, Qpn, Status};
    use std::time::UNIX_EPOCH;

    fn entry(qpn: u32, number: u64, is_flush: bool) -> FailureEntry {
        let cause = if is_flush {
            Cause::Flushed { wr_id: 1, status: 12, cause: 0x204, is_ours: 1 }
        } else {
            Cause::NoReadDepth {}
        };
        let failure = Failure {
            has_completion: true,
            wr_id: number,
            status: Status::RetryExceeded,
            kind: CompletionKind::Send,
            side: Side::Send,
            cause,
            psn: None,
            opcode: None,
            peer: Qpn::new(0),
            address: Address::Lid(0),
            count: 1,
        };
        let record =
            FailureRecord { when: UNIX_EPOCH, device: "a".into(), qpn: Qpn::new(qpn), failure };
        FailureEntry { pid: 4, program: Default::default(), words: record.words() }
    }

    #[test]
    fn a_cause_comes_before_what_was_flushed_for_it() {
        let failures = vec![
            entry(1, 1, true),
            entry(2, 2, false),
            entry(3, 3, true),
            entry(2, 4, true),
            entry(1, 5, false),
            FailureEntry { pid: 4, program: Default::default(), words: [9; 20] },
            entry(1, 7, true),
            entry(2, 8, false),
        ];
        let wr_id = |entry: &FailureEntry| {
            FailureRecord::from_words(&entry.words).map_or(0, |record| record.failure.wr_id)
        };
        let order: Vec<u64> = causes_first(failures).iter().map(wr_id).collect();
        assert_eq!(order, [2, 3, 5, 1, 0, 7, 8, 4]);
    }
}
