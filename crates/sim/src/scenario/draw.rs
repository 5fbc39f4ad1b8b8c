//! Draws a scenario from a seed.

use super::{Action, EndPlan, Fault, Layout, NodePlan, ReceivePlan, Scenario, Style, WorkPlan};
use crate::dice::Dice;
use crate::network::Weather;
use crate::port::Shape;
use crate::schedule::Policy;
use converb_engine::iba::Mtu;

/// Inline bytes that fit.
pub const INLINE_MAX: usize = 128;
/// Scatter-gather entries of a work request.
pub const ENTRIES_MAX: usize = 4;

impl Scenario {
    /// The scenario of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let nodes = if dice.chance(150) { 1 } else { 2 };
        let weather = draw_weather(&mut dice.fork());
        let connections = dice.pick(&[1, 1, 1, 2, 3]);
        let mut ends = Vec::new();
        for _ in 0..connections {
            ends.extend(draw_connection(&mut dice.fork(), &weather, nodes));
        }
        let mut starts = vec![0; nodes];
        for end in &mut ends {
            let start = starts[end.node];
            starts[end.node] = draw_layout(&mut dice, end, start);
        }
        // Where works go depends on where the peer's memory is.
        let windows: Vec<Layout> = ends.iter().map(|end| end.layout).collect();
        for (index, end) in ends.iter_mut().enumerate() {
            place_works(&mut dice, end, &windows[Self::peer(index)]);
        }
        let policy = match dice.below(4) {
            0 => Policy::Sticky(0),
            1 => Policy::Sticky(500),
            2 => Policy::Sticky(900),
            _ => Policy::Priorities(dice.pick(&[2, 20, 100])),
        };
        let nodes = (0..nodes).map(|_| draw_node(&mut dice)).collect();
        Self { seed, nodes, ends, weather, policy }
    }
}

fn draw_weather(dice: &mut Dice) -> Weather {
    let fair = Weather {
        delay: dice.pick(&[1_000, 5_000, 50_000]),
        jitter: dice.pick(&[0, 2_000, 20_000]),
        late: dice.pick(&[20_000, 500_000]),
        losses_in_a_row: dice.between(1, 3) as u32,
        full: dice.pick(&[0, 0, 5, 50]),
        ..Weather::default()
    };
    let disorder =
        Weather { duplicate: dice.pick(&[0, 20, 100]), reorder: dice.pick(&[0, 30, 200]), ..fair };
    match dice.below(20) {
        0..5 => fair,
        5..8 => disorder,
        8..18 => Weather {
            loss: dice.pick(&[5, 20, 50, 150, 300]),
            corrupt: dice.pick(&[0, 5, 20]),
            ..disorder
        },
        _ => Weather { black_from: Some(dice.pick(&[0, 20_000, 200_000, 2_000_000])), ..disorder },
    }
}

fn draw_node(dice: &mut Dice) -> NodePlan {
    let style = match dice.below(3) {
        0 => Style::Event,
        _ => Style::Poll { pause_max: dice.pick(&[2_000, 20_000, 500_000]) },
    };
    let shape = Shape {
        sends: dice.pick(&[1, 2, 8, 32]),
        receives: dice.pick(&[1, 4, 32]),
        buffer: dice.pick(&[40_000, 212_992, 4 << 20]),
    };
    NodePlan { style, shape }
}

fn draw_connection(dice: &mut Dice, weather: &Weather, nodes: usize) -> [EndPlan; 2] {
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
        }
    });
    if has_faults {
        for end in &mut ends {
            if dice.chance(500) {
                plant_fault(dice, end);
            }
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
        inline: !action.is_read() && length as usize <= INLINE_MAX && dice.chance(500),
        signaled: dice.chance(600),
        fence: dice.chance(fence),
        solicited: dice.chance(100),
        fault: None,
    }
}

fn draw_length(dice: &mut Dice, mtu: u64) -> u64 {
    match dice.below(8) {
        0 => dice.pick(&[0, 1, 3, 8]),
        1 => dice.between(0, INLINE_MAX as u64),
        2 => mtu - 1 + dice.below(3),
        3 => 2 * mtu - 1 + dice.below(3),
        4 => 3 * mtu + 5,
        5 => dice.below(mtu),
        6 => dice.below(8 * mtu),
        _ => dice.below(3 * mtu),
    }
}

