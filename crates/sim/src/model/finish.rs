//! When a run is over, and what must hold then.

use super::{Model, Outcome};
use crate::scenario::Scenario;

/// How a run was left.
pub struct Final<'a> {
    /// The memory of each node.
    pub memories: &'a [Vec<u8>],
    /// Which ends are in the error state.
    pub dead: &'a [bool],
}

impl Model {
    /// Whether nothing more has to come, once the programs have posted everything.
    pub fn is_finished(&self) -> bool {
        (0..self.ends.len()).all(|end| self.open(end, self.looks_dead(end)).is_none())
    }

    /// What has not happened yet.
    pub fn still_open(&self) -> String {
        let open = |end| self.open(end, self.looks_dead(end));
        let lines: Vec<String> = (0..self.ends.len()).filter_map(open).collect();
        lines.join("; ")
    }

    fn looks_dead(&self, end: usize) -> bool {
        let state = &self.ends[end];
        state.broken || state.receives_broken || state.killed
    }

    fn open(&self, end: usize, dead: bool) -> Option<String> {
        let state = &self.ends[end];
        let posted = state.outcomes.len();
        if posted < state.works.len() {
            return Some(format!("end {end} has posted {posted} of {} works", state.works.len()));
        }
        let last = (state.resolved..posted).rev().find(|&index| dead || self.signals(end, index));
        if let Some(index) = last {
            let first = state.resolved;
            return Some(format!("end {end} waits for completions of works {first} to {index}"));
        }
        let completed = state.receive_outcomes.len();
        if dead && completed < state.receives_posted {
            return Some(format!("end {end} waits for the flush of receive {completed}"));
        }
        let peer = Scenario::peer(end);
        let needed = if dead || self.looks_dead(peer) {
            // What the peer knows to have arrived has completed a receive here.
            let succeeded = |index: &usize| self.ends[peer].outcomes[*index] == Outcome::Success;
            self.consuming(peer)
                .take_while(|&index| index < self.ends[peer].outcomes.len())
                .filter(succeeded)
                .count()
        } else {
            self.consuming(peer).count()
        };
        (state.consumed < needed)
            .then(|| format!("end {end} has received {} of {needed} messages", state.consumed))
    }

    /// Checks what must hold when everything has come to rest.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check_final(&mut self, end_state: &Final<'_>) -> Result<(), String> {
        for end in 0..self.ends.len() {
            if let Some(open) = self.open(end, end_state.dead[end]) {
                return Err(format!("at the end {open}"));
            }
            if !end_state.dead[end] && self.looks_dead(end) {
                return Err(format!("end {end} saw errors but is not in the error state"));
            }
        }
        for end in 0..self.ends.len() {
            let target = &self.scenario.ends[Scenario::peer(end)];
            let window = target.layout.window.range();
            let node = target.node;
            self.check_final_window(end, &end_state.memories[node][window.clone()])
                .map_err(|why| format!("after everything has ended, {why}"))?;
            self.loose[node][window].fill(true);
            self.loosen_unfinished(end);
        }
        for (node, memory) in end_state.memories.iter().enumerate() {
            let (image, loose) = (&self.image[node], &self.loose[node]);
            let wrong = (0..memory.len()).find(|&at| memory[at] != image[at] && !loose[at]);
            if let Some(at) = wrong {
                return Err(format!(
                    "byte {at} of node {node}'s memory, which nobody may touch, was changed: {}",
                    self.place(node, at as u64)
                ));
            }
        }
        Ok(())
    }

    /// READs that failed and a receive that a broken message may have begun to fill.
    fn loosen_unfinished(&mut self, end: usize) {
        let plan = &self.scenario.ends[end];
        let state = &self.ends[end];
        for (index, work) in state.works.iter().enumerate() {
            let failed = matches!(state.outcomes.get(index), Some(Outcome::Failed(_)));
            if failed && work.action.is_read() {
                let start = (plan.layout.results.start + work.offset) as usize;
                self.loose[plan.node][start..start + work.length() as usize].fill(true);
            }
        }
        let next = state.receive_outcomes.len();
        if self.looks_dead(Scenario::peer(end)) && next < state.receives_posted {
            self.loosen_receive(end, next);
        }
    }

    /// Where a byte of a node's memory is, in words.
    fn place(&self, node: usize, at: u64) -> String {
        for (end, plan) in
            self.scenario.ends.iter().enumerate().filter(|(_, plan)| plan.node == node)
        {
            let layout = &plan.layout;
            let spans = [
                ("source", layout.source),
                ("results", layout.results),
                ("window", layout.window),
                ("archive", layout.archive),
            ];
            for (name, span) in spans {
                if (span.start..span.start + span.length).contains(&at) {
                    return format!("byte {} of the {name} of end {end}", at - span.start);
                }
            }
        }
        "between the regions".into()
    }
}
