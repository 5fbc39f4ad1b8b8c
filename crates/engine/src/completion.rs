//! Work completions, and the bounded queue they wait in.

use converb_wire::{Qpn, Rkey};
use std::collections::VecDeque;

/// How a work request ended (`enum ibv_wc_status`; the values are the ABI's).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum Status {
    #[default]
    Success = 0,
    LocalLengthError = 1,
    LocalQpOperationError = 2,
    LocalEecOperationError = 3,
    LocalProtectionError = 4,
    WorkRequestFlushed = 5,
    MemoryWindowBindError = 6,
    BadResponse = 7,
    LocalAccessError = 8,
    RemoteInvalidRequest = 9,
    RemoteAccessError = 10,
    RemoteOperationError = 11,
    RetryExceeded = 12,
    RnrRetryExceeded = 13,
    LocalRddViolation = 14,
    RemoteInvalidRdRequest = 15,
    RemoteAborted = 16,
    InvalidEecNumber = 17,
    InvalidEecState = 18,
    Fatal = 19,
    ResponseTimeout = 20,
    GeneralError = 21,
}

impl Status {
    /// All of them, each at its number.
    pub const ALL: [Self; 22] = [
        Self::Success,
        Self::LocalLengthError,
        Self::LocalQpOperationError,
        Self::LocalEecOperationError,
        Self::LocalProtectionError,
        Self::WorkRequestFlushed,
        Self::MemoryWindowBindError,
        Self::BadResponse,
        Self::LocalAccessError,
        Self::RemoteInvalidRequest,
        Self::RemoteAccessError,
        Self::RemoteOperationError,
        Self::RetryExceeded,
        Self::RnrRetryExceeded,
        Self::LocalRddViolation,
        Self::RemoteInvalidRdRequest,
        Self::RemoteAborted,
        Self::InvalidEecNumber,
        Self::InvalidEecState,
        Self::Fatal,
        Self::ResponseTimeout,
        Self::GeneralError,
    ];

    /// The status of a number, if there is one.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// What kind of work a completion ends (`enum ibv_wc_opcode`; the values are the ABI's).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum CompletionKind {
    #[default]
    Send = 0,
    Write = 1,
    Read = 2,
    CompareAndSwap = 3,
    FetchAndAdd = 4,
    BindWindow = 5,
    LocalInvalidate = 6,
    Receive = 128,
    ReceiveWriteWithImmediate = 129,
}

impl CompletionKind {
    /// The kind of a number, if there is one.
    pub fn from_number(number: u32) -> Option<Self> {
        let all = [
            Self::Send,
            Self::Write,
            Self::Read,
            Self::CompareAndSwap,
            Self::FetchAndAdd,
            Self::BindWindow,
            Self::LocalInvalidate,
            Self::Receive,
            Self::ReceiveWriteWithImmediate,
        ];
        all.into_iter().find(|&kind| kind as u32 == number)
    }
}

/// What a receive completion carries besides its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extra {
    /// Nothing.
    #[default]
    None,
    /// Immediate data (`IBV_WC_WITH_IMM`), the value in host order.
    Immediate(u32),
    /// The key that the peer invalidated (`IBV_WC_WITH_INV`).
    Invalidated(Rkey),
}

/// A work completion (`struct ibv_wc`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The work request's own number.
    pub wr_id: u64,
    /// How it ended; with anything but success only `wr_id`, `qpn` and `vendor_error` count.
    pub status: Status,
    /// What ended.
    pub kind: CompletionKind,
    /// The number of the check that failed ([`iba::Cause`](crate::iba::Cause)), which
    /// `converb explain` knows; 0 with success.
    pub vendor_error: u32,
    /// Bytes received or read.
    pub byte_length: u32,
    /// Immediate data or an invalidated key.
    pub extra: Extra,
    /// The local queue pair.
    pub qpn: Qpn,
    /// The peer's queue pair (UD).
    pub source_qpn: Qpn,
    /// Whether 40 bytes of GRH precede the data (UD).
    pub with_grh: bool,
    /// Service level of the packet (UD).
    pub service_level: u8,
    /// Whether the peer asked for a solicited event; an error counts as one.
    pub solicited: bool,
}

/// A queue of completions of fixed size.
#[derive(Debug)]
pub struct CompletionQueue {
    entries: VecDeque<Completion>,
    capacity: usize,
    overrun: bool,
    armed: Armed,
}

/// What the next event of a completion queue waits for (`ibv_req_notify_cq`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Armed {
    /// No event is wanted.
    #[default]
    No,
    /// A solicited or failed completion.
    Solicited,
    /// Any completion.
    Any,
}

/// A completion was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// The queue was armed for this: raise one event; it is now disarmed.
    pub raise_event: bool,
}

/// The queue was full; the completion is lost and the queue is in error (`IBV_EVENT_CQ_ERR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// Whether this is the first overrun, the one that is reported.
    pub first: bool,
}

impl CompletionQueue {
    /// A queue of `capacity` completions, all of whose memory is taken now.
    pub fn new(capacity: usize) -> Self {
        Self {
            entries: VecDeque::with_capacity(capacity),
            capacity,
            overrun: false,
            armed: Armed::No,
        }
    }

    /// How many completions fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a completion at the end.
    ///
    /// # Errors
    /// When the queue is full or had been overrun before.
    pub fn push(&mut self, completion: Completion) -> Result<Added, Overrun> {
        if self.overrun || self.entries.len() >= self.capacity {
            let first = !self.overrun;
            self.overrun = true;
            return Err(Overrun { first });
        }
        let solicited = completion.solicited || completion.status != Status::Success;
        self.entries.push_back(completion);
        let raise_event = match self.armed {
            Armed::No => false,
            Armed::Solicited => solicited,
            Armed::Any => true,
        };
        if raise_event {
            self.armed = Armed::No;
        }
        Ok(Added { raise_event })
    }

    /// Takes the oldest completion.
    pub fn pop(&mut self) -> Option<Completion> {
        self.entries.pop_front()
    }

    /// Asks for one event. A request for any completion is not weakened by a later one for
    /// solicited completions (man page `ibv_req_notify_cq`).
    pub fn arm(&mut self, solicited_only: bool) {
        self.armed = match (self.armed, solicited_only) {
            (Armed::Any, _) | (_, false) => Armed::Any,
            _ => Armed::Solicited,
        };
    }

    /// Changes the capacity.
    ///
    /// # Errors
    /// When more completions wait than would fit.
    pub fn resize(&mut self, capacity: usize) -> Result<(), Overrun> {
        if self.entries.len() > capacity {
            return Err(Overrun { first: false });
        }
        self.entries.reserve_exact(capacity - self.entries.len());
        self.capacity = capacity;
        Ok(())
    }

    /// Forgets the completions of a queue pair that is destroyed.
    pub fn forget(&mut self, qpn: Qpn) {
        self.entries.retain(|completion| completion.qpn != qpn);
    }
}
