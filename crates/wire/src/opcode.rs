//! What an opcode says: its transport, its operation, its place in the message, and which headers
//! follow the BTH (IBA 9.2.1). The rows themselves are in `opcode_table.rs`.

use core::fmt;

use crate::opcode_table;

/// The first byte of every transport packet (IBA 9.2.1). Any value is a valid `Opcode`; whether the
/// specification knows it, [`Opcode::info`] tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opcode(pub u8);

/// What the specification says about one opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpcodeInfo {
    /// The transport service, which is the opcode's upper three bits.
    pub transport: Transport,
    /// What the packet asks for or answers.
    pub operation: OpcodeKind,
    /// The packet's place in its message.
    pub position: Position,
    headers: Headers,
    header_length: u8,
}

/// The transport services that opcodes belong to, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable connection, 0x00 to 0x1F.
    Rc,
    /// Unreliable connection, 0x20 to 0x3F.
    Uc,
    /// Reliable datagram, 0x40 to 0x5F.
    Rd,
    /// Unreliable datagram, 0x60 to 0x7F.
    Ud,
    /// Congestion notification, 0x80 to 0x9F.
    Cnp,
    /// Extended reliable connection, 0xA0 to 0xBF.
    Xrc,
}

/// What a packet asks for or answers, whatever its place in the message and its optional headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpcodeKind {
    /// SEND, with or without immediate data or an R_Key to invalidate.
    Send,
    /// RDMA WRITE, with or without immediate data.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// Acknowledgement, positive or negative.
    Acknowledge,
    /// Acknowledgement that carries what an atomic operation found in memory.
    AtomicAcknowledge,
    /// Atomic compare and swap.
    CompareSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// Resynchronisation of a reliable datagram channel.
    Resync,
    /// FLUSH (IBA annex A19).
    Flush,
    /// ATOMIC WRITE of eight bytes (IBA annex A19).
    AtomicWrite,
    /// The RoCEv2 congestion notification packet (IBA annex A17).
    CongestionNotification,
}

/// A packet's place in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The first of several packets.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The last of several packets.
    Last,
    /// The message is this one packet.
    Only,
}

