//! Atomics: each is executed once, and there is an order of all of them, in which each requester's
//! keep their own, that explains what every one of them found and what is left at the end.

use super::{Model, Outcome};
use crate::scenario::{Action, Fault, Scenario};
use std::collections::BTreeSet;

/// An atomic of a requester.
#[derive(Clone, Copy)]
struct Operation {
    action: Action,
    /// What it found; `None` if it failed, so that nobody knows whether it was executed.
    found: Option<u64>,
}

impl Operation {
    /// What it makes of a word.
    fn apply(self, old: u64) -> u64 {
        match self.action {
            Action::FetchAdd { add, .. } => old.wrapping_add(add),
            Action::CompareSwap { compare, swap, .. } if old == compare => swap,
            _ => old,
        }
    }
}

impl Model {
    /// An atomic succeeded and brought this.
    pub(super) fn note_found(
        &mut self,
        end: usize,
        index: usize,
        bytes: &[u8],
    ) -> Result<(), String> {
        let bytes: [u8; 8] = bytes.try_into().map_err(|_| "it is not of eight bytes")?;
        self.found.insert((end, index), u64::from_ne_bytes(bytes));
        Ok(())
    }

    /// Checks the words of all nodes after everything has ended.
    pub(super) fn check_words(&mut self, memories: &[Vec<u8>]) -> Result<(), String> {
        for (node, memory) in memories.iter().enumerate() {
            let span = self.scenario.words[node];
            for (word, start) in span.range().step_by(8).enumerate() {
                let read = |memory: &[u8]| {
                    let bytes = memory[start..start + 8].try_into();
                    u64::from_ne_bytes(bytes.expect("they are eight bytes"))
                };
                let (first, last) = (read(&self.initial[node]), read(memory));
                let requesters = self.requesters(node, word);
                if !explains(&requesters, first, last) {
                    return Err(format!(
                        "no order of the atomics on word {word} of node {node} explains what they \
                         found and how it went from {first:x} to {last:x}"
                    ));
                }
            }
            self.loose[node][span.range()].fill(true);
        }
        Ok(())
    }

    /// The atomics on a word that were executed, or may have been, by requester.
    fn requesters(&self, node: usize, word: usize) -> Vec<Vec<Operation>> {
        let mut requesters = Vec::new();
        for (end, state) in self.ends.iter().enumerate() {
            if self.scenario.ends[Scenario::peer(end)].node != node {
                continue;
            }
            let mut operations = Vec::new();
            for (index, outcome) in state.outcomes.iter().enumerate() {
                let work = &state.works[index];
                if work.action.word() != Some(word) {
                    continue;
                }
                // Its result is not wanted at home, but it is executed.
                let is_sound = matches!(work.fault, None | Some(Fault::LocalKey));
                let is_possible = is_sound && !self.certainly_not_executed(end, index);
                let found = self.found.get(&(end, index)).copied();
                if found.is_some() || (is_possible && matches!(outcome, Outcome::Failed(_))) {
                    operations.push(Operation { action: work.action, found });
                }
            }
            requesters.push(operations);
        }
        requesters
    }
}

/// Whether an order of operations leads from one value to another: a search of all orders that
/// keep each requester's own.
fn explains(requesters: &[Vec<Operation>], first: u64, last: u64) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![(first, vec![0; requesters.len()])];
    while let Some((value, done)) = open.pop() {
        if !seen.insert((value, done.clone())) {
            continue;
        }
        let is_done = |(operations, &done): (&Vec<Operation>, &usize)| {
            operations[done..].iter().all(|operation| operation.found.is_none())
        };
        if value == last && requesters.iter().zip(&done).all(is_done) {
            return true;
        }
        for (requester, operations) in requesters.iter().enumerate() {
            let Some(operation) = operations.get(done[requester]) else { continue };
            if operation.found.is_none_or(|found| found == value) {
                let mut done = done.clone();
                done[requester] += 1;
                open.push((operation.apply(value), done));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(add: u64, found: Option<u64>) -> Operation {
        Operation { action: Action::FetchAdd { word: 0, add }, found }
    }

    fn swap(compare: u64, swap: u64, found: Option<u64>) -> Operation {
        Operation { action: Action::CompareSwap { word: 0, compare, swap }, found }
    }

    #[test]
    fn interleaved_requesters_are_explained_and_lost_updates_are_not() {
        let right = [vec![add(5, Some(10)), add(1, Some(35))], vec![add(20, Some(15))]];
        assert!(explains(&right, 10, 36));
        assert!(!explains(&right, 10, 31));
        let lost = [vec![add(5, Some(10))], vec![add(20, Some(10))]];
        assert!(!explains(&lost, 10, 30));
        let twice = [vec![add(5, Some(10))]];
        assert!(!explains(&twice, 10, 20));
    }

    #[test]
    fn a_requester_keeps_its_order() {
        assert!(explains(&[vec![add(1, Some(0)), swap(1, 9, Some(1))]], 0, 9));
        assert!(!explains(&[vec![swap(1, 9, Some(1)), add(1, Some(0))]], 0, 9));
    }

    #[test]
    fn what_failed_may_have_been_executed_or_not() {
        let failed = [vec![add(5, Some(0)), add(7, None)], vec![swap(12, 1, None)]];
        for last in [5, 12, 1] {
            assert!(explains(&failed, 0, last), "{last}");
        }
        assert!(!explains(&failed, 0, 7));
    }
}
