//! Shared receive queues: the queue pairs of a node take from the queue of the first of them.

use super::draw_lists;
use super::unreliable::draw_receive;
use crate::dice::Dice;
use crate::scenario::{EndPlan, Fault, ROUTE_LENGTH, ReceivePlan};

/// Makes the ends of each node share one receive queue, or most of them.
pub(super) fn share_receives(dice: &mut Dice, ends: &mut [EndPlan], nodes: usize) {
    for node in 0..nodes {
        let here = |&end: &usize| ends[end].node == node;
        let takers: Vec<usize> =
            (0..ends.len()).filter(here).filter(|_| dice.chance(900)).collect();
        let Some(&owner) = takers.first() else { continue };
        let receives = collect_receives(dice, ends, &takers);
        for &taker in &takers {
            ends[taker].takes_from = owner;
            ends[taker].receives = Vec::new();
            forget_receive_faults(&mut ends[taker ^ 1]);
        }
        post_somehow(dice, &mut ends[owner], receives);
    }
}

/// Which message finds which receive is not known, so that each takes the longest, and there are
/// enough: an end that fails, or waits for the rest of a message, keeps one.
fn collect_receives(dice: &mut Dice, ends: &[EndPlan], takers: &[usize]) -> Vec<ReceivePlan> {
    let (mut count, mut longest) = (takers.len() as u64 + dice.below(3), 0);
    for (index, end) in ends.iter().enumerate() {
        for work in end.sends.iter().flat_map(|(_, works)| works) {
            let to = work.to.map_or(index ^ 1, |to| to.end);
            if takers.contains(&to) && work.action.consumes_receive() {
                let (copies, needed) = match work.to {
                    Some(_) => (2, ROUTE_LENGTH + work.length().min(end.port_mtu)),
                    None => (1, work.length()),
                };
                count += copies;
                longest = longest.max(needed);
            }
        }
    }
    (0..count).map(|_| draw_receive(dice, u64::from(longest))).collect()
}

/// A fault of a receive belongs to one message, which a shared queue does not tell.
fn forget_receive_faults(end: &mut EndPlan) {
    for work in end.sends.iter_mut().flat_map(|(_, works)| works) {
        if matches!(work.fault, Some(Fault::ReceiveTooShort | Fault::ReceiveKey)) {
            work.fault = None;
        }
    }
}

fn post_somehow(dice: &mut Dice, owner: &mut EndPlan, receives: Vec<ReceivePlan>) {
    owner.is_ready_early = dice.chance(400);
    if owner.is_ready_early {
        owner.receive_capacity = receives.len();
        owner.receives = vec![(0, receives)];
    } else {
        owner.receive_capacity = dice.pick(&[2, 4, 8, 16]);
        let late = dice.pick(&[0, 20_000, 300_000]);
        owner.receives = draw_lists(dice, receives, late);
    }
    let most = owner.receive_capacity as u64;
    owner.shared = Some(if dice.chance(800) { dice.between(1, most) as usize } else { 0 });
}
