//! A queue pair's attributes (`struct ibv_qp_attr`) and the mask that says which are meant.

use crate::address::AddressVector;
use crate::iba::state::State;
use crate::memory::Access;
use converb_wire::{Psn, Qpn};
use core::fmt;

/// A set of attributes (`enum ibv_qp_attr_mask`; the values are the ABI's).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeMask(pub u32);

#[allow(missing_docs)]
impl AttributeMask {
    pub const NONE: Self = Self(0);
    pub const STATE: Self = Self(1);
    pub const CURRENT_STATE: Self = Self(1 << 1);
    pub const DRAIN_NOTIFY: Self = Self(1 << 2);
    pub const ACCESS_FLAGS: Self = Self(1 << 3);
    pub const PARTITION_KEY_INDEX: Self = Self(1 << 4);
    pub const PORT: Self = Self(1 << 5);
    pub const QUEUE_KEY: Self = Self(1 << 6);
    pub const PATH: Self = Self(1 << 7);
    pub const PATH_MTU: Self = Self(1 << 8);
    pub const TIMEOUT: Self = Self(1 << 9);
    pub const RETRY_COUNT: Self = Self(1 << 10);
    pub const RNR_RETRY: Self = Self(1 << 11);
    pub const RECEIVE_PSN: Self = Self(1 << 12);
    pub const MAX_READS: Self = Self(1 << 13);
    pub const ALTERNATE_PATH: Self = Self(1 << 14);
    pub const MIN_RNR_TIMER: Self = Self(1 << 15);
    pub const SEND_PSN: Self = Self(1 << 16);
    pub const MAX_DESTINATION_READS: Self = Self(1 << 17);
    pub const MIGRATION_STATE: Self = Self(1 << 18);
    pub const CAPACITIES: Self = Self(1 << 19);
    pub const DESTINATION: Self = Self(1 << 20);
    pub const RATE_LIMIT: Self = Self(1 << 25);

    const NAMES: [(Self, &'static str); 23] = [
        (Self::STATE, "state"),
        (Self::CURRENT_STATE, "current state"),
        (Self::DRAIN_NOTIFY, "drain notify"),
        (Self::ACCESS_FLAGS, "access"),
        (Self::PARTITION_KEY_INDEX, "pkey index"),
        (Self::PORT, "port"),
        (Self::QUEUE_KEY, "qkey"),
        (Self::PATH, "path"),
        (Self::PATH_MTU, "path mtu"),
        (Self::TIMEOUT, "timeout"),
        (Self::RETRY_COUNT, "retry count"),
        (Self::RNR_RETRY, "rnr retry"),
        (Self::RECEIVE_PSN, "rq psn"),
        (Self::MAX_READS, "max reads"),
        (Self::ALTERNATE_PATH, "alternate path"),
        (Self::MIN_RNR_TIMER, "min rnr timer"),
        (Self::SEND_PSN, "sq psn"),
        (Self::MAX_DESTINATION_READS, "max destination reads"),
        (Self::MIGRATION_STATE, "migration state"),
        (Self::CAPACITIES, "capacities"),
        (Self::DESTINATION, "destination"),
        (Self::RATE_LIMIT, "rate limit"),
        (Self::NONE, "nothing"),
    ];

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in the set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What is in this set but not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Display for AttributeMask {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return formatter.write_str("nothing");
        }
        let mut first = true;
        for (mask, name) in Self::NAMES {
            if mask.0 != 0 && self.contains(mask) {
                if !first {
                    formatter.write_str(" + ")?;
                }
                first = false;
                formatter.write_str(name)?;
            }
        }
        Ok(())
    }
}

/// The largest payload of a packet on a path (`enum ibv_mtu`; the values are the ABI's).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum Mtu {
    Bytes256 = 1,
    Bytes512 = 2,
    #[default]
    Bytes1024 = 3,
    Bytes2048 = 4,
    Bytes4096 = 5,
}

impl Mtu {
    /// From the ABI's value.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Bytes256,
            2 => Self::Bytes512,
            3 => Self::Bytes1024,
            4 => Self::Bytes2048,
            5 => Self::Bytes4096,
            _ => return None,
        })
    }

    /// Bytes of payload.
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }

    /// The largest MTU whose packets, with `overhead` bytes of headers around the payload, fit
    /// into `link` bytes; at least 256.
    pub fn that_fits(link: u32, overhead: u32) -> Self {
        (1..=5)
            .rev()
            .filter_map(Self::from_code)
            .find(|mtu| mtu.bytes() + overhead <= link)
            .unwrap_or(Self::Bytes256)
    }
}

