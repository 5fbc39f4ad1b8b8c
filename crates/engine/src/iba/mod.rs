//! InfiniBand transport (IBA chapter 9) over the base transport header, whatever network carries
//! it: the queue pair and its parts.

mod arrival;
mod attributes;
mod cause;
mod credit;
mod delivery;
mod environment;
mod event;
mod local_error;
mod outbox;
mod path;
mod queue_pair;
mod read_budget;
mod recovery;
mod requester;
mod responder;
mod stash;
mod state;
mod timers;
mod unreliable;

pub use arrival::Arrival;
pub use attributes::{AttributeMask, Attributes, ModifyError, Mtu};
pub use cause::{Cause, Failure};
pub use credit::{Admission, CreditKind, CreditMessage};
pub use environment::{Environment, PathFinder, ReceiveSource};
pub use event::{Event, Side};
pub use path::{PathWindow, truesize};
pub use queue_pair::{QueuePair, QueuePairSpec, Transmit};
pub use read_budget::ReadBudget;
pub use state::{Service, State, Transition, transition};
