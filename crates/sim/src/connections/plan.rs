//! What a seed stands for: how many hosts and processes, what the network does, who dies when.

use crate::dice::Dice;
use crate::network::Weather;

/// Nanoseconds of a millisecond and a second.
pub const MILLISECOND: u64 = 1_000_000;
/// See [`MILLISECOND`].
pub const SECOND: u64 = 1000 * MILLISECOND;

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Hosts; with one, its processes talk to each other.
    pub hosts: usize,
    /// Slots of each, with a process in each.
    pub slots: u16,
    /// The network, until it is fair.
    pub weather: Weather,
    /// From then on nothing gets lost, doubled or overtaken.
    pub fair_from: u64,
    /// When all programs let go of everything and do no more.
    pub let_go_at: u64,
    /// The longest pause between two things that a program does of its own accord.
    pub pause_max: u64,
    /// How long a program leaves news unread at most.
    pub lag_max: u64,
    /// How long a datagram waits for its agent at most.
    pub wait_max: u64,
    /// Who dies, when, and for how long.
    pub deaths: Vec<Death>,
}

/// A death.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// When.
    pub at: u64,
    /// On which host.
    pub host: usize,
    /// The process in that slot, or the agent.
    pub slot: Option<u16>,
    /// After how long there is another one.
    pub rest: u64,
}

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x636f_6e6e_6563_7400);
        let (hosts, slots) = (dice.between(1, 3) as usize, dice.between(1, 3) as u16);
        let let_go_at = dice.between(15, 60) * SECOND;
        let weather = draw_weather(&mut dice);
        let fair_from = dice.pick(&[1, let_go_at / 2, let_go_at]);
        let count = dice.pick(&[0, 0, 2, 6]);
        let deaths = (0..count).map(|_| draw_death(&mut dice, hosts, slots, let_go_at)).collect();
        Self {
            hosts,
            slots,
            weather,
            fair_from,
            let_go_at,
            pause_max: dice.pick(&[1000, 2500, 6000]) * MILLISECOND,
            lag_max: dice.pick(&[0, 0, 10, 1000]) * MILLISECOND,
            wait_max: dice.pick(&[0, 1, 5]) * MILLISECOND,
            deaths,
        }
    }
}

/// No packet lives as long as the shortest TIMEWAIT, 100 ms.
fn draw_weather(dice: &mut Dice) -> Weather {
    Weather {
        loss: dice.pick(&[0, 50, 200, 500]),
        duplicate: dice.pick(&[0, 50, 300]),
        reorder: dice.pick(&[0, 100, 300]),
        delay: dice.pick(&[10_000, MILLISECOND]),
        jitter: dice.pick(&[0, 3 * MILLISECOND]),
        late: dice.pick(&[MILLISECOND, 20 * MILLISECOND]),
        losses_in_a_row: u32::MAX,
        ..Weather::default()
    }
}

fn draw_death(dice: &mut Dice, hosts: usize, slots: u16, end: u64) -> Death {
    let host = dice.below(hosts as u64) as usize;
    let slot = dice.chance(600).then(|| dice.below(u64::from(slots)) as u16);
    let rest = dice.between(200, 4000) * MILLISECOND;
    Death { at: dice.between(SECOND, end), host, slot, rest }
}
