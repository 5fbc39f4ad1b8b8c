//! The thread of a node that takes completions and shows them to the model.

use super::{Stage, reply};
use crate::dice::Dice;
use crate::model::{Circumstances, Model};
use crate::scenario::Style;
use crate::world::address;
use converb_engine::{Completion, Status};

/// The first pause after polling in vain, in nanoseconds.
const PAUSE_MIN: u64 = 200;
/// A program that has polled in vain for long does something else for a while.
const PAUSE_LONG: u64 = 1_000_000;
/// For how long it polls before that.
const PATIENCE: u64 = 5_000_000;

/// Takes completions until the run is over.
pub fn consume(stage: &Stage, node: usize, seed: u64) {
    match stage.scenario.nodes[node].style {
        Style::Poll { pause_max } => poll(stage, node, pause_max, &mut Dice::new(seed)),
        Style::Event => wait(stage, node, &mut Dice::new(seed)),
    }
}

fn poll(stage: &Stage, node: usize, pause_max: u64, dice: &mut Dice) {
    let mut pause = PAUSE_MIN;
    let mut last = 0;
    while !stage.world.is_closing() {
        if take(stage, node, dice.between(1, 8) as usize, dice) != 0 {
            pause = PAUSE_MIN;
            last = stage.world.now();
            continue;
        }
        let long = stage.world.now().saturating_sub(last) > PATIENCE;
        stage.world.sleep(if long { PAUSE_LONG } else { dice.between(pause / 2, pause) });
        pause = (pause * 2).min(pause_max);
    }
}

fn wait(stage: &Stage, node: usize, dice: &mut Dice) {
    let machine = &stage.nodes[node];
    let mut armed = vec![false; machine.completion_queues.len()];
    while !stage.world.is_closing() {
        for (queue, armed) in machine.completion_queues.iter().zip(&mut armed) {
            if !core::mem::replace(armed, true) {
                queue.arm(false);
            }
        }
        if take(stage, node, 4, dice) != 0 {
            continue;
        }
        machine.driver.wait_event(&machine.channel, &|| stage.world.is_closing());
        while machine.channel.signal().take() {
            match machine.channel.take_event() {
                Some(cookie) => armed[cookie as usize] = false,
                None => stage.world.fail("a channel's signal was raised without an event".into()),
            }
        }
    }
}

/// Takes completions of all queues of a node, each at most `count`; returns how many there were.
fn take(stage: &Stage, node: usize, count: usize, dice: &mut Dice) -> usize {
    let machine = &stage.nodes[node];
    let mut taken = 0;
    for queue in &machine.completion_queues {
        let mut completions = vec![Completion::default(); count];
        let count = machine.driver.poll(queue, &mut completions);
        for completion in &completions[..count] {
            if stage.world.has_failed() {
                return taken;
            }
            show(stage, node, completion);
            answer(stage, completion, dice);
        }
        taken += count;
    }
    taken
}

/// Answers a message if that is what the program does, mostly at once.
fn answer(stage: &Stage, completion: &Completion, dice: &mut Dice) {
    let (end, index, is_receive) = Model::whose(completion.wr_id);
    let Some(plan) = stage.scenario.ends.get(end).filter(|plan| plan.replies) else { return };
    if !is_receive || completion.status != Status::Success {
        return;
    }
    if dice.chance(plan.ponders) {
        stage.world.sleep(dice.pick(&[1_000, 50_000, 5_000_000]));
    }
    reply(stage, end, index + 1);
}

fn show(stage: &Stage, node: usize, completion: &Completion) {
    let (end, index, is_receive) = Model::whose(completion.wr_id);
    stage.world.log(|| {
        let what = if is_receive { "receive" } else { "work" };
        format!(
            "end {end} sees {what} {index} complete: {:?} {:?} {} bytes {:?}",
            completion.status, completion.kind, completion.byte_length, completion.extra
        )
    });
    let known = stage.scenario.ends.get(end).is_some_and(|plan| plan.node == node);
    if !known {
        return stage.world.fail(format!("a completion of nobody: {completion:?}"));
    }
    let result = stage.with_memory(node, |memory| {
        let around = Circumstances {
            memory,
            now: stage.world.now(),
            is_dead: &|end| stage.is_dead(end),
            rnr_naks: &|end, psn| {
                let qpn = stage.ends[end].queue_pair.qpn().value();
                stage.world.rnr_naks_sent(address(node), qpn, psn)
            },
        };
        let mut model = stage.model();
        if is_receive {
            model.receive_completed(end, index, completion, &around)
        } else {
            model.send_completed(end, index, completion, &around)
        }
    });
    stage.hold(result);
}
