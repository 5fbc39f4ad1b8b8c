//! A whole transport packet, seen in place: from the BTH to the pad, without the invariant CRC.

use core::fmt;

use crate::opcode::Headers;
use crate::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, Ieth, ImmDt, Opcode, OpcodeInfo, Rdeth, Reth,
    XrcEth,
};

/// A packet whose opcode is known and whose bytes hold all headers that the opcode asks for. The
/// lengths were proved by [`Packet::parse`], so the accessors only say whether a header is there.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    bth: Bth,
    info: OpcodeInfo,
    /// What follows the BTH, headers first, without the pad.
    body: &'a [u8],
}

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The bytes end before the headers that the opcode asks for.
    TooShort,
    /// The version of the transport is not 0.
    UnknownVersion(u8),
    /// The opcode is reserved, or one of the manufacturers'.
    UnknownOpcode(Opcode),
    /// There is more pad than payload, or the length is no multiple of four.
    BadPad,
    /// Payload follows headers that take none.
    UnexpectedPayload,
}

impl<'a> Packet<'a> {
    /// Sees `bytes`, from the BTH to the pad, as a packet. Reserved bits are not judged.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (bth, body) = Bth::parse(bytes).ok_or(ParseError::TooShort)?;
        if bth.version != 0 {
            return Err(ParseError::UnknownVersion(bth.version));
        }
        let info = bth.opcode.info().ok_or(ParseError::UnknownOpcode(bth.opcode))?;
        let payload_and_pad =
            body.len().checked_sub(info.header_length()).ok_or(ParseError::TooShort)?;
        let pad = usize::from(bth.pad);
        if pad > payload_and_pad || !payload_and_pad.is_multiple_of(4) {
            return Err(ParseError::BadPad);
        }
        if payload_and_pad != 0 && !info.has_payload() {
            return Err(ParseError::UnexpectedPayload);
        }
        Ok(Self { bth, info, body: &body[..body.len() - pad] })
    }

    /// The base transport header.
    pub const fn bth(&self) -> &Bth {
        &self.bth
    }

    /// What the specification says about this packet's opcode.
    pub const fn info(&self) -> OpcodeInfo {
        self.info
    }

    /// The payload, without pad.
    pub fn payload(&self) -> &'a [u8] {
        &self.body[self.info.header_length()..]
    }

    /// The reliable datagram header.
    pub fn rdeth(&self) -> Option<Rdeth> {
        self.header(Headers::RDETH, Rdeth::parse)
    }

    /// The datagram header.
    pub fn deth(&self) -> Option<Deth> {
        self.header(Headers::DETH, Deth::parse)
    }

    /// The XRC header.
    pub fn xrceth(&self) -> Option<XrcEth> {
        self.header(Headers::XRCETH, XrcEth::parse)
    }

    /// The flush header.
    pub fn feth(&self) -> Option<Feth> {
        self.header(Headers::FETH, Feth::parse)
    }

    /// The RDMA header.
    pub fn reth(&self) -> Option<Reth> {
        self.header(Headers::RETH, Reth::parse)
    }

    /// The header of an atomic request.
    pub fn atomic_eth(&self) -> Option<AtomicEth> {
        self.header(Headers::ATOMIC_ETH, AtomicEth::parse)
    }

    /// The header of an acknowledgement or a READ response.
    pub fn aeth(&self) -> Option<Aeth> {
        self.header(Headers::AETH, Aeth::parse)
    }

    /// The header with an atomic operation's result.
    pub fn atomic_ack_eth(&self) -> Option<AtomicAckEth> {
        self.header(Headers::ATOMIC_ACK_ETH, AtomicAckEth::parse)
    }

    /// The immediate data.
    pub fn immediate(&self) -> Option<ImmDt> {
        self.header(Headers::IMM_DT, ImmDt::parse)
    }

    /// The key to invalidate.
    pub fn invalidate(&self) -> Option<Ieth> {
        self.header(Headers::IETH, Ieth::parse)
    }

    fn header<T>(
        &self,
        header: Headers,
        parse: impl FnOnce(&'a [u8]) -> Option<(T, &'a [u8])>,
    ) -> Option<T> {
        let offset = self.info.offset_of(header)?;
        parse(self.body.get(offset..)?).map(|(value, _)| value)
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => formatter.write_str("the packet ends before its headers do"),
            Self::UnknownVersion(version) => {
                write!(formatter, "the transport version is {version}, not 0")
            }
            Self::UnknownOpcode(opcode) => write!(formatter, "the opcode {opcode} is unknown"),
            Self::BadPad => formatter.write_str("pad and length do not fit each other"),
            Self::UnexpectedPayload => formatter.write_str("payload where the opcode has none"),
        }
    }
}

