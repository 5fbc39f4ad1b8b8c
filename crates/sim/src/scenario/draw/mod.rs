//! Draws a scenario from a seed.

mod atomic;
mod conversation;
mod datagram;
mod reliable;
mod shared;
mod unreliable;

use super::{Action, EndPlan, Fault, Kind, Layout, NodePlan, Scenario, Span, Style};
use crate::addresses::Family;
use crate::dice::Dice;
use crate::network::Weather;
use crate::port::Shape;
use crate::schedule::Policy;

/// Inline bytes that fit.
pub const INLINE_MAX: usize = 128;
/// Scatter-gather entries of a work request.
pub const ENTRIES_MAX: usize = 4;
/// A receive buffer of the kernel's default size: into one of these, or a larger one, what is not
/// acknowledged loses nothing.
const BUFFER_AMPLE: usize = 212_992;

impl Scenario {
    /// The scenario of a seed, of the kind that it chooses itself or of another.
    pub fn draw(seed: u64, kind: Option<Kind>) -> Self {
        let kind = kind.unwrap_or_else(|| Kind::of(seed));
        let mut dice = Dice::new(seed);
        // What only some kinds draw has dice of its own: reliable connections stay as they were.
        let mut more = Dice::new(seed ^ 0x006d_6f72_6500);
        let nodes = match kind {
            Kind::Datagram => more.between(1, 3) as usize,
            _ if dice.chance(150) => 1,
            _ => 2,
        };
        let mut weather = draw_weather(&mut dice.fork());
        if kind.is_unreliable() && more.chance(400) {
            weather = weather.made_fair();
        }
        if kind == Kind::Conversation {
            weather = conversation::kind_weather(weather);
        }
        let mut ends = draw_ends(kind, &mut dice, &mut more, &weather, nodes);
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
        let mut nodes: Vec<NodePlan> = (0..nodes).map(|_| draw_node(&mut dice)).collect();
        if kind.is_unreliable() && more.chance(700) {
            for node in &mut nodes {
                node.shape.buffer = node.shape.buffer.max(BUFFER_AMPLE);
            }
        }
        let words_length = if kind == Kind::Atomic { 8 * atomic::WORDS as u64 } else { 0 };
        let words = starts.iter().map(|&start| Span { start, length: words_length }).collect();
        let family = match kind {
            Kind::Reliable => Family::Lid,
            _ => more.pick(&[Family::Ipv4, Family::Ipv6]),
        };
        Self { seed, kind, family, nodes, ends, words, weather, policy }
    }

    /// Whether every message that is not acknowledged must arrive all the same: nothing but full
    /// buffers could lose it, and credit sees to it that they are not.
    pub fn loses_nothing(&self) -> bool {
        self.kind.is_unreliable()
            && self.weather.is_fair()
            && self.nodes.iter().all(|node| node.shape.buffer >= BUFFER_AMPLE)
    }
}

fn draw_ends(
    kind: Kind,
    dice: &mut Dice,
    more: &mut Dice,
    weather: &Weather,
    nodes: usize,
) -> Vec<EndPlan> {
    let connections = dice.pick(&[1, 1, 1, 2, 3]);
    let mut ends = Vec::new();
    match kind {
        Kind::Reliable => {
            for _ in 0..connections {
                ends.extend(reliable::draw_connection(&mut dice.fork(), weather, nodes, None));
            }
        }
        Kind::Atomic => {
            for _ in 0..more.between(1, 3) {
                let dice = &mut dice.fork();
                ends.extend(reliable::draw_connection(dice, weather, nodes, Some(more)));
            }
        }
        Kind::Unreliable => {
            for _ in 0..connections {
                ends.extend(unreliable::draw_connection(&mut dice.fork(), nodes));
            }
        }
        Kind::Conversation => {
            ends.extend(conversation::draw_connection(more, nodes));
            if more.chance(300) {
                ends.extend(unreliable::draw_connection(&mut dice.fork(), nodes));
            }
        }
        Kind::Datagram => ends = datagram::draw_ends(more, nodes),
        Kind::Shared => {
            for _ in 0..more.between(1, 3) {
                let dice = &mut dice.fork();
                let connection = if more.chance(600) {
                    reliable::draw_connection(dice, weather, nodes, None)
                } else {
                    unreliable::draw_connection(dice, nodes)
                };
                ends.extend(connection);
            }
        }
    }
    for (index, end) in ends.iter_mut().enumerate() {
        end.takes_from = index;
    }
    match kind {
        Kind::Shared => shared::share_receives(more, &mut ends, nodes),
        Kind::Datagram if more.chance(300) => shared::share_receives(more, &mut ends, nodes),
        _ => {}
    }
    ends
}

/// Cuts plans into lists that are posted in one call, with pauses of at most `late` before them.
fn draw_lists<T>(dice: &mut Dice, plans: Vec<T>, late: u64) -> Vec<(u64, Vec<T>)> {
    let mut lists = Vec::new();
    let mut plans = plans.into_iter().peekable();
    while plans.peek().is_some() {
        let count = dice.between(1, 6) as usize;
        let pause = if dice.chance(500) { 0 } else { dice.below(late + 1) };
        lists.push((pause, plans.by_ref().take(count).collect()));
    }
    lists
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

/// Gives an end its memory from `start` on; returns where the next can start.
fn draw_layout(dice: &mut Dice, end: &mut EndPlan, start: u64) -> u64 {
    let mtu = u64::from(end.mtu.bytes());
    let (mut source, mut results) = (0, 0);
    for work in end.sends.iter_mut().flat_map(|(_, works)| works) {
        let area = if work.action.returns_data() { &mut results } else { &mut source };
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
            Action::Send(_) | Action::FetchAdd { .. } | Action::CompareSwap { .. } => continue,
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
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_stands_for_the_same_and_others_for_something_else() {
        let text = |seed, kind| format!("{:?}", Scenario::draw(seed, kind));
        assert_eq!(text(1, None), text(1, None));
        for kind in Kind::ALL {
            assert_ne!(text(1, Some(kind)), text(2, Some(kind)));
        }
    }

    #[test]
    fn scenarios_are_what_they_promise() {
        for seed in 0..500 {
            let scenario = Scenario::draw(seed, None);
            for (index, end) in scenario.ends.iter().enumerate() {
                let peer = &scenario.ends[Scenario::peer(index)];
                for work in end.sends.iter().flat_map(|(_, works)| works) {
                    assert!(!work.inline || work.length() as usize <= INLINE_MAX);
                    let (offset, size) = match work.action {
                        Action::ReadArchive(offset) => (offset, peer.layout.archive.length),
                        Action::Write(offset, _) | Action::ReadWindow(offset) => {
                            (offset, peer.layout.window.length)
                        }
                        _ => continue,
                    };
                    let inside = offset + u64::from(work.length()) <= size;
                    assert_eq!(inside, !matches!(work.fault, Some(Fault::OutOfBounds(_))));
                }
            }
        }
    }
}
