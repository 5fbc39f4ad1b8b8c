//! Who is told about asynchronous events.

use converb_engine::iba::{Event, Failure};
use converb_wire::Qpn;

/// An asynchronous event and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// Something happened to a queue pair.
    QueuePair {
        /// The cookie it was created with.
        cookie: u64,
        /// What.
        event: Event,
    },
    /// A shared receive queue has fewer receives than its limit
    /// (`IBV_EVENT_SRQ_LIMIT_REACHED`).
    ReceiveLimitReached {
        /// The cookie it was created with.
        cookie: u64,
    },
    /// A completion queue was full when a completion came (`IBV_EVENT_CQ_ERR`).
    CompletionQueueError {
        /// The cookie it was created with.
        cookie: u64,
    },
}

/// Is told about asynchronous events, from any thread, while locks of the driver are held: it
/// must not call the driver.
pub trait Listener: Send + Sync {
    /// An event happened.
    fn raise(&self, event: AsyncEvent);

    /// Work of queue pair `qpn` failed, or a peer's request to it was refused: for whoever keeps
    /// a record. Completions with errors are in their queues already, or about to be.
    fn failed(&self, _qpn: Qpn, _failure: &Failure) {}
}
