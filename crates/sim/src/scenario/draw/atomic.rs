//! Atomics among the works of reliable connections.

use super::split;
use crate::dice::Dice;
use crate::scenario::{Action, EndPlan, Fault, WorkPlan};

/// How many words of a node several requesters work on.
pub(super) const WORDS: usize = 2;

/// Makes some works of an end atomics, and gives a SEND a key to invalidate.
pub(super) fn mix(dice: &mut Dice, end: &mut EndPlan, has_faults: bool) {
    let share = dice.pick(&[300, 700, 1000]);
    // What a word holds if nobody else changes it, so that some comparisons find it equal.
    let mut believed = [None; WORDS];
    let fault_free = end.sends.iter().flat_map(|(_, works)| works).all(|work| work.fault.is_none());
    let mut may_fail = has_faults && fault_free;
    for work in end.sends.iter_mut().flat_map(|(_, works)| works) {
        if dice.chance(share) && work.fault.is_none() {
            make_atomic(dice, work, &mut believed);
            if may_fail && dice.chance(200) {
                let faults = [
                    Fault::UnknownKey,
                    Fault::NoAccess,
                    Fault::Misaligned,
                    Fault::OutOfBounds(8),
                    Fault::LocalKey,
                ];
                work.fault = Some(dice.pick(&faults));
                may_fail = false;
            }
        } else if may_fail && work.action == Action::Send(None) && dice.chance(500) {
            work.fault = Some(Fault::Invalidates);
            may_fail = false;
        }
    }
}

fn make_atomic(dice: &mut Dice, work: &mut WorkPlan, believed: &mut [Option<u64>; WORDS]) {
    let word = dice.below(WORDS as u64) as usize;
    let next = dice.next();
    work.inline = false;
    work.pieces = split(dice, 8);
    work.action = match believed[word] {
        Some(compare) if dice.chance(600) => Action::CompareSwap { word, compare, swap: next },
        // Never equal, and then known.
        None if dice.chance(300) => Action::CompareSwap { word, compare: next, swap: next },
        before => {
            believed[word] = before.map(|before| before.wrapping_add(next));
            return work.action = Action::FetchAdd { word, add: next };
        }
    };
    believed[word] = Some(next);
}
