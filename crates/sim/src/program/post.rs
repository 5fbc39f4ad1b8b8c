//! Threads that post send work requests, and one that breaks a connection off.

use super::Stage;
use super::connect::path;
use crate::model::{Model, inline_bytes};
use crate::scenario::{Action, Fault, Scenario, WorkPlan};
use converb_engine::iba::{AttributeMask, Attributes, State};
use converb_engine::work::{
    DatagramDestination, Operation, Payload, PostError, RemoteAddress, ScatterGather, SendFlags,
    SendRequest,
};
use converb_wire::Rkey;

/// How long a program waits when a queue is full, in nanoseconds; longer each time.
pub(super) const QUEUE_FULL_PAUSE_MIN: u64 = 5_000;
pub(super) const QUEUE_FULL_PAUSE_MAX: u64 = 5_000_000;

/// Posts what an end's plan says to its send queue.
pub fn post_sends(stage: &Stage, end: usize) {
    let plan = &stage.scenario.ends[end];
    if plan.replies {
        if plan.begins {
            reply(stage, end, 0);
        }
        return;
    }
    let mut index = 0;
    for (pause, works) in &plan.sends {
        if *pause != 0 {
            stage.world.sleep(*pause);
        }
        let mut left = &works[..];
        let mut full_pause = QUEUE_FULL_PAUSE_MIN;
        while !left.is_empty() && !stage.world.is_closing() {
            let posted = post_list(stage, end, index, left);
            index += posted;
            left = &left[posted..];
            if posted != 0 {
                stage.model().took(stage.world.now());
                full_pause = QUEUE_FULL_PAUSE_MIN;
            } else {
                stage.world.sleep(full_pause);
                full_pause = (full_pause * 2).min(QUEUE_FULL_PAUSE_MAX);
            }
        }
    }
}

/// Posts the next list of an end that answers each message, of which it has received `count`.
pub fn reply(stage: &Stage, end: usize, count: usize) {
    let plan = &stage.scenario.ends[end];
    let turn = if plan.begins { count } else { count - 1 };
    if let Some((_, works)) = plan.sends.get(turn) {
        let first = plan.sends[..turn].iter().map(|(_, works)| works.len()).sum();
        let posted = post_list(stage, end, first, works);
        if posted != works.len() {
            stage.world.fail(format!("end {end}: a queue with room for everything is full"));
        }
        stage.model().took(stage.world.now());
    }
}

/// Posts one list; returns how many were taken.
fn post_list(stage: &Stage, end: usize, first: usize, works: &[WorkPlan]) -> usize {
    let seed = stage.scenario.seed;
    let inline: Vec<Vec<u8>> = works
        .iter()
        .enumerate()
        .map(|(at, work)| {
            if work.inline {
                inline_bytes(seed, end, first + at, work.length())
            } else {
                Vec::new()
            }
        })
        .collect();
    let pieces: Vec<Vec<&[u8]>> =
        works.iter().zip(&inline).map(|(work, bytes)| cut(&work.pieces, bytes)).collect();
    let lists: Vec<Vec<ScatterGather>> =
        works.iter().map(|work| entries(stage, end, work)).collect();
    let requests: Vec<SendRequest<'_>> = works
        .iter()
        .enumerate()
        .map(|(at, work)| SendRequest {
            wr_id: Model::send_number(end, first + at),
            operation: operation(stage, end, work),
            flags: SendFlags {
                fence: work.fence,
                signaled: work.signaled,
                solicited: work.solicited,
            },
            payload: if work.inline {
                Payload::Inline(&pieces[at])
            } else {
                Payload::Gather(&lists[at])
            },
            destination: destination(stage, end, work),
        })
        .collect();
    let now = stage.world.now();
    let was_resolved = {
        let mut model = stage.model();
        model.post_sends(end, works.len(), now);
        model.resolved(end)
    };
    stage.world.log(|| {
        let lines: Vec<String> = works
            .iter()
            .enumerate()
            .map(|(at, work)| format!("\n      work {}: {work:?}", first + at))
            .collect();
        format!("end {end} posts{}", lines.concat())
    });
    let node = &stage.nodes[stage.scenario.ends[end].node];
    match node.driver.post_send(&stage.ends[end].queue_pair, &requests) {
        Ok(()) => works.len(),
        Err((taken, PostError::QueueFull)) => {
            stage.world.log(|| format!("end {end}: queue full after {taken}"));
            let refused = works.len() - taken;
            stage.hold(stage.model().refuse_sends(end, refused, was_resolved));
            taken
        }
        Err((taken, error)) => {
            stage.world.fail(format!("end {end}: work {} was refused: {error:?}", first + taken));
            works.len()
        }
    }
}

