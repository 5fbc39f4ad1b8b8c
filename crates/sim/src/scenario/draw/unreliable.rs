//! Unreliable connections: SEND and WRITE, with and without immediate data.

use super::{INLINE_MAX, draw_length, draw_lists, split};
use crate::dice::Dice;
use crate::scenario::{Action, EndPlan, Fault, ReceivePlan, WorkPlan};
use converb_engine::iba::{Mtu, Service};

/// Two ends of an unreliable connection.
pub(super) fn draw_connection(dice: &mut Dice, nodes: usize) -> [EndPlan; 2] {
    let mtu = dice.pick(&[Mtu::Bytes256, Mtu::Bytes512, Mtu::Bytes1024, Mtu::Bytes4096]);
    let has_faults = dice.chance(250);
    let longest = if dice.chance(150) { 64 } else { 8 };
    let mut ends = [0, 1].map(|side| EndPlan {
        node: side % nodes,
        service: Service::UnreliableConnection,
        mtu,
        send_psn: dice.pick(&[0, 100, 0x7f_fff8, 0xff_fff0, 0xff_ffff]),
        send_capacity: dice.pick(&[1, 4, 8, 32]),
        receive_capacity: dice.pick(&[4, 16]),
        signal_all: dice.chance(150),
        sends: draw_works(dice, u64::from(mtu.bytes()), longest),
        killed_at: (has_faults && dice.chance(200)).then(|| dice.below(400_000)),
        ..EndPlan::default()
    });
    for end in &mut ends {
        if has_faults && dice.chance(500) {
            plant_fault(dice, end);
        }
    }
    for side in 0..2 {
        let receives = receives_for(dice, &ends[side ^ 1], has_faults);
        give_receives(dice, &mut ends[side], receives);
    }
    ends
}

fn draw_works(dice: &mut Dice, mtu: u64, longest: u64) -> Vec<(u64, Vec<WorkPlan>)> {
    let count = dice.pick(&[0, 1, 3, 8, 16, 24]);
    let late = if dice.chance(500) { 0 } else { 100_000 };
    let works = (0..count).map(|_| draw_work(dice, mtu, longest)).collect();
    let mut lists = draw_lists(dice, works, late);
    // So that the end of everything is seen.
    if let Some(last) =
        lists.last_mut().and_then(|(_, works): &mut (u64, Vec<WorkPlan>)| works.last_mut())
    {
        last.signaled = true;
    }
    lists
}

fn draw_work(dice: &mut Dice, mtu: u64, longest: u64) -> WorkPlan {
    let length = if longest > 8 && dice.chance(500) {
        dice.below(longest * mtu)
    } else {
        draw_length(dice, mtu)
    };
    let immediate = dice.chance(500).then(|| dice.next() as u32);
    let action =
        if dice.chance(500) { Action::Send(immediate) } else { Action::Write(0, immediate) };
    WorkPlan {
        action,
        pieces: split(dice, length),
        offset: 0,
        inline: length as usize <= INLINE_MAX && dice.chance(500),
        signaled: dice.chance(600),
        fence: dice.chance(100),
        solicited: dice.chance(100),
        fault: None,
        to: None,
    }
}

fn plant_fault(dice: &mut Dice, end: &mut EndPlan) {
    let works = end.sends.iter_mut().flat_map(|(_, works)| works);
    let mut fit: Vec<&mut WorkPlan> = works.filter(|work| work.length() != 0).collect();
    if fit.is_empty() {
        return;
    }
    let index = dice.below(fit.len() as u64) as usize;
    let work = &mut *fit[index];
    let choices: &[Fault] = match (work.action, work.inline) {
        (Action::Write(..), true) => {
            &[Fault::UnknownKey, Fault::OutOfBounds(1), Fault::OutOfBounds(40), Fault::NoAccess]
        }
        (Action::Write(..), false) => {
            &[Fault::UnknownKey, Fault::OutOfBounds(8), Fault::NoAccess, Fault::LocalKey]
        }
        (_, true) => return,
        _ => &[Fault::LocalKey],
    };
    work.fault = Some(dice.pick(choices));
}

/// Receives for everything that a peer sends: which message finds which is not known, so that
/// each takes the longest; one may be spoilt.
fn receives_for(dice: &mut Dice, peer: &EndPlan, has_faults: bool) -> Vec<ReceivePlan> {
    let works = || peer.sends.iter().flat_map(|(_, works)| works);
    let count = works().filter(|work| work.action.consumes_receive()).count();
    let longest = works().filter(|work| matches!(work.action, Action::Send(_)));
    let longest = u64::from(longest.map(WorkPlan::length).max().unwrap_or(0));
    let count = count as u64 + dice.below(3);
    let mut plans: Vec<ReceivePlan> = (0..count).map(|_| draw_receive(dice, longest)).collect();
    if has_faults && count != 0 && dice.chance(300) {
        let spoilt = dice.below(count) as usize;
        plans[spoilt] = if longest == 0 || dice.chance(500) {
            ReceivePlan { bad_key: true, ..draw_receive(dice, longest.max(1)) }
        } else {
            let capacity = dice.below(longest);
            ReceivePlan { pieces: split(dice, capacity), offset: 0, bad_key: false }
        };
    }
    plans
}

/// A receive into which a message of this length fits.
pub(super) fn draw_receive(dice: &mut Dice, length: u64) -> ReceivePlan {
    let capacity = length + dice.pick(&[0, 0, 1, 100]);
    ReceivePlan { pieces: split(dice, capacity), offset: 0, bad_key: false }
}

/// Lets an end post receives: before anything else, or when it likes, and perhaps too few.
pub(super) fn give_receives(dice: &mut Dice, end: &mut EndPlan, mut receives: Vec<ReceivePlan>) {
    end.is_ready_early = dice.chance(700);
    if end.is_ready_early {
        end.receive_capacity = receives.len().max(1);
        end.receives = vec![(0, receives)];
        return;
    }
    if dice.chance(300) {
        let kept = dice.below(receives.len() as u64 + 1) as usize;
        receives.truncate(kept);
    }
    let late = dice.pick(&[0, 20_000, 300_000]);
    end.receives = draw_lists(dice, receives, late);
}