impl Position {
    /// Whether a message begins with this packet.
    pub const fn begins(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether a message ends with this packet.
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

impl Opcode {
    /// The first of the opcodes that the specification leaves to manufacturers, up to 0xFF.
    pub const MANUFACTURER_FIRST: Self = Self(0xc0);

    /// What the specification says about this opcode; `None` for a reserved one and for the
    /// manufacturers' range.
    pub const fn info(self) -> Option<OpcodeInfo> {
        opcode_table::INFO[self.0 as usize]
    }

    /// The name of the associated constant, for instance `RC_SEND_ONLY`.
    pub fn name(self) -> Option<&'static str> {
        opcode_table::name(self)
    }

    /// Whether the specification leaves this opcode to manufacturers (0xC0 to 0xFF).
    pub const fn is_manufacturer(self) -> bool {
        self.0 >= Self::MANUFACTURER_FIRST.0
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => formatter.write_str(name),
            None => write!(formatter, "Opcode({:#04x})", self.0),
        }
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

impl OpcodeInfo {
    /// A row of the table. The length is worked out here once, not per packet.
    pub(crate) const fn new(
        transport: Transport,
        operation: OpcodeKind,
        position: Position,
        headers: Headers,
    ) -> Self {
        let header_length = headers.length_before(Headers::PAYLOAD) as u8;
        Self { transport, operation, position, headers, header_length }
    }

    /// The bytes of all headers between the BTH and the payload.
    pub const fn header_length(self) -> usize {
        self.header_length as usize
    }

    /// Whether an RDETH follows (reliable datagram only).
    pub const fn has_rdeth(self) -> bool {
        self.headers.contains(Headers::RDETH)
    }

    /// Whether a DETH follows.
    pub const fn has_deth(self) -> bool {
        self.headers.contains(Headers::DETH)
    }

    /// Whether an XRCETH follows.
    pub const fn has_xrceth(self) -> bool {
        self.headers.contains(Headers::XRCETH)
    }

    /// Whether a FETH follows (FLUSH only).
    pub const fn has_feth(self) -> bool {
        self.headers.contains(Headers::FETH)
    }

    /// Whether a RETH follows.
    pub const fn has_reth(self) -> bool {
        self.headers.contains(Headers::RETH)
    }

    /// Whether an AtomicETH follows.
    pub const fn has_atomic_eth(self) -> bool {
        self.headers.contains(Headers::ATOMIC_ETH)
    }

    /// Whether an AETH follows.
    pub const fn has_aeth(self) -> bool {
        self.headers.contains(Headers::AETH)
    }

    /// Whether an AtomicAckETH follows.
    pub const fn has_atomic_ack_eth(self) -> bool {
        self.headers.contains(Headers::ATOMIC_ACK_ETH)
    }

    /// Whether immediate data (ImmDt) follows.
    pub const fn has_immediate(self) -> bool {
        self.headers.contains(Headers::IMM_DT)
    }

    /// Whether an R_Key to invalidate (IETH) follows.
    pub const fn has_invalidate(self) -> bool {
        self.headers.contains(Headers::IETH)
    }

    /// Whether payload may follow. Its length may still be zero.
    pub const fn has_payload(self) -> bool {
        self.headers.contains(Headers::PAYLOAD)
    }

    /// Where `header` begins, counted from the end of the BTH.
    pub(crate) const fn offset_of(self, header: Headers) -> Option<usize> {
        if self.headers.contains(header) { Some(self.headers.length_before(header)) } else { None }
    }
}

/// The set of things that follow a BTH, one bit each, in the order in which they follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers(u16);

impl Headers {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const RDETH: Self = Self(1 << 0);
    pub(crate) const DETH: Self = Self(1 << 1);
    pub(crate) const XRCETH: Self = Self(1 << 2);
    pub(crate) const FETH: Self = Self(1 << 3);
    pub(crate) const RETH: Self = Self(1 << 4);
    pub(crate) const ATOMIC_ETH: Self = Self(1 << 5);
    pub(crate) const AETH: Self = Self(1 << 6);
    pub(crate) const ATOMIC_ACK_ETH: Self = Self(1 << 7);
    pub(crate) const IMM_DT: Self = Self(1 << 8);
    pub(crate) const IETH: Self = Self(1 << 9);
    pub(crate) const PAYLOAD: Self = Self(1 << 10);

    /// The length of each, by bit number. Payload, the last, counts nothing.
    const LENGTHS: [u8; 11] = [4, 8, 4, 4, 16, 28, 4, 8, 4, 4, 0];

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn contains(self, header: Self) -> bool {
        self.0 & header.0 != 0
    }

    /// The bytes that those members take that come before `header`.
    const fn length_before(self, header: Self) -> usize {
        let mut members = self.0 & (header.0 - 1);
        let mut length = 0;
        while members != 0 {
            length += Self::LENGTHS[members.trailing_zeros() as usize] as usize;
            members &= members - 1;
        }
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = (Opcode, OpcodeInfo)> {
        (0..=255).map(Opcode).filter_map(|opcode| Some((opcode, opcode.info()?)))
    }

    #[test]
    fn the_upper_three_bits_are_the_transport() {
        for (opcode, info) in all() {
            assert_eq!(info.transport as u8, opcode.0 >> 5, "{opcode}");
        }
    }

    #[test]
    fn the_lower_five_bits_mean_the_same_in_every_transport() {
        for (opcode, info) in all().filter(|(_, info)| info.transport != Transport::Cnp) {
            let Some(connected) = Opcode(opcode.0 & 0x1f).info() else {
                assert_eq!(info.operation, OpcodeKind::Resync, "{opcode}");
                continue;
            };
            assert_eq!(info.operation, connected.operation, "{opcode}");
            assert_eq!(info.position, connected.position, "{opcode}");
            assert_eq!(info.has_payload(), connected.has_payload(), "{opcode}");
            // What the other transports add: RDETH to all of RD, DETH and XRCETH to requests.
            let added = match info.transport {
                Transport::Rd => 4 + if info.has_deth() { 8 } else { 0 },
                Transport::Ud => 8,
                Transport::Xrc if info.has_xrceth() => 4,
                _ => 0,
            };
            assert_eq!(info.header_length(), connected.header_length() + added, "{opcode}");
        }
    }

    #[test]
    fn requests_and_only_requests_name_their_datagram_or_receive_queue() {
        use OpcodeKind::{Acknowledge, AtomicAcknowledge, ReadResponse};
        for (opcode, info) in all() {
            let answer = matches!(info.operation, ReadResponse | Acknowledge | AtomicAcknowledge);
            assert_eq!(info.has_xrceth(), info.transport == Transport::Xrc && !answer, "{opcode}");
            let datagram = matches!(info.transport, Transport::Rd | Transport::Ud);
            assert_eq!(info.has_deth(), datagram && !answer, "{opcode}");
        }
    }

    #[test]
    fn lengths_are_those_of_the_headers() {
        let length = |opcode: Opcode| opcode.info().expect("in the table").header_length();
        assert_eq!(length(Opcode::RC_SEND_ONLY), 0);
        assert_eq!(length(Opcode::RC_WRITE_ONLY_IMMEDIATE), 20);
        assert_eq!(length(Opcode::RC_ATOMIC_ACKNOWLEDGE), 12);
        assert_eq!(length(Opcode::RC_COMPARE_SWAP), 28);
        assert_eq!(length(Opcode::RC_FLUSH), 20);
        assert_eq!(length(Opcode::UD_SEND_ONLY_IMMEDIATE), 12);
        assert_eq!(length(Opcode::RD_COMPARE_SWAP), 40);
        assert_eq!(length(Opcode::XRC_WRITE_ONLY_IMMEDIATE), 24);
    }

    #[test]
    fn opcodes_print_by_name() {
        assert_eq!(Opcode(0x0b).to_string(), "RC_WRITE_ONLY_IMMEDIATE");
        assert_eq!(Opcode(0xc0).to_string(), "Opcode(0xc0)");
        assert!(Opcode(0xc0).is_manufacturer() && !Opcode(0xbf).is_manufacturer());
    }

    #[test]
    fn the_table_has_every_opcode_of_the_specification() {
        let count = |transport| all().filter(|(_, info)| info.transport == transport).count();
        assert_eq!(count(Transport::Rc), 25);
        assert_eq!(count(Transport::Uc), 12);
        assert_eq!(count(Transport::Rd), 23);
        assert_eq!(count(Transport::Ud), 2);
        assert_eq!(count(Transport::Cnp), 1);
        assert_eq!(count(Transport::Xrc), 23);
    }
}
