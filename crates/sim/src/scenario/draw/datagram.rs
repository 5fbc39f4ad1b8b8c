//! Queue pairs that send datagrams to each other.

use super::unreliable::{draw_receive, give_receives};
use super::{INLINE_MAX, draw_lists, split};
use crate::dice::Dice;
use crate::scenario::{
    Action, Destination, EndPlan, Fault, OWN_KEY, ROUTE_LENGTH, ReceivePlan, WorkPlan,
};
use converb_engine::iba::Service;

/// Queue pairs, each of which may send to each, itself included.
pub(super) fn draw_ends(dice: &mut Dice, nodes: usize) -> Vec<EndPlan> {
    let count = dice.pick(&[2, 2, 4, 6]);
    let port_mtu = dice.pick(&[256, 1024, 4096]);
    let has_faults = dice.chance(300);
    let keys = [0x1111_1111, dice.next() as u32 & !OWN_KEY];
    let mut ends: Vec<EndPlan> = (0..count)
        .map(|index| EndPlan {
            node: index % nodes,
            service: Service::UnreliableDatagram,
            port_mtu,
            queue_key: if dice.chance(700) { keys[0] } else { keys[1] },
            send_psn: dice.pick(&[0, 100, 0xff_ffff]),
            send_capacity: dice.pick(&[1, 4, 8, 32]),
            receive_capacity: dice.pick(&[4, 16]),
            signal_all: dice.chance(150),
            killed_at: (has_faults && dice.chance(100)).then(|| dice.below(400_000)),
            ..EndPlan::default()
        })
        .collect();
    let own: Vec<u32> = ends.iter().map(|end| end.queue_key).collect();
    let is_many = dice.chance(300);
    for end in &mut ends {
        let works = if is_many { 120 } else { dice.pick(&[0, 1, 4, 12, 24]) };
        let mut plans: Vec<WorkPlan> =
            (0..works).map(|_| draw_work(dice, &own, port_mtu)).collect();
        if has_faults && dice.chance(300) && !plans.is_empty() {
            let at = dice.below(plans.len() as u64) as usize;
            plant_fault(dice, &mut plans[at], port_mtu);
        }
        if let Some(last) = plans.last_mut() {
            last.signaled = true;
        }
        let late = if dice.chance(500) { 0 } else { 100_000 };
        end.sends = draw_lists(dice, plans, late);
    }
    for index in 0..count {
        let receives = receives_for(dice, &ends, index, has_faults);
        give_receives(dice, &mut ends[index], receives);
    }
    ends
}

fn draw_work(dice: &mut Dice, keys: &[u32], port_mtu: u32) -> WorkPlan {
    let mtu = u64::from(port_mtu);
    let length = match dice.below(4) {
        0 => dice.pick(&[0, 1, 8, mtu - 1, mtu]),
        1 => dice.between(0, INLINE_MAX as u64),
        _ => dice.below(mtu + 1),
    };
    let end = dice.below(keys.len() as u64) as usize;
    let queue_key = match dice.below(10) {
        0 => dice.next() as u32 & !OWN_KEY,
        1 => OWN_KEY | keys[end],
        2 => OWN_KEY,
        _ => keys[end],
    };
    WorkPlan {
        action: Action::Send(dice.chance(500).then(|| dice.next() as u32)),
        pieces: split(dice, length),
        offset: 0,
        inline: length as usize <= INLINE_MAX && dice.chance(500),
        signaled: dice.chance(600),
        fence: false,
        solicited: dice.chance(100),
        fault: None,
        to: Some(Destination { end, queue_key }),
    }
}

fn plant_fault(dice: &mut Dice, work: &mut WorkPlan, port_mtu: u32) {
    let fault = dice.pick(&[Fault::TooLong, Fault::NoDestination, Fault::LocalKey]);
    if fault == Fault::TooLong {
        work.inline = false;
        let length = u64::from(port_mtu) + dice.between(1, 100);
        work.pieces = split(dice, length);
    } else if fault == Fault::LocalKey && (work.inline || work.length() == 0) {
        return;
    }
    work.fault = Some(fault);
}

/// Receives for everything that anybody sends to an end, also if the network doubles it.
fn receives_for(
    dice: &mut Dice,
    ends: &[EndPlan],
    to: usize,
    has_faults: bool,
) -> Vec<ReceivePlan> {
    let works = ends.iter().flat_map(|end| &end.sends).flat_map(|(_, works)| works);
    let lengths = works.filter(|work| work.to.is_some_and(|to_whom| to_whom.end == to));
    let lengths: Vec<u32> = lengths.map(WorkPlan::length).collect();
    let longest = u64::from(lengths.iter().copied().max().unwrap_or(0).min(ends[to].port_mtu));
    let count = 2 * lengths.len();
    let needed = u64::from(ROUTE_LENGTH) + longest;
    let mut plans: Vec<ReceivePlan> = (0..count).map(|_| draw_receive(dice, needed)).collect();
    if has_faults && count != 0 && dice.chance(200) {
        let spoilt = dice.below(count as u64) as usize;
        plans[spoilt] = if dice.chance(500) {
            ReceivePlan { bad_key: true, ..draw_receive(dice, needed) }
        } else {
            let capacity = dice.below(needed);
            ReceivePlan { pieces: split(dice, capacity), offset: 0, bad_key: false }
        };
    }
    plans
}
