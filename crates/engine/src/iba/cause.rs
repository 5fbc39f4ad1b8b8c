//! Why work failed, with the numbers that the failing check had in its hands: what
//! `converb explain --last` tells. Made where the failure is decided, never on the good path.
//!
//! The number of a cause is the completion's `vendor_err`. Numbers stay what they are: programs
//! log them. 0x1xx are checks of our own work, 0x2xx what a requester learned of its peer, 0x3xx
//! flushes, 0x4xx checks of a peer's request.

use super::event::Side;
use crate::address::Address;
use crate::completion::{CompletionKind, Status};
use crate::execution::{ExecutionError, RemotePlan, failing_piece};
use crate::memory::{Access, KeyError, KeyTable, ProtectionDomain};
use crate::work::ScatterGather;
use converb_wire::{Opcode, Psn, Qpn, Rkey};

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $number:literal { $($(#[$field_doc:meta])* $field:ident),* }),* $(,)?) => {
        /// Which check failed, and its numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Cause {
            $($(#[$doc])* $name { $($(#[$field_doc])* $field: u64),* },)*
        }

        impl Cause {
            /// The most numbers that a cause has.
            pub const NUMBERS_MAX: usize = 5;

            /// Every cause's number and name, for lists.
            pub const ALL: &[(u32, &str)] = &[$(($number, stringify!($name))),*];

            /// Which it is, as `vendor_err` has it.
            pub fn number(self) -> u32 {
                match self { $(Self::$name { .. } => $number),* }
            }

            /// The name of the check.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name { .. } => stringify!($name)),* }
            }

            /// Its numbers, in order, filled up with zeros.
            pub fn numbers(self) -> [u64; Self::NUMBERS_MAX] {
                let mut numbers = [0; Self::NUMBERS_MAX];
                match self {
                    $(Self::$name { $($field),* } => {
                        let own: &[u64] = &[$($field),*];
                        numbers[..own.len()].copy_from_slice(own);
                    })*
                }
                numbers
            }

            /// Its numbers with their names.
            pub fn named_numbers(self) -> Vec<(&'static str, u64)> {
                match self { $(Self::$name { $($field),* } => vec![$((stringify!($field), $field)),*]),* }
            }

            /// The cause of a number and its numbers; `None` if this version knows none such.
            pub fn from_numbers(number: u32, numbers: [u64; Self::NUMBERS_MAX]) -> Option<Self> {
                let mut numbers = numbers.into_iter();
                match number {
                    $($number => Some(Self::$name { $($field: numbers.next().unwrap_or(0)),* }),)*
                    _ => None,
                }
            }
        }
    };
}

causes! {
    /// No region has this local key.
    LocalKeyUnknown = 0x101 {
        /// The local key.
        key,
        /// The first byte that was wanted, in the region's addresses.
        address,
        /// Bytes.
        length
    },
    /// Registered local memory is gone.
    LocalMemoryGone = 0x102 {
        /// About where, an address of the process.
        address
    },
    /// A receive was shorter than the message.
    ReceiveTooShort = 0x103 {
        /// Bytes of the receive.
        room,
        /// Bytes of the message that had come, this packet included.
        message
    },
    /// A datagram is longer than the port's MTU.
    DatagramTooLong = 0x104 {
        /// Its bytes.
        length,
        /// What fits, in bytes.
        limit
    },
    /// A datagram has no address handle.
    NoDestination = 0x105 {},
    /// A READ or atomic of a queue pair that was given no depth for them (`max_rd_atomic`).
    NoReadDepth = 0x106 {},
    /// The local key's region belongs to another protection domain.
    LocalKeyOtherDomain = 0x107 {
        /// The local key.
        key
    },
    /// The local region does not allow this.
    LocalNoAccess = 0x108 {
        /// The local key.
        key,
        /// What was needed (`enum ibv_access_flags`).
        needed,
        /// What the region allows.
        allowed
    },
    /// The scatter-gather entry does not lie in its region.
    LocalOutOfBounds = 0x109 {
        /// The local key.
        key,
        /// The first byte that was wanted, in the region's addresses.
        address,
        /// Bytes.
        length,
        /// The region's first byte.
        start,
        /// One past its last.
        end
    },
    /// The peer answered with a NAK: invalid request.
    PeerInvalidRequest = 0x201 {
        /// The remote key of our request, 0 for a SEND.
        key,
        /// The remote address.
        address,
        /// Bytes of the whole request.
        length
    },
    /// The peer answered with a NAK: remote access error.
    PeerAccess = 0x202 {
        /// The remote key of our request, 0 for a SEND.
        key,
        /// The remote address.
        address,
        /// Bytes of the whole request.
        length
    },
    /// The peer answered with a NAK: remote operational error.
    PeerOperation = 0x203 {
        /// The remote key of our request, 0 for a SEND.
        key,
        /// The remote address.
        address,
        /// Bytes of the whole request.
        length
    },
    /// No acknowledgement after all retries.
    NoAnswer = 0x204 {
        /// How often everything was sent again (`retry_cnt`).
        retries,
        /// The local ACK timeout, in nanoseconds, as it was used.
        timeout_ns,
        /// `timeout` as the program set it (IBA 9.9.2.1.1: 4.096 us * 2^timeout).
        timeout
    },
    /// The peer had no receive posted, after all RNR retries.
    NoReceive = 0x205 {
        /// How often it was tried again (`rnr_retry`).
        retries,
        /// How long the peer asked to wait the last time, in nanoseconds.
        delay_ns
    },
    /// A response was of another length than its request.
    ResponseLength = 0x206 {
        /// Its bytes.
        length,
        /// What was asked for.
        expected
    },
    /// A response that does not belong to the request it answers.
    ResponseKind = 0x207 {},
    /// Flushed, for other work of this queue pair had failed.
    Flushed = 0x301 {
        /// The failed work request, if it was one of ours.
        wr_id,
        /// Its status (`enum ibv_wc_status`).
        status,
        /// The number of its cause.
        cause,
        /// 1 if that was a work request of ours, 0 if a peer's request was refused.
        is_ours
    },
    /// Flushed, for the program has put the queue pair into the error state.
    FlushedByProgram = 0x302 {},
    /// The queue pair failed, for a completion queue was full (`IBV_EVENT_CQ_ERR`).
    CompletionQueueFull = 0x303 {},
    /// No region has the key that the peer used.
    RemoteKeyUnknown = 0x401 {
        /// The remote key.
        key,
        /// The first byte that the peer wanted, in the region's addresses.
        address,
        /// Bytes.
        length
    },
    /// The peer's key is of another protection domain than this queue pair.
    RemoteKeyOtherDomain = 0x402 {
        /// The remote key.
        key,
        /// The first byte that the peer wanted.
        address,
        /// Bytes.
        length
    },
    /// The region does not allow the peer this.
    RemoteNoAccess = 0x403 {
        /// The remote key.
        key,
        /// The first byte that the peer wanted.
        address,
        /// Bytes.
        length,
        /// What was needed (`enum ibv_access_flags`).
        needed,
        /// What the region allows.
        allowed
    },
    /// What the peer wanted does not lie in the region.
    RemoteOutOfBounds = 0x404 {
        /// The remote key.
        key,
        /// The first byte that the peer wanted.
        address,
        /// Bytes.
        length,
        /// The region's first byte.
        start,
        /// One past its last.
        end
    },
    /// The queue pair's own access flags do not allow the peer this (`qp_access_flags`).
    QueuePairForbids = 0x405 {
        /// What was needed (`enum ibv_access_flags`).
        needed,
        /// What the queue pair allows.
        allowed
    },
    /// Memory that the peer may use is gone.
    RemoteMemoryGone = 0x406 {
        /// About where, an address of the process.
        address
    },
    /// A SEND with invalidate names a key that is no memory window.
    InvalidateRefused = 0x407 {
        /// The key.
        key
    },
    /// A packet that does not follow the one before it: a middle without a beginning, or the
    /// reverse.
    PacketOutOfPlace = 0x408 {},
    /// A packet's payload does not fit the path MTU.
    PacketSize = 0x409 {
        /// Its bytes.
        length,
        /// The path MTU of this side.
        mtu
    },
    /// A WRITE brought more or less than its first packet had announced.
    WriteLength = 0x40a {
        /// What came.
        length,
        /// What was announced.
        announced
    },
    /// More READs and atomics at a time than agreed (`max_dest_rd_atomic`).
    TooManyReads = 0x40b {
        /// What is allowed.
        limit
    },
    /// A READ longer than any message may be.
    ReadTooLong = 0x40c {
        /// Its bytes.
        length,
        /// What is allowed.
        limit
    },
    /// An atomic at an address that is no multiple of 8.
    AtomicMisaligned = 0x40d {
        /// The address.
        address
    },
    /// A packet of a kind that is no request of this service, or lacks a header.
    NoRequest = 0x40e {},
}

/// How work ends that fails.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) status: Status,
    pub(super) cause: Cause,
    /// The packet that it was decided by.
    pub(super) psn: Option<Psn>,
}

