//! InfiniBand transport (IBA chapter 9) over the base transport header, whatever network carries
//! it: the queue pair and its parts.

mod attributes;
mod environment;
mod event;
mod path;
mod queue_pair;
mod read_budget;
mod recovery;
mod requester;
mod responder;
mod stash;
mod state;
mod timers;

pub use attributes::{AttributeMask, Attributes, ModifyError, Mtu};
pub use environment::{Environment, ReceiveSource};
pub use event::{Event, Reason, Side};
pub use path::{PathWindow, truesize};
pub use queue_pair::{QueuePair, QueuePairSpec, Transmit};
pub use read_budget::ReadBudget;
pub use state::{Service, State, Transition, transition};
