//! The ACK extended transport header, and the syndrome in it that says yes, no or not now.

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The ACK extended transport header (IBA 9.3.5).
///
/// ```text
/// +---------------+-----------------------------------------------+
/// |   syndrome    |                      MSN                      |
/// +---------------+-----------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// Whether this is an acknowledgement or a refusal, and of what kind.
    pub syndrome: Syndrome,
    /// The message sequence number, 24 bits: how many messages the responder has completed.
    pub msn: u32,
}

/// The syndrome of an AETH (IBA 9.7.5.2, table 42).
///
/// ```text
///   7 6 5 4 3 2 1 0
///  +-+---+---------+   00 ACK, value: credit count    01 RNR NAK, value: timer
///  |0|   |  value  |   10 reserved                    11 NAK, value: code
///  +-+---+---------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Everything up to this PSN has arrived.
    Ack {
        /// How many receive work queue elements there are, in the 5-bit code of
        /// [`credit`](crate::credit); 31 says nothing about them.
        credit: u8,
    },
    /// There is no receive work queue element for the message; try again later.
    RnrNak {
        /// How long to wait, in the 5-bit code of [`rnr_timer`](crate::timeout::rnr_timer).
        timer: u8,
    },
    /// The request is refused.
    Nak(NakCode),
    /// A byte that the specification reserves: type 10, or the top bit set.
    Reserved(u8),
}

/// Why a request is refused (IBA 9.7.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NakCode {
    /// A PSN was skipped; the requester should send again from the AETH's PSN.
    SequenceError,
    /// The request is malformed, or not allowed on this queue pair.
    InvalidRequest,
    /// The R_Key, its bounds or its access rights do not allow the access.
    RemoteAccessError,
    /// The responder could not do it for a reason of its own.
    RemoteOperationalError,
    /// Reliable datagram only.
    InvalidRdRequest,
    /// A code that the specification reserves, 5 to 31.
    Reserved(u8),
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    syndrome_and_msn: U32,
}

const _: () = assert!(size_of::<Layout>() == Aeth::LENGTH);

impl Aeth {
    /// The length on the wire.
    pub const LENGTH: usize = 4;

    /// The header at the start of `bytes` and what follows it; `None` if `bytes` is too short.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = Layout::ref_from_prefix(bytes).ok()?;
        let word = wire.syndrome_and_msn.get();
        let header =
            Self { syndrome: Syndrome::from_byte((word >> 24) as u8), msn: word & 0x00ff_ffff };
        Some((header, rest))
    }

    /// Writes the header over the first 4 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let word = u32::from(self.syndrome.to_byte()) << 24 | self.msn & 0x00ff_ffff;
        let wire = Layout { syndrome_and_msn: U32::new(word) };
        bytes[..Self::LENGTH].copy_from_slice(wire.as_bytes());
    }
}

impl Syndrome {
    /// The meaning of the byte.
    pub const fn from_byte(byte: u8) -> Self {
        let value = byte & 0x1f;
        match byte >> 5 {
            0b000 => Self::Ack { credit: value },
            0b001 => Self::RnrNak { timer: value },
            0b011 => Self::Nak(NakCode::from_value(value)),
            _ => Self::Reserved(byte),
        }
    }

    /// The byte. Values beyond 5 bits are cut off.
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Ack { credit } => credit & 0x1f,
            Self::RnrNak { timer } => 0x20 | timer & 0x1f,
            Self::Nak(code) => 0x60 | code.value() & 0x1f,
            Self::Reserved(byte) => byte,
        }
    }
}

impl NakCode {
    /// The meaning of the low 5 bits of `value`.
    pub const fn from_value(value: u8) -> Self {
        match value & 0x1f {
            0 => Self::SequenceError,
            1 => Self::InvalidRequest,
            2 => Self::RemoteAccessError,
            3 => Self::RemoteOperationalError,
            4 => Self::InvalidRdRequest,
            reserved => Self::Reserved(reserved),
        }
    }

    /// The code as the syndrome carries it.
    pub const fn value(self) -> u8 {
        match self {
            Self::SequenceError => 0,
            Self::InvalidRequest => 1,
            Self::RemoteAccessError => 2,
            Self::RemoteOperationalError => 3,
            Self::InvalidRdRequest => 4,
            Self::Reserved(value) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syndrome_byte_survives() {
        for byte in 0..=255 {
            assert_eq!(Syndrome::from_byte(byte).to_byte(), byte);
        }
    }

    #[test]
    fn syndromes_mean_what_the_table_says() {
        assert_eq!(Syndrome::from_byte(0x1f), Syndrome::Ack { credit: 31 });
        assert_eq!(Syndrome::from_byte(0x2c), Syndrome::RnrNak { timer: 12 });
        assert_eq!(Syndrome::from_byte(0x40), Syndrome::Reserved(0x40));
        assert_eq!(Syndrome::from_byte(0x60), Syndrome::Nak(NakCode::SequenceError));
        assert_eq!(Syndrome::from_byte(0x62), Syndrome::Nak(NakCode::RemoteAccessError));
        assert_eq!(Syndrome::from_byte(0x65), Syndrome::Nak(NakCode::Reserved(5)));
        assert_eq!(Syndrome::from_byte(0x80), Syndrome::Reserved(0x80));
    }
}