fn cut<'a>(lengths: &[u32], mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
    let piece = |&length: &u32| {
        let (piece, rest) = bytes.split_at((length as usize).min(bytes.len()));
        bytes = rest;
        piece
    };
    lengths.iter().map(piece).collect()
}

/// Where a datagram goes.
fn destination(stage: &Stage, end: usize, work: &WorkPlan) -> Option<DatagramDestination> {
    let to = work.to.filter(|_| work.fault != Some(Fault::NoDestination))?;
    let ends = &stage.scenario.ends;
    Some(DatagramDestination {
        path: path(stage.scenario.family, ends[end].node, ends[to.end].node),
        qpn: stage.ends[to.end].queue_pair.qpn(),
        queue_key: to.queue_key,
    })
}

fn entries(stage: &Stage, end: usize, work: &WorkPlan) -> Vec<ScatterGather> {
    let (layout, keys) = (&stage.scenario.ends[end].layout, &stage.ends[end].keys);
    let (area, key) = if work.action.returns_data() {
        (layout.results, keys.results)
    } else {
        (layout.source, keys.source)
    };
    let lkey = if work.fault == Some(Fault::LocalKey) { key.0 ^ 0x10 } else { key.0 };
    scatter(area.address(work.offset), &work.pieces, lkey)
}

pub(super) fn scatter(mut address: u64, pieces: &[u32], lkey: u32) -> Vec<ScatterGather> {
    let entry = |&length: &u32| {
        let entry = ScatterGather { address, length, lkey };
        address += u64::from(length);
        entry
    };
    pieces.iter().map(entry).collect()
}

fn operation(stage: &Stage, end: usize, work: &WorkPlan) -> Operation {
    let peer = Scenario::peer(end);
    let (layout, keys) = (&stage.scenario.ends[peer].layout, &stage.ends[peer].keys);
    let window = |offset: u64| (layout.window_iova.wrapping_add(offset), keys.window);
    let archive = |offset: u64| (layout.archive.address(offset), keys.archive);
    let node = stage.scenario.ends[peer].node;
    let words = stage.scenario.words[node];
    let (address, key) = match work.action {
        Action::Send(None) if work.fault == Some(Fault::Invalidates) => {
            return Operation::SendWithInvalidate(keys.window);
        }
        Action::Send(None) => return Operation::Send,
        Action::Send(Some(value)) => return Operation::SendWithImmediate(value),
        Action::Write(_, _) if work.fault == Some(Fault::NoAccess) => archive(0),
        _ if work.fault == Some(Fault::NoAccess) => (layout.source.address(0), keys.source),
        Action::Write(offset, _) | Action::ReadWindow(offset) => window(offset),
        Action::ReadArchive(offset) => archive(offset),
        Action::FetchAdd { word, .. } | Action::CompareSwap { word, .. } => {
            let offset = match work.fault {
                Some(Fault::Misaligned) => 4,
                Some(Fault::OutOfBounds(excess)) => words.length - 8 + excess,
                _ => 8 * word as u64,
            };
            (words.address(offset), stage.nodes[node].words)
        }
    };
    let rkey = if work.fault == Some(Fault::UnknownKey) { Rkey(key.0 ^ 0x100) } else { key };
    let remote = RemoteAddress { address, rkey };
    match work.action {
        Action::Write(_, None) => Operation::Write(remote),
        Action::Write(_, Some(value)) => Operation::WriteWithImmediate(remote, value),
        Action::FetchAdd { add, .. } => Operation::FetchAndAdd { remote, add },
        Action::CompareSwap { compare, swap, .. } => {
            Operation::CompareAndSwap { remote, compare, swap }
        }
        _ => Operation::Read(remote),
    }
}

/// Moves an end to the error state at its time.
pub fn kill(stage: &Stage, end: usize, at: u64) {
    stage.world.sleep(at);
    if stage.world.is_closing() {
        return;
    }
    stage.model().kill(end);
    stage.world.log(|| format!("end {end} is moved to the error state"));
    let node = &stage.nodes[stage.scenario.ends[end].node];
    let new = Attributes { state: State::Error, ..Attributes::default() };
    let result = node.driver.modify(&stage.ends[end].queue_pair, &new, AttributeMask::STATE);
    if let Err(error) = result {
        stage.world.fail(format!("end {end} was not moved to the error state: {error}"));
    }
}
