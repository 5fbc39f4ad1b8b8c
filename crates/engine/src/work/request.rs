//! What a program asks for with `ibv_post_send` and `ibv_post_recv`.

use crate::address::AddressVector;
use converb_wire::{Qpn, Rkey};

/// One piece of registered local memory (`struct ibv_sge`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScatterGather {
    /// Address in the space of the region that `lkey` names.
    pub address: u64,
    /// Bytes; a region's end is checked when the work runs, as a NIC does.
    pub length: u32,
    /// The region's local key.
    pub lkey: u32,
}

/// Memory of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteAddress {
    /// Address in the peer's region.
    pub address: u64,
    /// The region's remote key.
    pub rkey: Rkey,
}

/// The operation of a send work request (`enum ibv_wr_opcode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// SEND into a receive that the peer posted.
    Send,
    /// SEND, and four bytes that the peer finds in its completion.
    SendWithImmediate(u32),
    /// SEND that also invalidates one of the peer's keys.
    SendWithInvalidate(Rkey),
    /// RDMA WRITE into the peer's memory.
    Write(RemoteAddress),
    /// RDMA WRITE that also completes one of the peer's receives.
    WriteWithImmediate(RemoteAddress, u32),
    /// RDMA READ from the peer's memory.
    Read(RemoteAddress),
    /// Compare 8 bytes with `compare`, if equal store `swap`; the old value comes back.
    CompareAndSwap {
        /// The peer's eight bytes, aligned.
        remote: RemoteAddress,
        /// What they are compared with.
        compare: u64,
        /// What is stored if they were equal.
        swap: u64,
    },
    /// Add to 8 bytes; the old value comes back.
    FetchAndAdd {
        /// The peer's eight bytes, aligned.
        remote: RemoteAddress,
        /// What is added.
        add: u64,
    },
}

impl Operation {
    /// Whether the peer answers with data that is stored in local memory (READ and atomics).
    pub fn returns_data(self) -> bool {
        matches!(self, Self::Read(_) | Self::CompareAndSwap { .. } | Self::FetchAndAdd { .. })
    }

    /// The peer's memory that it works on, if any.
    pub fn remote(self) -> Option<RemoteAddress> {
        match self {
            Self::Write(remote)
            | Self::WriteWithImmediate(remote, _)
            | Self::Read(remote)
            | Self::CompareAndSwap { remote, .. }
            | Self::FetchAndAdd { remote, .. } => Some(remote),
            Self::Send | Self::SendWithImmediate(_) | Self::SendWithInvalidate(_) => None,
        }
    }
}

/// `enum ibv_send_flags`, as far as the engine cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// Wait until earlier READs and atomics of this queue pair are complete.
    pub fence: bool,
    /// Ask for a completion.
    pub signaled: bool,
    /// Ask the peer for a solicited event.
    pub solicited: bool,
}

/// Where a datagram goes: an address handle and what comes with it (`wr.ud`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramDestination {
    /// How to reach the peer's port.
    pub path: AddressVector,
    /// The peer's queue pair.
    pub qpn: Qpn,
    /// Its Q_Key; with the highest bit set the sender's own is used instead (IBA 10.2.5).
    pub queue_key: u32,
}

/// Where the bytes of a send work request are.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Registered memory, read when the work runs (for READ and atomics: written).
    Gather(&'a [ScatterGather]),
    /// Bytes that are copied while posting (`IBV_SEND_INLINE`), one after the other.
    Inline(&'a [&'a [u8]]),
}

/// A send work request (`struct ibv_send_wr`).
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub operation: Operation,
    /// How.
    pub flags: SendFlags,
    /// With what bytes.
    pub payload: Payload<'a>,
    /// Where to; connected queue pairs know, and do not look at it.
    pub destination: Option<DatagramDestination>,
}

/// A receive work request (`struct ibv_recv_wr`).
#[derive(Clone, Copy, Debug)]
pub struct ReceiveRequest<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where an incoming SEND is scattered to.
    pub scatter: &'a [ScatterGather],
}

/// Why a work request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The queue is full (`ENOMEM`).
    QueueFull,
    /// More scatter-gather entries than the queue pair was created with (`EINVAL`).
    TooManyEntries,
    /// More inline bytes than the queue pair was created with (`EINVAL`, perftest's ENOMEM).
    InlineTooLong,
    /// The message is longer than 2^31 bytes, or an atomic's memory is not 8 bytes (`EINVAL`).
    BadLength,
    /// The queue pair's state takes no work requests of this kind (`EINVAL`).
    WrongState,
    /// The transport has no such operation (`EINVAL`).
    WrongOperation,
}
