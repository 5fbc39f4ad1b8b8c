//! What a queue pair tells besides packets: which queue a completion is for, events, reasons.

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

/// Which check failed: the `vendor_err` of a completion, explained by `converb explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// A local key is unknown, foreign or does not allow this.
    LocalKey = 0x101,
    /// Registered local memory is gone.
    LocalFault = 0x102,
    /// A receive was shorter than the message.
    ReceiveTooShort = 0x103,
    /// A datagram is longer than the port's MTU.
    DatagramTooLong = 0x104,
    /// A datagram has no address handle.
    NoDestination = 0x105,
    /// A READ or atomic of a queue pair that was given no depth for them (`max_rd_atomic`).
    NoReadDepth = 0x106,
    /// The peer refused our request as invalid.
    PeerInvalidRequest = 0x201,
    /// The peer's key, bounds or access rights refused us.
    PeerAccess = 0x202,
    /// The peer could not complete the operation.
    PeerOperation = 0x203,
    /// No answer after all retries.
    NoAnswer = 0x204,
    /// The peer had no receive posted, after all RNR retries.
    NoReceive = 0x205,
    /// A response did not fit its request.
    BadResponse = 0x206,
    /// The queue pair was in error or was reset.
    Flushed = 0x301,
}