/// One failure, for whoever keeps a record of them. What happened to work of ours that ended with
/// a completion, or to a peer's request that was refused without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whether a completion of ours tells it, too; if not, `wr_id` and `kind` mean nothing.
    pub has_completion: bool,
    /// The work request.
    pub wr_id: u64,
    /// How it ended. Without a completion: what the peer's completion will say.
    pub status: Status,
    /// What kind of work it was.
    pub kind: CompletionKind,
    /// Which half of the queue pair found it: `Send` the requester, `Receive` the responder.
    pub side: Side,
    /// Why.
    pub cause: Cause,
    /// The packet that it was decided by.
    pub psn: Option<Psn>,
    /// That packet's opcode, if it came from the peer.
    pub opcode: Option<Opcode>,
    /// The peer's queue pair, 0 if there is none.
    pub peer: Qpn,
    /// The peer's address.
    pub address: Address,
    /// How many have failed like this; more than one only for flushes.
    pub count: u32,
}

impl Failure {
    /// Whether it only follows from another failure.
    pub fn is_flush(&self) -> bool {
        matches!(self.cause, Cause::Flushed { .. } | Cause::FlushedByProgram { .. })
    }
}

impl Cause {
    /// Why local work could not use its scatter-gather list, for the bytes of the message from
    /// `offset` on. Looks again for the piece that failed.
    pub(super) fn local(
        keys: &KeyTable,
        domain: ProtectionDomain,
        list: &[ScatterGather],
        (offset, length): (u64, usize),
        needed: Access,
        error: ExecutionError,
    ) -> Self {
        let piece = || failing_piece(keys, domain, list, offset, length, needed);
        match error {
            ExecutionError::Fault(fault) => Self::LocalMemoryGone { address: fault.address },
            ExecutionError::TooLong => Self::ReceiveTooShort {
                room: list.iter().map(|entry| u64::from(entry.length)).sum(),
                message: offset + length as u64,
            },
            ExecutionError::Key(error) => {
                let (key, address, length) = piece().unwrap_or_default();
                let (key, length) = (key.0.into(), length as u64);
                match (error, keys.region(Rkey(key as u32))) {
                    (KeyError::WrongDomain, _) => Self::LocalKeyOtherDomain { key },
                    (KeyError::NoAccess, Ok(region)) => Self::LocalNoAccess {
                        key,
                        needed: needed.0.into(),
                        allowed: region.spec.access.0.into(),
                    },
                    (KeyError::OutOfBounds, Ok(region)) => Self::LocalOutOfBounds {
                        key,
                        address,
                        length,
                        start: region.spec.iova,
                        end: region.spec.iova.wrapping_add(region.spec.length),
                    },
                    _ => Self::LocalKeyUnknown { key, address, length },
                }
            }
        }
    }

