//! When a run is over, and what must hold then.

use super::{Model, Outcome};
use crate::scenario::Scenario;
use converb_engine::iba::Service;

/// How a run was left.
pub struct Final<'a> {
    /// The memory of each node.
    pub memories: &'a [Vec<u8>],
    /// Which ends are in the error state.
    pub dead: &'a [bool],
    /// How many datagrams each node has refused for their Q_Key.
    pub wrong_keys: &'a [u64],
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

    /// Whether a program knows that a queue pair is in the error state. Errors of sending stop
    /// just the send queue where nothing is acknowledged.
    pub(super) fn looks_dead(&self, end: usize) -> bool {
        let state = &self.ends[end];
        (state.broken && self.is_reliable(end))
            || state.receives_broken
            || state.killed
            || state.told
    }

    fn open(&self, end: usize, dead: bool) -> Option<String> {
        let state = &self.ends[end];
        let posted = state.outcomes.len();
        if posted < state.works.len() {
            return Some(format!("end {end} has posted {posted} of {} works", state.works.len()));
        }
        let flushed = dead || state.broken;
        let last =
            (state.resolved..posted).rev().find(|&index| flushed || self.signals(end, index));
        if let Some(index) = last {
            let first = state.resolved;
            return Some(format!("end {end} waits for completions of works {first} to {index}"));
        }
        let completed = self.receives_resolved(end);
        let is_shared = self.scenario.ends[self.scenario.ends[end].takes_from].shared.is_some();
        if dead && !is_shared && completed < state.receives_posted {
            return Some(format!("end {end} waits for the flush of receive {completed}"));
        }
        let peer = Scenario::peer(end);
        let needed = if !self.is_reliable(end) {
            self.sure_to_arrive(end, dead)
        } else if dead || self.looks_dead(peer) {
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

    /// How many messages must arrive at an end although nobody acknowledges them.
    fn sure_to_arrive(&self, end: usize, dead: bool) -> usize {
        let queue = self.scenario.ends[end].takes_from;
        let is_ready = self.scenario.ends[queue].is_ready_early && !dead;
        if !is_ready || !self.scenario.loses_nothing() {
            return 0;
        }
        let arrive = |sender: usize| {
            (0..self.ends[sender].works.len()).filter(move |&index| {
                let work = &self.ends[sender].works[index];
                let failed = self.ends[sender].outcomes.get(index);
                let is_sent = !matches!(failed, Some(Outcome::Failed(_)));
                let is_let_in = work.to.is_none() || self.is_addressed(sender, index, end);
                let is_ours = self.goes_to(sender, index) == end;
                let is_sound = work.fault.is_none() && work.action.consumes_receive();
                is_sent && is_ours && is_sound && is_let_in
            })
        };
        (0..self.ends.len()).flat_map(arrive).count()
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
        self.check_words(end_state.memories)?;
        for (node, &refused) in end_state.wrong_keys.iter().enumerate() {
            let (least, most) = self.refused_keys(node);
            if !(least..=most).contains(&refused) {
                return Err(format!(
                    "node {node} has refused {refused} datagrams for their Q_Key, not {least} to \
                     {most}"
                ));
            }
        }
        for end in 0..self.ends.len() {
            self.check_unsent(end)?;
            self.check_shared_order(end)?;
            let target = &self.scenario.ends[Scenario::peer(end)];
            let window = target.layout.window.range();
            let node = target.node;
            let got = &end_state.memories[node][window.clone()];
            let result = if self.is_reliable(end) {
                self.check_final_window(end, got)
            } else {
                self.check_final_lossy_window(end, got)
            };
            result.map_err(|why| format!("after everything has ended, {why}"))?;
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

    /// A work that is not acknowledged and failed was not sent, so that it cannot have arrived.
    fn check_unsent(&self, end: usize) -> Result<(), String> {
        let state = &self.ends[end];
        let failed = |&index: &usize| {
            matches!(state.outcomes[index], Outcome::Failed(_)) && state.arrivals[index] != 0
        };
        match (0..state.outcomes.len()).find(failed) {
            Some(index) => Err(format!("work {index} of end {end} failed, but has arrived")),
            None => Ok(()),
        }
    }

    /// How many queue pairs may have taken a receive of the queue of `owner` and wait for the rest
    /// of its message: it was lost, or the peer has failed.
    pub fn keepers(&self, owner: usize) -> usize {
        let keeps = |&taker: &usize| match self.service(taker) {
            Service::ReliableConnection => self.looks_dead(Scenario::peer(taker)),
            Service::UnreliableConnection => true,
            Service::UnreliableDatagram => false,
        };
        self.scenario.takers(owner).filter(keeps).count()
    }

    /// The receives of a shared queue were taken in order: all that are missing in front of the
    /// last are kept.
    fn check_shared_order(&self, owner: usize) -> Result<(), String> {
        if self.scenario.ends[owner].shared.is_none() {
            return Ok(());
        }
        let outcomes = &self.ends[owner].receive_outcomes;
        let end = outcomes.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let missing = outcomes[..end].iter().filter(|outcome| outcome.is_none()).count();
        let keepers = self.keepers(owner);
        if missing > keepers {
            return Err(format!(
                "of the receives that end {owner} shares, {missing} were passed over, but only \
                 {keepers} may be waiting"
            ));
        }
        Ok(())
    }

    /// READs that failed, and receives that a message may have begun to fill.
    fn loosen_unfinished(&mut self, end: usize) {
        let plan = &self.scenario.ends[end];
        let state = &self.ends[end];
        for (index, work) in state.works.iter().enumerate() {
            let failed = matches!(state.outcomes.get(index), Some(Outcome::Failed(_)));
            if failed && work.action.returns_data() {
                let start = (plan.layout.results.start + work.offset) as usize;
                self.loose[plan.node][start..start + work.length() as usize].fill(true);
            }
        }
        // Of a shared queue any may be, of one queue pair's own the next.
        let queue = plan.takes_from;
        let is_shared = self.scenario.ends[queue].shared.is_some();
        let is_broken_off = self.looks_dead(Scenario::peer(end)) || !self.is_reliable(end);
        let posted = self.ends[queue].receives_posted;
        let open = |&index: &usize| self.ends[queue].receive_outcomes[index].is_none();
        let open: Vec<usize> = (0..posted)
            .filter(open)
            .take(if is_shared { posted } else { 1 })
            .filter(|_| is_broken_off)
            .collect();
        for index in open {
            self.loosen_receive(queue, index);
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
