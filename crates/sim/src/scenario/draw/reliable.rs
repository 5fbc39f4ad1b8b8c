//! Reliable connections: SEND, WRITE and READ, with and without immediate data, fenced or not.

use super::{INLINE_MAX, atomic, draw_length, draw_lists, split};
use crate::dice::Dice;
use crate::network::Weather;
use crate::scenario::{Action, EndPlan, Fault, Layout, ReceivePlan, WorkPlan};
use converb_engine::iba::{Mtu, Service};

/// Two ends of a reliable connection; with dice for them, some of their works are atomics.
pub(super) fn draw_connection(
    dice: &mut Dice,
    weather: &Weather,
    nodes: usize,
    atomics: Option<&mut Dice>,
) -> [EndPlan; 2] {
    let mtu = dice.pick(&[Mtu::Bytes256, Mtu::Bytes512, Mtu::Bytes1024, Mtu::Bytes4096]);
    let max_reads = dice.pick(&[1, 1, 2, 4, 16]);
    let has_faults = dice.chance(350);
    let is_patient = dice.chance(600);
    let few_retries = weather.loss != 0 && dice.chance(100);
    // An end that waits for ever needs a peer that never dies.
    let for_ever = !has_faults && is_patient && weather.black_from.is_none() && !few_retries;
    let mut ends = [0, 1].map(|side| {
        let timeouts: &[u8] = if for_ever { &[0, 1, 12, 14] } else { &[1, 8, 12, 13] };
        let retries = few_retries || (weather.black_from.is_some() && dice.chance(700));
        EndPlan {
            node: side % nodes,
            service: Service::ReliableConnection,
            mtu,
            send_psn: dice.pick(&[0, 100, 0x7f_fff8, 0xff_fff0, 0xff_ffff]),
            timeout: dice.pick(timeouts),
            retry_count: if retries { dice.below(8) as u8 } else { 7 },
            rnr_retry: if is_patient { 7 } else { dice.below(7) as u8 },
            min_rnr_timer: dice.pick(&[1, 4, 8, 12, 14]),
            max_reads,
            send_capacity: dice.pick(&[1, 4, 8, 32]),
            receive_capacity: dice.pick(&[1, 4, 16]),
            signal_all: dice.chance(150),
            sends: draw_works(dice, mtu),
            receives: Vec::new(),
            killed_at: (has_faults && dice.chance(200)).then(|| dice.below(400_000)),
            layout: Layout::default(),
            ..EndPlan::default()
        }
    });
    if has_faults {
        for end in &mut ends {
            if dice.chance(500) {
                plant_fault(dice, end);
            }
        }
    }
    if let Some(more) = atomics {
        for end in &mut ends {
            atomic::mix(more, end, has_faults);
        }
    }
    for side in 0..2 {
        ends[side].receives = draw_receives(dice, &ends[side ^ 1], is_patient);
    }
    ends
}

/// Lists of works; offsets come later.
fn draw_works(dice: &mut Dice, mtu: Mtu) -> Vec<(u64, Vec<WorkPlan>)> {
    let mut left = dice.pick(&[0, 1, 3, 8, 16, 24]);
    let fence = dice.pick(&[0, 100, 500]);
    let (reads, busy) = (dice.pick(&[0, 250, 600]), dice.chance(500));
    let mut lists = Vec::new();
    while left > 0 {
        let count = dice.between(1, 5).min(left);
        left -= count;
        let pause = if busy || dice.chance(500) { 0 } else { dice.below(100_000) };
        let works = (0..count).map(|_| draw_work(dice, mtu, fence, reads)).collect();
        lists.push((pause, works));
    }
    // So that the end of everything is seen.
    if let Some(last) =
        lists.last_mut().and_then(|(_, works): &mut (u64, Vec<WorkPlan>)| works.last_mut())
    {
        last.signaled = true;
    }
    lists
}

fn draw_work(dice: &mut Dice, mtu: Mtu, fence: u32, reads: u32) -> WorkPlan {
    let length = draw_length(dice, u64::from(mtu.bytes()));
    let immediate = dice.chance(400).then(|| dice.next() as u32);
    let action = if dice.chance(reads) {
        if dice.chance(500) { Action::ReadWindow(0) } else { Action::ReadArchive(0) }
    } else if dice.chance(500) {
        Action::Send(immediate)
    } else {
        Action::Write(0, immediate)
    };
    WorkPlan {
        action,
        pieces: split(dice, length),
        offset: 0,
        inline: !action.returns_data() && length as usize <= INLINE_MAX && dice.chance(500),
        signaled: dice.chance(600),
        fence: dice.chance(fence),
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
    let choices: &[Fault] = match work.action {
        Action::Send(_) if work.inline => &[Fault::ReceiveTooShort, Fault::ReceiveKey],
        Action::Send(_) => &[Fault::ReceiveTooShort, Fault::ReceiveKey, Fault::LocalKey],
        Action::Write(..) if work.inline => {
            &[Fault::UnknownKey, Fault::OutOfBounds(0), Fault::OutOfBounds(0), Fault::NoAccess]
        }
        _ => &[Fault::UnknownKey, Fault::OutOfBounds(0), Fault::NoAccess, Fault::LocalKey],
    };
    let fault = match dice.pick(choices) {
        Fault::OutOfBounds(_) => Fault::OutOfBounds(dice.between(1, 64)),
        fault => fault,
    };
    work.fault = Some(fault);
}

fn draw_receives(
    dice: &mut Dice,
    peer: &EndPlan,
    is_patient: bool,
) -> Vec<(u64, Vec<ReceivePlan>)> {
    let works = peer.sends.iter().flat_map(|(_, works)| works);
    let consuming = works.filter(|work| work.action.consumes_receive());
    let mut plans: Vec<ReceivePlan> = Vec::new();
    for work in consuming {
        let needed = match work.action {
            Action::Send(_) => u64::from(work.length()),
            _ => 0,
        };
        let capacity = match work.fault {
            Some(Fault::ReceiveTooShort) => dice.below(needed),
            _ => needed + dice.pick(&[0, 0, 1, 100]),
        };
        let bad_key = work.fault == Some(Fault::ReceiveKey);
        plans.push(ReceivePlan { pieces: split(dice, capacity), offset: 0, bad_key });
    }
    if !is_patient && dice.chance(300) {
        let kept = dice.below(plans.len() as u64 + 1) as usize;
        plans.truncate(kept);
    } else {
        for _ in 0..dice.below(3) {
            plans.push(ReceivePlan { pieces: split(dice, 64), offset: 0, bad_key: false });
        }
    }
    let late = dice.pick(&[0, 0, 20_000, 300_000]);
    draw_lists(dice, plans, late)
}
