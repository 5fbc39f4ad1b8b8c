//! Threads that post receives, to the queue of one queue pair or to a shared one.

use super::Stage;
use super::post::{QUEUE_FULL_PAUSE_MAX, QUEUE_FULL_PAUSE_MIN, scatter};
use crate::model::Model;
use crate::scenario::ReceivePlan;
use converb_engine::work::{PostError, ReceiveRequest, ScatterGather};

/// Posts what an end's plan says to its receive queue.
pub fn post_receives(stage: &Stage, end: usize) {
    let mut index = 0;
    arm(stage, end, index);
    for (pause, receives) in &stage.scenario.ends[end].receives {
        if *pause != 0 {
            stage.world.sleep(*pause);
        }
        let mut left = &receives[..];
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
        if stage.events.has_come(end) {
            arm(stage, end, index);
        }
    }
}

/// Arms the limit event of a shared queue.
fn arm(stage: &Stage, end: usize, posted: usize) {
    if let (Some(queue), Some(limit)) =
        (&stage.ends[end].shared, stage.scenario.ends[end].shared.filter(|&limit| limit != 0))
    {
        stage.world.log(|| format!("end {end} arms the limit {limit} of its shared queue"));
        stage.events.arm(end, posted);
        queue.set_limit(limit);
    }
}

fn post_list(stage: &Stage, end: usize, first: usize, plans: &[ReceivePlan]) -> usize {
    let results = stage.scenario.ends[end].layout.results;
    let key = stage.ends[end].keys.results.0;
    let lists: Vec<Vec<ScatterGather>> = plans
        .iter()
        .map(|plan| {
            let lkey = if plan.bad_key { key ^ 0x10 } else { key };
            scatter(results.address(plan.offset), &plan.pieces, lkey)
        })
        .collect();
    let requests: Vec<ReceiveRequest<'_>> = lists
        .iter()
        .enumerate()
        .map(|(at, list)| ReceiveRequest {
            wr_id: Model::receive_number(end, first + at),
            scatter: list,
        })
        .collect();
    let was_resolved = {
        let mut model = stage.model();
        model.post_receives(end, plans.len());
        model.receives_resolved(end)
    };
    stage.world.log(|| format!("end {end} posts receives {first} to {}", first + plans.len() - 1));
    let node = &stage.nodes[stage.scenario.ends[end].node];
    let posted = match &stage.ends[end].shared {
        Some(queue) => queue.post(&requests),
        None => node.driver.post_receive(&stage.ends[end].queue_pair, &requests),
    };
    match posted {
        Ok(()) => plans.len(),
        Err((taken, PostError::QueueFull)) => {
            let refused = plans.len() - taken;
            stage.world.log(|| format!("end {end}: receive queue full after {taken}"));
            stage.hold(stage.model().refuse_receives(end, refused, was_resolved));
            taken
        }
        Err((taken, error)) => {
            stage
                .world
                .fail(format!("end {end}: receive {} was refused: {error:?}", first + taken));
            plans.len()
        }
    }
}
