//! Conversations: two programs that answer each message with one of their own, as latency
//! benchmarks and calls of remote procedures do.

use super::unreliable::draw_receive;
use super::{INLINE_MAX, split};
use crate::dice::Dice;
use crate::network::Weather;
use crate::scenario::{Action, EndPlan, WorkPlan};
use converb_engine::iba::{Mtu, Service};

/// Two ends of a reliable connection, of which the first begins.
pub(super) fn draw_connection(dice: &mut Dice, nodes: usize) -> [EndPlan; 2] {
    let mtu = dice.pick(&[Mtu::Bytes256, Mtu::Bytes1024, Mtu::Bytes4096]);
    let rounds = dice.pick(&[20, 40, 60]);
    let mut ends = [0, 1].map(|side| EndPlan {
        node: side % nodes,
        service: Service::ReliableConnection,
        mtu,
        send_psn: dice.pick(&[0, 100, 0xff_fff0]),
        send_capacity: rounds,
        receive_capacity: rounds,
        signal_all: dice.chance(300),
        replies: true,
        begins: side == 0,
        // Often enough at once; else somebody must send the ACK without the reply.
        ponders: dice.pick(&[0, 0, 20, 100]),
        is_ready_early: true,
        ..EndPlan::default()
    });
    for end in &mut ends {
        let longest = if dice.chance(300) { 2 * mtu.bytes() as usize } else { INLINE_MAX };
        end.sends = (0..rounds).map(|_| (0, vec![draw_message(dice, longest as u64)])).collect();
        if let Some((_, last)) = end.sends.last_mut() {
            last[0].signaled = true;
        }
    }
    for side in 0..2 {
        let messages = ends[side ^ 1].sends.iter().flat_map(|(_, works)| works);
        let longest = messages.map(WorkPlan::length).max().unwrap_or(0);
        let receives = (0..rounds).map(|_| draw_receive(dice, u64::from(longest))).collect();
        ends[side].receives = vec![(0, receives)];
    }
    ends
}

fn draw_message(dice: &mut Dice, longest: u64) -> WorkPlan {
    let length = dice.below(longest + 1);
    WorkPlan {
        action: Action::Send(dice.chance(200).then(|| dice.next() as u32)),
        pieces: split(dice, length),
        offset: 0,
        inline: length as usize <= INLINE_MAX && dice.chance(700),
        signaled: dice.chance(300),
        fence: false,
        solicited: dice.chance(500),
        fault: None,
        to: None,
    }
}

/// A network in which no end ever gives up, so that each has all its turns.
pub(super) fn kind_weather(weather: Weather) -> Weather {
    Weather { black_from: None, ..weather }
}
