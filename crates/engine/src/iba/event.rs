//! What a queue pair tells besides packets: which queue a completion is for, and events.

/// Which completion queue of a queue pair is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one for send work requests.
    Send,
    /// The one for receives.
    Receive,
}

/// An asynchronous event of a queue pair (`enum ibv_event_type`; the values are the ABI's).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Event {
    /// The queue pair could not report a completion and has failed.
    Fatal = 1,
    /// A peer's request could not be understood or served.
    RequestError = 2,
    /// A peer's request had no right to our memory.
    AccessError = 3,
    /// The first packet came before the state was ready to send.
    CommunicationEstablished = 4,
    /// The send queue has drained.
    SendQueueDrained = 5,
    /// The queue pair took its last receive from the shared queue before it stopped.
    LastReceiveReached = 16,
}