/// Everything that `ibv_modify_qp` sets and `ibv_query_qp` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attributes {
    /// The state; as an argument: the one to go to.
    pub state: State,
    /// What the program believes the state to be.
    pub current_state: State,
    /// The peer's queue pair.
    pub destination: Qpn,
    /// How to reach it.
    pub path: Option<AddressVector>,
    /// The largest payload of a packet.
    pub path_mtu: Mtu,
    /// The Q_Key (UD).
    pub queue_key: u32,
    /// The first PSN that we expect.
    pub receive_psn: Psn,
    /// The first PSN that we send.
    pub send_psn: Psn,
    /// What peers may do through this queue pair.
    pub access: Access,
    /// Local ACK timeout: 4.096 us times two to this power, 0 for never (5 bits).
    pub timeout: u8,
    /// How often to try again without an answer (3 bits).
    pub retry_count: u8,
    /// How often to try again when the peer has no receive posted (3 bits; 7: for ever).
    pub rnr_retry: u8,
    /// The delay that we ask of a peer when we have no receive posted (5 bits).
    pub min_rnr_timer: u8,
    /// How many READs and atomics we have in flight at most.
    pub max_reads: u8,
    /// How many READs and atomics the peer may have in flight with us.
    pub max_destination_reads: u8,
    /// Index into the partition table; 0 is the only one.
    pub partition_key_index: u16,
    /// The port; 1 is the only one.
    pub port: u8,
    /// Whether the send queue is still draining (`sq_draining`); as an argument: whether to raise an
    /// event when it has drained (`en_sqd_async_notify`).
    pub draining: bool,
}

impl Attributes {
    /// Takes over the attributes that `mask` names, but for the state.
    pub(super) fn set(&mut self, new: &Self, mask: AttributeMask) {
        use AttributeMask as A;
        let mut copy = |bit: A, assign: &mut dyn FnMut(&mut Self)| {
            if mask.contains(bit) {
                assign(self);
            }
        };
        copy(A::ACCESS_FLAGS, &mut |own| own.access = new.access);
        copy(A::PARTITION_KEY_INDEX, &mut |own| own.partition_key_index = new.partition_key_index);
        copy(A::PORT, &mut |own| own.port = new.port);
        copy(A::QUEUE_KEY, &mut |own| own.queue_key = new.queue_key);
        copy(A::PATH, &mut |own| own.path = new.path);
        copy(A::PATH_MTU, &mut |own| own.path_mtu = new.path_mtu);
        copy(A::TIMEOUT, &mut |own| own.timeout = new.timeout);
        copy(A::RETRY_COUNT, &mut |own| own.retry_count = new.retry_count);
        copy(A::RNR_RETRY, &mut |own| own.rnr_retry = new.rnr_retry);
        copy(A::RECEIVE_PSN, &mut |own| own.receive_psn = new.receive_psn);
        copy(A::SEND_PSN, &mut |own| own.send_psn = new.send_psn);
        copy(A::MAX_READS, &mut |own| own.max_reads = new.max_reads);
        copy(A::MAX_DESTINATION_READS, &mut |own| {
            own.max_destination_reads = new.max_destination_reads;
        });
        copy(A::MIN_RNR_TIMER, &mut |own| own.min_rnr_timer = new.min_rnr_timer);
        copy(A::DESTINATION, &mut |own| own.destination = new.destination);
    }
}

/// Why attributes were not taken (`EINVAL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifyError {
    /// There is no change between these states.
    NoSuchTransition {
        /// The state it is in.
        from: State,
        /// The one asked for.
        to: State,
    },
    /// Attributes that this change needs are missing.
    Missing(AttributeMask),
    /// Attributes that this change does not take.
    Unexpected(AttributeMask),
    /// The current state is not what the program said.
    OtherState(State),
    /// A value is out of its range.
    BadValue(AttributeMask),
}

impl fmt::Display for ModifyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchTransition { from, to } => {
                write!(formatter, "a queue pair does not go from {from:?} to {to:?}")
            }
            Self::Missing(mask) => write!(formatter, "this change of state also needs: {mask}"),
            Self::Unexpected(mask) => write!(formatter, "this change of state takes no: {mask}"),
            Self::OtherState(state) => write!(formatter, "the queue pair is in state {state:?}"),
            Self::BadValue(mask) => write!(formatter, "out of range: {mask}"),
        }
    }
}

impl core::error::Error for ModifyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mtu_follows_the_link() {
        let overhead = 20 + 8 + 12 + 16 + 4;
        assert_eq!(Mtu::that_fits(1500, overhead), Mtu::Bytes1024);
        assert_eq!(Mtu::that_fits(9000, overhead), Mtu::Bytes4096);
        assert_eq!(Mtu::that_fits(300, overhead), Mtu::Bytes256);
        assert_eq!(Mtu::Bytes4096.bytes(), 4096);
        assert_eq!(Mtu::Bytes256.bytes(), 256);
    }
}
