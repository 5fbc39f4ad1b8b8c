//! What verbs promise, slow and obvious: lists of what was posted, and a check of everything that
//! comes back against them.
//!
//! For every queue pair the model keeps its work requests in order. Completions must come in that
//! order, each once, with the right codes; messages must find the receives in order; bytes must be
//! where they belong and nowhere else. Where verbs leave a choice (a READ beside later WRITEs, work
//! that was flushed halfway, a message that is not acknowledged) it allows the set of all legal
//! results. What the services have in common is in `sends.rs` and `receives.rs`; each has a file
//! for what is its own.

mod atomic;
mod connected;
mod datagram;
mod expect;
mod finish;
mod receives;
mod reliable;
mod sends;
mod window;

use crate::scenario::{Action, Fault, ReceivePlan, Scenario, WorkPlan};
use converb_engine::Status;
use converb_engine::iba::Service;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use finish::Final;

/// How a work request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody knows yet.
    Open,
    /// It completed, or a later one did.
    Success,
    /// It ended with an error.
    Failed(Status),
}

/// What the model knows about one end.
#[derive(Debug)]
struct End {
    works: Vec<WorkPlan>,
    /// How often each of them, of those that are not acknowledged, has arrived.
    arrivals: Vec<u32>,
    outcomes: Vec<Outcome>,
    posted_at: Vec<u64>,
    /// Works before this one have an outcome.
    resolved: usize,
    broken: bool,
    /// Of its receive queue, if it has one of its own or owns a shared one.
    receives: Vec<ReceivePlan>,
    receives_posted: usize,
    receive_outcomes: Vec<Option<Status>>,
    /// The last receive that the queue pair completed.
    last_receive: Option<usize>,
    receives_broken: bool,
    /// Works of the peer that ended one of our receives.
    consumed: usize,
    killed: bool,
    /// A flushed work, or the event that it takes no more receives, told of its error state.
    told: bool,
    qpn: u32,
}

/// What is known about the world when a completion is checked.
pub struct Circumstances<'a> {
    /// The memory of the node whose program sees the completion.
    pub memory: &'a [u8],
    /// Now.
    pub now: u64,
    /// Whether the queue pair of an end is in the error state.
    pub is_dead: &'a dyn Fn(usize) -> bool,
    /// How often an end was told that its peer was not ready for a packet.
    pub rnr_naks: &'a dyn Fn(usize, u32) -> u32,
}

/// The model of one run.
pub struct Model {
    scenario: Arc<Scenario>,
    ends: Vec<End>,
    /// The memory of each node at the start.
    initial: Vec<Vec<u8>>,
    /// The memory of each node as it must be at the end, as far as it is known.
    image: Vec<Vec<u8>>,
    /// Which of its bytes may be anything.
    loose: Vec<Vec<bool>>,
    /// What atomics found: by end and work.
    found: BTreeMap<(usize, usize), u64>,
    /// When something last happened.
    last_event: u64,
    completions: u64,
}

/// Marks work request numbers of receives.
const RECEIVE: u64 = 1 << 63;

impl Model {
    /// A model of a scenario whose nodes start with this memory.
    pub fn new(scenario: &Arc<Scenario>, initial: Vec<Vec<u8>>) -> Self {
        let ends = scenario.ends.iter().map(|plan| {
            let works: Vec<WorkPlan> =
                plan.sends.iter().flat_map(|(_, works)| works.clone()).collect();
            let receives: Vec<ReceivePlan> =
                plan.receives.iter().flat_map(|(_, receives)| receives.clone()).collect();
            End {
                arrivals: vec![0; works.len()],
                works,
                outcomes: Vec::new(),
                posted_at: Vec::new(),
                resolved: 0,
                broken: false,
                receive_outcomes: vec![None; receives.len()],
                receives,
                receives_posted: 0,
                last_receive: None,
                receives_broken: false,
                consumed: 0,
                killed: false,
                told: false,
                qpn: 0,
            }
        });
        let loose = initial.iter().map(|bytes| vec![false; bytes.len()]).collect();
        Self {
            scenario: Arc::clone(scenario),
            ends: ends.collect(),
            image: initial.clone(),
            initial,
            loose,
            found: BTreeMap::new(),
            last_event: 0,
            completions: 0,
        }
    }

    /// Tells the number of an end's queue pair.
    pub fn name(&mut self, end: usize, qpn: u32) {
        self.ends[end].qpn = qpn;
    }

    /// The number of the next work request of an end.
    pub fn send_number(end: usize, index: usize) -> u64 {
        (end as u64) << 32 | index as u64
    }

    /// The number of the next receive of an end.
    pub fn receive_number(end: usize, index: usize) -> u64 {
        RECEIVE | Self::send_number(end, index)
    }

    /// Whose completion this is: the end, its index there, and whether it is of a receive.
    pub fn whose(wr_id: u64) -> (usize, usize, bool) {
        let end = (wr_id & !RECEIVE) >> 32;
        (end as usize, wr_id as u32 as usize, wr_id & RECEIVE != 0)
    }

