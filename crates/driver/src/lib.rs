//! Who runs the engine, and when.
//!
//! This crate owns the roles (polling thread, posting thread, event waiter, progress thread),
//! the locks and their order, batching and timers. It never makes a system call: the network,
//! the clock and the program's memory come through [`Port`], locks through the [`Facade`], so
//! that the simulator runs the same code. Read `driver.rs` next, then `roles/`.

mod channel;
mod completion_queue;
mod credit;
mod driver;
mod facade;
mod farewell;
mod fork;
mod listener;
mod management;
mod outgoing;
mod paths;
mod port;
mod queue_pair;
mod receive_queue;
mod reply;
mod roles;
mod table;
mod timers;

pub use channel::Channel;
pub use completion_queue::CompletionQueueHandle;
pub use driver::{Driver, Handle, NewQueuePair, TableFull};
pub use facade::{Facade, Flag, Mutex, RwLock, Std};
pub use fork::{Entry, Heir, Journal, Kept, Stillness};
pub use listener::{AsyncEvent, Listener};
pub use port::{Interest, Port, Received, Sent, Signal, Woken};
pub use queue_pair::QueuePairHandle;
pub use receive_queue::ReceiveQueue;
pub use roles::Look;
