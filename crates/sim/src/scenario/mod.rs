//! What a seed stands for: nodes, connections, a network and a program for every queue pair.

mod draw;
mod layout;
mod work;

pub use draw::{ENTRIES_MAX, INLINE_MAX};
pub use layout::{Layout, Span};
pub use work::{Action, Fault, ReceivePlan, WorkPlan};

use crate::network::Weather;
use crate::port::Shape;
use crate::schedule::Policy;
use converb_engine::iba::Mtu;

/// A whole run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed it was drawn from.
    pub seed: u64,
    /// The nodes; with one, it talks to itself.
    pub nodes: Vec<NodePlan>,
    /// The ends of connections: ends 0 and 1 are connected, 2 and 3, and so on.
    pub ends: Vec<EndPlan>,
    /// The network.
    pub weather: Weather,
    /// How threads take turns.
    pub policy: Policy,
}

/// A node: a virtual process with a driver.
#[derive(Clone, Copy, Debug)]
pub struct NodePlan {
    /// How its program learns of completions.
    pub style: Style,
    /// How its port batches.
    pub shape: Shape,
}

/// How a program learns of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// It polls, with pauses of at most so many nanoseconds.
    Poll {
        /// The longest pause.
        pause_max: u64,
    },
    /// It arms its completion queues and waits for their events.
    Event,
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct EndPlan {
    /// Its node.
    pub node: usize,
    /// The path MTU, the same at both ends.
    pub mtu: Mtu,
    /// The first packet number it sends.
    pub send_psn: u32,
    /// Local ACK timeout, as in `ibv_qp_attr`.
    pub timeout: u8,
    /// Retries without an answer.
    pub retry_count: u8,
    /// Retries when the peer is not ready.
    pub rnr_retry: u8,
    /// The delay it asks for when it is not ready itself.
    pub min_rnr_timer: u8,
    /// READs it has in flight at most; what the peer allows.
    pub max_reads: u8,
    /// Send work requests that fit.
    pub send_capacity: usize,
    /// Receives that fit.
    pub receive_capacity: usize,
    /// Whether every work request is signaled.
    pub signal_all: bool,
    /// What it posts to its send queue, in order: lists that are posted in one call, and the
    /// pause before each.
    pub sends: Vec<(u64, Vec<WorkPlan>)>,
    /// What it posts to its receive queue, and the pauses.
    pub receives: Vec<(u64, Vec<ReceivePlan>)>,
    /// When its program moves it to the error state.
    pub killed_at: Option<u64>,
    /// Where its memory is.
    pub layout: Layout,
}

impl Scenario {
    /// The end that `end` is connected to.
    pub const fn peer(end: usize) -> usize {
        end ^ 1
    }

    /// How long after its post the last retry of a work request is over, in nanoseconds: design
    /// promises four times this many timeouts.
    pub fn give_up_bound(&self, end: usize) -> Option<u64> {
        let plan = &self.ends[end];
        let timeout = converb_wire::ack_timeout(plan.timeout)?.as_nanos() as u64;
        Some(4 * (u64::from(plan.retry_count) + 1) * timeout.max(16_000_000))
    }

    /// Whether a connection that nobody broke may end because of the network.
    pub fn may_give_up(&self, end: usize) -> bool {
        let harmless = self.weather.losses_in_a_row == 0 || self.ends[end].retry_count == 7;
        self.weather.black_from.is_some() || !harmless
    }
}