    /// The next `count` work requests are about to be posted.
    pub fn post_sends(&mut self, end: usize, count: usize, now: u64) {
        let end = &mut self.ends[end];
        for _ in 0..count {
            end.outcomes.push(Outcome::Open);
            end.posted_at.push(now);
        }
    }

    /// The last `count` of them were refused because the queue was full.
    ///
    /// # Errors
    /// When there was room without doubt.
    pub fn refuse_sends(
        &mut self,
        end: usize,
        count: usize,
        was_resolved: usize,
    ) -> Result<(), String> {
        let capacity = self.scenario.ends[end].send_capacity;
        let state = &mut self.ends[end];
        let posted = state.outcomes.len() - count;
        state.outcomes.truncate(posted);
        state.posted_at.truncate(posted);
        if posted - was_resolved < capacity {
            return Err(format!(
                "end {end}: the send queue was called full with {} of {capacity} in it",
                posted - was_resolved
            ));
        }
        Ok(())
    }

    /// How many work requests of an end have an outcome.
    pub fn resolved(&self, end: usize) -> usize {
        self.ends[end].resolved
    }

    /// How many receives of the queue of an end have completed.
    pub fn receives_resolved(&self, end: usize) -> usize {
        self.ends[end].receive_outcomes.iter().flatten().count()
    }

    /// How many receives were posted to the queue of an end, and how many of them have completed.
    pub fn receives(&self, end: usize) -> (usize, usize) {
        (self.ends[end].receives_posted, self.receives_resolved(end))
    }

    /// The next `count` receives are about to be posted.
    pub fn post_receives(&mut self, end: usize, count: usize) {
        self.ends[end].receives_posted += count;
    }

    /// The last `count` of them were refused because the queue was full.
    ///
    /// # Errors
    /// When there was room without doubt.
    pub fn refuse_receives(
        &mut self,
        end: usize,
        count: usize,
        was_resolved: usize,
    ) -> Result<(), String> {
        let capacity = self.scenario.ends[end].receive_capacity;
        let state = &mut self.ends[end];
        state.receives_posted -= count;
        let there = state.receives_posted - was_resolved;
        if there < capacity {
            return Err(format!(
                "end {end}: the receive queue was called full with {there} of {capacity} in it"
            ));
        }
        Ok(())
    }

    /// Something that was posted was taken.
    pub fn took(&mut self, now: u64) {
        self.last_event = now;
    }

    /// The program is about to move an end to the error state.
    pub fn kill(&mut self, end: usize) {
        self.ends[end].killed = true;
    }

    /// An event says that the queue pair of an end, which takes from a shared queue, has failed:
    /// none of its receives will be flushed to show it.
    pub fn tell_failed(&mut self, end: usize) {
        self.ends[end].told = true;
    }

    /// When a program last posted something or saw something complete.
    pub fn last_event(&self) -> u64 {
        self.last_event
    }

    /// Completions checked so far.
    pub fn completions(&self) -> u64 {
        self.completions
    }

    /// The bytes that a work request carries.
    pub fn payload(&self, end: usize, index: usize) -> Vec<u8> {
        let work = &self.ends[end].works[index];
        if work.inline {
            return inline_bytes(self.scenario.seed, end, index, work.length());
        }
        let plan = &self.scenario.ends[end];
        let start = (plan.layout.source.start + work.offset) as usize;
        self.initial[plan.node][start..start + work.length() as usize].to_vec()
    }

    fn service(&self, end: usize) -> Service {
        self.scenario.ends[end].service
    }

    fn is_reliable(&self, end: usize) -> bool {
        self.service(end) == Service::ReliableConnection
    }

    fn signals(&self, end: usize, index: usize) -> bool {
        self.scenario.ends[end].signal_all || self.ends[end].works[index].signaled
    }

    /// The works of an end that end a receive of its peer, in order.
    fn consuming(&self, end: usize) -> impl Iterator<Item = usize> + '_ {
        let works = self.ends[end].works.iter().enumerate();
        works.filter(|(_, work)| work.action.consumes_receive()).map(|(index, _)| index)
    }
}

/// The inline bytes of a work request.
pub fn inline_bytes(seed: u64, end: usize, index: usize, length: u32) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    crate::dice::Dice::new(seed ^ Model::send_number(end + 1, index)).fill(&mut bytes);
    bytes
}

/// Whether a fault makes the peer's half of a reliable connection fail.
const fn breaks_peer(fault: Fault) -> bool {
    !matches!(fault, Fault::LocalKey)
}

/// Whether a fault is noticed by the sender before anything is sent.
const fn stays_at_home(fault: Fault) -> bool {
    matches!(fault, Fault::LocalKey | Fault::TooLong | Fault::NoDestination)
}

const fn is_window_write(action: Action) -> bool {
    matches!(action, Action::Write(..))
}