/// Cuts a length into up to four pieces, some of them empty.
fn split(dice: &mut Dice, length: u64) -> Vec<u32> {
    let count = dice.between(1, ENTRIES_MAX as u64);
    let mut left = length;
    let mut pieces = Vec::new();
    for _ in 1..count {
        let piece = dice.below(left + 1);
        pieces.push(piece as u32);
        left -= piece;
    }
    pieces.push(left as u32);
    pieces
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
    let mut lists = Vec::new();
    let mut plans = plans.into_iter().peekable();
    while plans.peek().is_some() {
        let count = dice.between(1, 6) as usize;
        let pause = if dice.chance(500) { 0 } else { dice.below(late + 1) };
        lists.push((pause, plans.by_ref().take(count).collect()));
    }
    lists
}

/// Gives an end its memory from `start` on; returns where the next can start.
fn draw_layout(dice: &mut Dice, end: &mut EndPlan, start: u64) -> u64 {
    let mtu = u64::from(end.mtu.bytes());
    let (mut source, mut results) = (0, 0);
    for work in end.sends.iter_mut().flat_map(|(_, works)| works) {
        let area = if work.action.is_read() { &mut results } else { &mut source };
        work.offset = *area;
        *area += u64::from(work.length());
    }
    for receive in end.receives.iter_mut().flat_map(|(_, receives)| receives) {
        receive.offset = results;
        results += u64::from(receive.capacity()) + 8;
    }
    let window = mtu * dice.between(1, 12) + dice.below(100) + 1;
    let archive = mtu * dice.between(1, 8) + dice.below(100) + 1;
    let (mut layout, next) = Layout::new(start, source + 1, results + 1, window, archive);
    layout.window_iova = if dice.chance(300) {
        dice.pick(&[0, 0x1000, u64::MAX - window - 64])
    } else {
        layout.window.address(0)
    };
    end.layout = layout;
    next
}

/// Chooses where in the peer's memory the works of an end go.
fn place_works(dice: &mut Dice, end: &mut EndPlan, peer: &Layout) {
    for work in end.sends.iter_mut().flat_map(|(_, works)| works) {
        let size = match work.action {
            Action::Send(_) => continue,
            Action::ReadArchive(_) => peer.archive.length,
            _ => peer.window.length,
        };
        let mut length = u64::from(work.length());
        // No longer than the region; its own memory stays reserved.
        while length > size {
            let longest = work.pieces.iter_mut().max().map(core::mem::take);
            length -= u64::from(longest.unwrap_or_default());
        }
        if length == 0 {
            work.fault = None;
        }
        let at = match work.fault {
            Some(Fault::OutOfBounds(excess)) => size - length + excess,
            _ => dice.below(size - length + 1),
        };
        match &mut work.action {
            Action::Write(offset, _) | Action::ReadWindow(offset) | Action::ReadArchive(offset) => {
                *offset = at;
            }
            Action::Send(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_stands_for_the_same_and_others_for_something_else() {
        let text = |seed| format!("{:?}", Scenario::draw(seed));
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
    }

    #[test]
    fn scenarios_are_what_they_promise() {
        for seed in 0..500 {
            let scenario = Scenario::draw(seed);
            for (index, end) in scenario.ends.iter().enumerate() {
                let peer = &scenario.ends[Scenario::peer(index)];
                for work in end.sends.iter().flat_map(|(_, works)| works) {
                    assert!(!work.inline || work.length() as usize <= INLINE_MAX);
                    let (offset, size) = match work.action {
                        Action::Send(_) => continue,
                        Action::ReadArchive(offset) => (offset, peer.layout.archive.length),
                        Action::Write(offset, _) | Action::ReadWindow(offset) => {
                            (offset, peer.layout.window.length)
                        }
                    };
                    let inside = offset + u64::from(work.length()) <= size;
                    assert_eq!(inside, !matches!(work.fault, Some(Fault::OutOfBounds(_))));
                }
            }
        }
    }
}