impl core::error::Error for ParseError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NakCode, Psn, Qpn, Rkey, Syndrome};

    fn packet(bth: Bth, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; Bth::LENGTH];
        bth.emit(&mut bytes);
        bytes.extend(body);
        bytes
    }

    fn bth(opcode: Opcode) -> Bth {
        Bth::new(opcode, Qpn::new(0x11), Psn::new(7))
    }

    #[test]
    fn headers_are_found_in_the_order_of_the_specification() {
        let mut body = vec![0; Reth::LENGTH + ImmDt::LENGTH];
        let reth = Reth { address: 0x1122_3344_5566_7788, rkey: Rkey(9), length: 3 };
        reth.emit(&mut body);
        ImmDt(0xcafe).emit(&mut body[Reth::LENGTH..]);
        body.extend(b"abc\0");
        let bytes = packet(Bth { pad: 1, ..bth(Opcode::RC_WRITE_ONLY_IMMEDIATE) }, &body);

        let packet = Packet::parse(&bytes).expect("well-formed");
        assert_eq!(packet.reth(), Some(reth));
        assert_eq!(packet.immediate(), Some(ImmDt(0xcafe)));
        assert_eq!(packet.payload(), b"abc");
        assert_eq!(packet.aeth(), None);
        assert_eq!(packet.deth(), None);
    }

    #[test]
    fn a_refusal_is_read_from_an_acknowledgement() {
        let aeth = Aeth { syndrome: Syndrome::Nak(NakCode::RemoteAccessError), msn: 5 };
        let mut body = [0; Aeth::LENGTH];
        aeth.emit(&mut body);
        let bytes = packet(bth(Opcode::RC_ACKNOWLEDGE), &body);
        assert_eq!(Packet::parse(&bytes).expect("well-formed").aeth(), Some(aeth));
    }

    #[test]
    fn what_is_no_packet_is_refused_with_the_reason() {
        let send = bth(Opcode::RC_SEND_ONLY);
        let refused = |bth: Bth, length: usize| {
            Packet::parse(&packet(bth, &[0; 64][..length])).expect_err("malformed")
        };
        assert_eq!(Packet::parse(&[4; 11]).expect_err("short"), ParseError::TooShort);
        assert_eq!(refused(bth(Opcode::RC_READ_REQUEST), 12), ParseError::TooShort);
        assert_eq!(refused(Bth { version: 1, ..send }, 0), ParseError::UnknownVersion(1));
        let unknown = Opcode(0x15);
        assert_eq!(refused(bth(unknown), 0), ParseError::UnknownOpcode(unknown));
        let manufacturers = Opcode::MANUFACTURER_FIRST;
        assert_eq!(refused(bth(manufacturers), 0), ParseError::UnknownOpcode(manufacturers));
        assert_eq!(refused(Bth { pad: 1, ..send }, 0), ParseError::BadPad);
        assert_eq!(refused(send, 3), ParseError::BadPad);
        assert_eq!(refused(bth(Opcode::RC_ACKNOWLEDGE), 8), ParseError::UnexpectedPayload);
    }
}
