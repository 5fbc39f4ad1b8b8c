//! What a seed stands for: nodes, connections, a network and a program for every queue pair.

mod draw;
mod kind;
mod layout;
mod work;

pub use draw::{ENTRIES_MAX, INLINE_MAX};
pub use kind::Kind;
pub use layout::{Layout, Span};
pub use work::{Action, Destination, Fault, OWN_KEY, ROUTE_LENGTH, ReceivePlan, WorkPlan};

use crate::addresses::Family;
use crate::network::Weather;
use crate::port::Shape;
use crate::schedule::Policy;
use converb_engine::iba::{Mtu, Service};

/// A whole run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed it was drawn from.
    pub seed: u64,
    /// What it is about.
    pub kind: Kind,
    /// What the addresses of its nodes look like.
    pub family: Family,
    /// The nodes; with one, it talks to itself.
    pub nodes: Vec<NodePlan>,
    /// The ends: queue pairs 0 and 1 are connected, 2 and 3, and so on, unless they send
    /// datagrams.
    pub ends: Vec<EndPlan>,
    /// The words of each node that atomics work on.
    pub words: Vec<Span>,
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

/// One queue pair: an end of a connection, or one that sends datagrams.
#[derive(Clone, Debug)]
pub struct EndPlan {
    /// Its node.
    pub node: usize,
    /// The service it gives.
    pub service: Service,
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
    /// Whether it posts one of these lists for each message that it receives.
    pub replies: bool,
    /// Whether, if so, it posts the first by itself.
    pub begins: bool,
    /// How often, in a thousand, it does so late.
    pub ponders: u32,
    /// What it posts to its receive queue, and the pauses.
    pub receives: Vec<(u64, Vec<ReceivePlan>)>,
    /// Whether these are posted before anything else happens.
    pub is_ready_early: bool,
    /// The end whose receive queue it takes from: itself, or the owner of a shared queue.
    pub takes_from: usize,
    /// That its receive queue is a shared one, and the limit that is armed; 0 for none.
    pub shared: Option<usize>,
    /// The largest datagram.
    pub port_mtu: u32,
    /// The Q_Key that datagrams to it need.
    pub queue_key: u32,
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

    /// The end that a work of `end` goes to.
    pub fn target(end: usize, work: &WorkPlan) -> usize {
        work.to.map_or(Self::peer(end), |to| to.end)
    }

    /// The ends that take receives from the queue of `owner`.
    pub fn takers(&self, owner: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.ends.len()).filter(move |&end| self.ends[end].takes_from == owner)
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

impl Default for EndPlan {
    /// An end that does nothing, with attributes that suit most.
    fn default() -> Self {
        Self {
            node: 0,
            service: Service::ReliableConnection,
            mtu: Mtu::default(),
            send_psn: 0,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            max_reads: 1,
            send_capacity: 8,
            receive_capacity: 8,
            signal_all: false,
            sends: Vec::new(),
            replies: false,
            begins: false,
            ponders: 0,
            receives: Vec::new(),
            is_ready_early: false,
            takes_from: 0,
            shared: None,
            port_mtu: 4096,
            queue_key: 0,
            killed_at: None,
            layout: Layout::default(),
        }
    }
}