    /// Why a peer's operation on our memory was refused.
    pub(super) fn remote(
        keys: &KeyTable,
        plan: &RemotePlan,
        needed: Access,
        error: ExecutionError,
    ) -> Self {
        let (key, address, length) = (plan.rkey.0.into(), plan.address, u64::from(plan.length));
        let error = match error {
            ExecutionError::Fault(fault) => {
                return Self::RemoteMemoryGone { address: fault.address };
            }
            ExecutionError::Key(error) => error,
            ExecutionError::TooLong => KeyError::OutOfBounds,
        };
        match (error, keys.region(plan.rkey)) {
            (KeyError::WrongDomain, _) => Self::RemoteKeyOtherDomain { key, address, length },
            (KeyError::NoAccess, Ok(region)) => Self::RemoteNoAccess {
                key,
                address,
                length,
                needed: needed.0.into(),
                allowed: region.spec.access.0.into(),
            },
            (KeyError::OutOfBounds, Ok(region)) => Self::RemoteOutOfBounds {
                key,
                address,
                length,
                start: region.spec.iova,
                end: region.spec.iova.wrapping_add(region.spec.length),
            },
            _ => Self::RemoteKeyUnknown { key, address, length },
        }
    }
}

/// Whether a peer may do what it asks for: the queue pair's own flags, then key, bounds and access
/// of the region (IBA 9.7.4.1, 10.6).
pub(super) fn permit(
    allowed: Access,
    keys: &KeyTable,
    domain: ProtectionDomain,
    plan: &RemotePlan,
    needed: Access,
) -> Result<(), Cause> {
    if !allowed.allows(needed) {
        let (needed, allowed) = (needed.0.into(), allowed.0.into());
        return Err(Cause::QueuePairForbids { needed, allowed });
    }
    plan.check(keys, domain, needed)
        .map_err(|error| Cause::remote(keys, plan, needed, error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_survives_being_written_as_numbers() {
        for &(number, name) in Cause::ALL {
            let cause = Cause::from_numbers(number, [1, 2, 3, 4, 5]).unwrap();
            assert_eq!((cause.number(), cause.name()), (number, name));
            assert_eq!(Cause::from_numbers(number, cause.numbers()), Some(cause));
        }
        assert_eq!(Cause::from_numbers(0, [0; 5]), None);
        let mut numbers: Vec<u32> = Cause::ALL.iter().map(|(number, _)| *number).collect();
        numbers.dedup();
        assert!(numbers.is_sorted() && numbers.len() == Cause::ALL.len());
    }
}
