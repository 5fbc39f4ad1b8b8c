//! What members have left to be said to the peers of their connections when they are no more.
//!
//! A peer that only waits has nothing to send again and would never hear of a death. So members leave
//! word as their connections come and go, and the agent says it when it lets go of one, some times, for
//! nobody answers for whether it arrived.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use converb_engine::AddressVector;

use super::Agent;
use crate::protocol::ManagementDatagram;

/// What the living have left, and what is still to be said for the dead.
#[derive(Debug, Default)]
pub struct Farewells {
    of_members: BTreeMap<u64, BTreeMap<u32, ManagementDatagram>>,
    /// In the order of their times.
    again: VecDeque<(Duration, ManagementDatagram)>,
}

/// For so many connections may a member leave word.
const CONNECTIONS_MAX: usize = 65_536;
/// When it is said once more, if not too much is.
const AGAIN_AFTER: Duration = Duration::from_millis(300);
const AGAIN_MAX: usize = 65_536;

impl Farewells {
    /// A member leaves word.
    pub fn remember(&mut self, member: u64, id: u32, words: ManagementDatagram) {
        let words_of = self.of_members.entry(member).or_default();
        if words_of.len() < CONNECTIONS_MAX || words_of.contains_key(&id) {
            words_of.insert(id, words);
        }
    }

    /// A member has nothing to be said for a connection.
    pub fn forget(&mut self, member: u64, id: u32) {
        if let Some(words_of) = self.of_members.get_mut(&member) {
            words_of.remove(&id);
            if words_of.is_empty() {
                self.of_members.remove(&member);
            }
        }
    }

    /// All that a member has left; it is to be said now, and is kept to be said again.
    fn take(&mut self, member: u64, now: Duration) -> Vec<ManagementDatagram> {
        let words_of = self.of_members.remove(&member).unwrap_or_default();
        let words: Vec<_> = words_of.into_values().collect();
        let room = AGAIN_MAX.saturating_sub(self.again.len());
        let again = words.iter().take(room).map(|one| (now + AGAIN_AFTER, one.clone()));
        self.again.extend(again);
        words
    }

    fn take_due(&mut self, now: Duration) -> Option<ManagementDatagram> {
        self.again.front().filter(|(due, _)| *due <= now)?;
        self.again.pop_front().map(|(_, words)| words)
    }
}

impl Agent {
    /// Says what a member that is no more has left to be said.
    pub(super) fn say_farewells_of(&mut self, member: u64) {
        let now = self.now();
        for words in self.farewells.take(member, now) {
            self.say(&words);
        }
    }

    /// Says once more what is due; when there is more.
    pub(super) fn repeat_farewells(&mut self) -> Option<Duration> {
        let now = self.now();
        while let Some(words) = self.farewells.take_due(now) {
            self.say(&words);
        }
        self.farewells.again.front().map(|(due, _)| *due)
    }

    fn say(&mut self, words: &ManagementDatagram) {
        let path = AddressVector {
            local: words.local,
            remote: words.source,
            traffic_class: words.traffic_class,
            hop_limit: words.hop_limit,
            flow_label: 0,
            service_level: 0,
        };
        self.management.send(&path, &words.mad);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converb_cm::mad::MAD_SIZE;
    use converb_engine::Address;

    fn words(number: u8) -> ManagementDatagram {
        ManagementDatagram {
            source: Address::Lid(1),
            local: Address::Lid(2),
            traffic_class: 0,
            hop_limit: 0,
            mad: Box::new([number; MAD_SIZE]),
        }
    }

    #[test]
    fn the_last_word_counts_and_is_said_twice() {
        let mut farewells = Farewells::default();
        for (member, id, number) in [(1, 10, 1), (1, 11, 2), (1, 10, 3), (2, 10, 4)] {
            farewells.remember(member, id, words(number));
        }
        farewells.forget(1, 11);
        let now = Duration::from_secs(1);
        assert_eq!(farewells.take(1, now), [words(3)]);
        assert_eq!(farewells.take(1, now), []);
        assert_eq!(farewells.take_due(now), None);
        assert_eq!(farewells.take_due(now + AGAIN_AFTER), Some(words(3)));
        assert_eq!(farewells.take_due(now + AGAIN_AFTER), None);
        farewells.forget(2, 10);
        assert!(farewells.of_members.is_empty(), "nothing is left of who has nothing to say");
    }

    #[test]
    fn a_member_may_leave_so_many_and_no_more() {
        let mut farewells = Farewells::default();
        for id in 0..=CONNECTIONS_MAX as u32 {
            farewells.remember(1, id, words(1));
        }
        farewells.remember(1, 0, words(2));
        let all = farewells.take(1, Duration::ZERO);
        assert_eq!((all.len(), &all[0]), (CONNECTIONS_MAX, &words(2)));
    }
}
