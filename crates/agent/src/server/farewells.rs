//! What members have left to be said to the peers of their connections when they are no more.
//!
//! A peer that only waits has nothing to send again and would never hear of a death. So members leave
//! word as their connections come and go, and the agent says it when it lets go of one, some times, for
//! nobody answers for whether it arrived.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use converb_engine::Address;

use super::Agent;
use crate::protocol::ManagementDatagram;

/// What the living have left, and what is still to be said for the dead.
#[derive(Debug, Default)]
pub struct Farewells {
    of_members: BTreeMap<u64, BTreeMap<u32, ManagementDatagram>>,
    /// With the names of their connections, in the order of their times.
    due: VecDeque<(Duration, u32, ManagementDatagram)>,
    /// The same, for the second time.
    again: VecDeque<(Duration, u32, ManagementDatagram)>,
}

/// For so many connections may a member leave word.
const CONNECTIONS_MAX: usize = 65_536;
/// A process that ends its connections and itself may have done so a moment before its peers answered.
const SAID_AFTER: Duration = Duration::from_millis(30);
/// When it is said once more.
const AGAIN_AFTER: Duration = Duration::from_millis(300);
/// More than so much is not kept to be said.
const DUE_MAX: usize = 65_536;

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

    /// A member is no more: what it has left is to be said soon.
    fn begin(&mut self, member: u64, now: Duration) {
        let words_of = self.of_members.remove(&member).unwrap_or_default();
        let room = DUE_MAX.saturating_sub(self.due.len());
        let due = words_of.into_iter().take(room);
        self.due.extend(due.map(|(id, words)| (now + SAID_AFTER, id, words)));
    }

    /// The peer of a connection knows that it ends.
    pub fn settle(&mut self, member: Option<u64>, id: u32, peer: Address) {
        let words_of = member.and_then(|member| Some((member, self.of_members.get(&member)?)));
        if let Some((member, words_of)) = words_of
            && words_of.get(&id).is_some_and(|words| words.source == peer)
        {
            self.forget(member, id);
        }
        for all in [&mut self.due, &mut self.again] {
            all.retain(|(_, of, words)| *of != id || words.source != peer);
        }
    }

    /// Something that is to be said now.
    fn take_due(&mut self, now: Duration) -> Option<ManagementDatagram> {
        if self.due.front().is_some_and(|(due, ..)| *due <= now) {
            let (_, id, words) = self.due.pop_front()?;
            self.again.push_back((now + AGAIN_AFTER, id, words.clone()));
            return Some(words);
        }
        self.again.front().filter(|(due, ..)| *due <= now)?;
        self.again.pop_front().map(|(.., words)| words)
    }

    fn next(&self) -> Option<Duration> {
        let fronts = [self.due.front(), self.again.front()];
        fronts.into_iter().flatten().map(|(due, ..)| *due).min()
    }
}

impl Agent {
    /// A member is no more.
    pub(super) fn begin_farewells_of(&mut self, member: u64) {
        let now = self.now();
        self.farewells.begin(member, now);
    }

    /// Says what is due; when there is more.
    pub(super) fn say_farewells(&mut self) -> Option<Duration> {
        let now = self.now();
        while let Some(words) = self.farewells.take_due(now) {
            self.say(&words);
        }
        self.farewells.next()
    }

    fn say(&mut self, words: &ManagementDatagram) {
        let path = words.way_to_source(words.hop_limit);
        self.management.send(&path, &words.mad);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts_and_is_said_twice() {
        let mut farewells = Farewells::default();
        for (member, id, number) in [(1, 10, 1), (1, 11, 2), (1, 10, 3), (2, 10, 4)] {
            farewells.remember(member, id, ManagementDatagram::numbered(number));
        }
        farewells.forget(1, 11);
        let now = Duration::from_secs(1);
        farewells.begin(1, now);
        assert_eq!(farewells.take_due(now), None);
        assert_eq!(farewells.take_due(now + SAID_AFTER), Some(ManagementDatagram::numbered(3)));
        assert_eq!(farewells.take_due(now + SAID_AFTER), None);
        assert_eq!(
            farewells.take_due(now + SAID_AFTER + AGAIN_AFTER),
            Some(ManagementDatagram::numbered(3))
        );
        assert_eq!(farewells.next(), None);
        farewells.forget(2, 10);
        assert!(farewells.of_members.is_empty(), "nothing is left of who has nothing to say");
    }

    #[test]
    fn a_member_may_leave_so_many_and_no_more() {
        let mut farewells = Farewells::default();
        for id in 0..=CONNECTIONS_MAX as u32 {
            farewells.remember(1, id, ManagementDatagram::numbered(1));
        }
        farewells.remember(1, 0, ManagementDatagram::numbered(2));
        farewells.begin(1, Duration::ZERO);
        assert_eq!(farewells.due.len(), CONNECTIONS_MAX);
        assert_eq!(farewells.take_due(SAID_AFTER), Some(ManagementDatagram::numbered(2)));
    }

    #[test]
    fn who_has_answered_is_told_nothing() {
        let mut farewells = Farewells::default();
        for id in [10, 11, 12] {
            farewells.remember(1, id, ManagementDatagram::numbered(id as u8));
        }
        farewells.settle(Some(1), 10, Address::Lid(1));
        farewells.settle(Some(1), 12, Address::Lid(9));
        farewells.begin(1, Duration::ZERO);
        farewells.settle(None, 11, Address::Lid(1));
        assert_eq!(farewells.take_due(SAID_AFTER), Some(ManagementDatagram::numbered(12)));
        farewells.settle(None, 12, Address::Lid(1));
        assert_eq!(farewells.next(), None);
    }
}
