//! The IPv4 header, below UDP in RoCEv2.

use core::net::Ipv4Addr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The IPv4 header (RFC 791).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-------+-------+---------------+-------------------------------+
/// |   4   |  IHL  |type of service|         total length          |
/// +-------+-------+---------------+-+-+-+-------------------------+
/// |        identification         |R|D|M|     fragment offset     |
/// +---------------+---------------+-+-+-+-------------------------+
/// | time to live  |   protocol    |           checksum            |
/// +---------------+---------------+-------------------------------+
/// |                            source                             |
/// +---------------------------------------------------------------+
/// |                          destination                          |
/// +---------------------------------------------------------------+
/// |                    options, 0 to 10 words                     |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4<'a> {
    /// The traffic class in the upper 6 bits, congestion (ECN) in the lower 2.
    pub type_of_service: u8,
    /// The bytes of header and payload together.
    pub total_length: u16,
    /// A number that the fragments of one packet share.
    pub identification: u16,
    /// R, 0 unless someone uses it against the specification.
    pub reserved_flag: bool,
    /// D: do not cut this packet into fragments.
    pub dont_fragment: bool,
    /// M: this is a fragment, and not the last.
    pub more_fragments: bool,
    /// Where this fragment belongs, in units of 8 bytes, 13 bits.
    pub fragment_offset: u16,
    /// How many routers may still pass this on.
    pub time_to_live: u8,
    /// What follows.
    pub protocol: IpProtocol,
    /// The checksum as found, right or wrong; [`Ipv4::right_checksum`] tells what it should be.
    pub checksum: u16,
    /// Who sent it.
    pub source: Ipv4Addr,
    /// Whom it is for.
    pub destination: Ipv4Addr,
    /// What stands between the fixed part and the payload.
    pub options: Ipv4Options<'a>,
}

/// The options of an IPv4 header, unparsed: at most 40 bytes, a multiple of four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv4Options<'a>(&'a [u8]);

/// What follows an IP header. Any value is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpProtocol(pub u8);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    version_and_words: u8,
    type_of_service: u8,
    total_length: U16,
    identification: U16,
    flags_and_offset: U16,
    time_to_live: u8,
    protocol: u8,
    checksum: U16,
    source: [u8; 4],
    destination: [u8; 4],
}

const _: () = assert!(size_of::<Layout>() == Ipv4::LENGTH);

impl IpProtocol {
    /// TCP, which carries iWARP.
    pub const TCP: Self = Self(6);
    /// UDP, which carries RoCEv2.
    pub const UDP: Self = Self(17);
    /// The InfiniBand transport itself, as a GRH announces it (IBA 8.3).
    pub const INFINIBAND: Self = Self(0x1b);
}

impl<'a> Ipv4Options<'a> {
    /// These options; `None` if they are no multiple of four or more than 40 bytes.
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        let fits = bytes.len().is_multiple_of(4) && bytes.len() <= Ipv4::LENGTH_MAX - Ipv4::LENGTH;
        if fits { Some(Self(bytes)) } else { None }
    }

    /// The bytes.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Ipv4<'a> {
    /// The length on the wire without options.
    pub const LENGTH: usize = 20;
    /// The longest that it can be with options.
    pub const LENGTH_MAX: usize = 60;

    /// A header as RoCEv2 wants it (IBA annex A17): no fragments, no options. The checksum is left
    /// 0. A payload that does not fit into 65,535 bytes with the header is cut off.
    pub const fn new(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: IpProtocol,
        payload_length: u16,
    ) -> Self {
        Self {
            type_of_service: 0,
            total_length: payload_length.saturating_add(Self::LENGTH as u16),
            identification: 0,
            reserved_flag: false,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            time_to_live: 64,
            protocol,
            checksum: 0,
            source,
            destination,
            options: Ipv4Options(&[]),
        }
    }

    /// The length of this header on the wire, options included.
    pub const fn length(&self) -> usize {
        Self::LENGTH + self.options.0.len()
    }

    /// The bytes that follow the header; what the frame holds beyond them is not the packet's.
    pub fn payload_length(&self) -> usize {
        usize::from(self.total_length).saturating_sub(self.length())
    }

    /// The header at the start of `bytes` and all that follows it. `None` if `bytes` is too short,
    /// the version is not 4, or the lengths in it contradict each other. The checksum is not
    /// judged.
    pub fn parse(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (wire, rest) = Layout::ref_from_prefix(bytes).ok()?;
        let length = usize::from(wire.version_and_words & 0xf) * 4;
        let total_length = wire.total_length.get();
        if wire.version_and_words >> 4 != 4 || usize::from(total_length) < length {
            return None;
        }
        let (options, rest) = rest.split_at_checked(length.checked_sub(Self::LENGTH)?)?;
        let mut header = Self {
            type_of_service: wire.type_of_service,
            total_length,
            time_to_live: wire.time_to_live,
            checksum: wire.checksum.get(),
            options: Ipv4Options::new(options)?,
            ..Self::new(wire.source.into(), wire.destination.into(), IpProtocol(wire.protocol), 0)
        };
        header.set_fragment_word(
            u32::from(wire.identification.get()) << 16 | u32::from(wire.flags_and_offset.get()),
        );
        Some((header, rest))
    }

    /// Writes the header and its options over the first [`Ipv4::length`] bytes. Panics if there
    /// are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let word = self.fragment_word();
        let wire = Layout {
            version_and_words: 0x40 | (self.length() / 4) as u8,
            type_of_service: self.type_of_service,
            total_length: U16::new(self.total_length),
            identification: U16::new((word >> 16) as u16),
            flags_and_offset: U16::new(word as u16),
            time_to_live: self.time_to_live,
            protocol: self.protocol.0,
            checksum: U16::new(self.checksum),
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        let (fixed, options) = bytes[..self.length()].split_at_mut(Self::LENGTH);
        fixed.copy_from_slice(wire.as_bytes());
        options.copy_from_slice(self.options.0);
    }

    /// Identification, flags and fragment offset as the 32-bit word that they are on the wire.
    pub fn fragment_word(&self) -> u32 {
        u32::from(self.identification) << 16
            | u32::from(self.reserved_flag) << 15
            | u32::from(self.dont_fragment) << 14
            | u32::from(self.more_fragments) << 13
            | u32::from(self.fragment_offset & 0x1fff)
    }

    /// The reverse of [`Ipv4::fragment_word`].
    pub fn set_fragment_word(&mut self, word: u32) {
        self.identification = (word >> 16) as u16;
        self.reserved_flag = word & 1 << 15 != 0;
        self.dont_fragment = word & 1 << 14 != 0;
        self.more_fragments = word & 1 << 13 != 0;
        self.fragment_offset = word as u16 & 0x1fff;
    }

    /// The checksum that this header should have (RFC 1071).
    pub fn right_checksum(&self) -> u16 {
        let mut bytes = [0; Self::LENGTH_MAX];
        let bytes = &mut bytes[..self.length()];
        Self { checksum: 0, ..*self }.emit(bytes);
        let (words, _) = bytes.as_chunks::<2>();
        let sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
        // Thirty words carry at most once into the upper half, and that carry at most once more.
        let folded = (sum >> 16) + (sum & 0xffff);
        !((folded >> 16) + folded) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Ipv4<'static> = Ipv4::new(
        Ipv4Addr::new(192, 168, 0, 7),
        Ipv4Addr::new(192, 168, 0, 7),
        IpProtocol::UDP,
        44,
    );

    #[test]
    fn the_checksum_is_right() {
        let header = Ipv4 { type_of_service: 1, identification: 1144, ..PLAIN };
        assert_eq!(header.right_checksum(), 0xb4d5);
    }

    #[test]
    fn options_count_as_header() {
        let options = Ipv4Options::new(&[1; 8]).expect("8 is a multiple of four");
        let header = Ipv4 { options, total_length: 72, ..PLAIN };
        assert_eq!((header.length(), header.payload_length()), (28, 44));
        assert_eq!(Ipv4Options::new(&[1; 7]), None);
        assert_eq!(Ipv4Options::new(&[1; 44]), None);
    }

    #[test]
    fn contradicting_lengths_are_refused() {
        let mut bytes = [0; 24];
        PLAIN.emit(&mut bytes);
        assert!(Ipv4::parse(&bytes).is_some());
        for first in [0x44, 0x55, 0x65, 0x47] {
            let mut bytes = bytes;
            bytes[0] = first;
            assert_eq!(Ipv4::parse(&bytes), None, "{first:#x}");
        }
        bytes[2..4].copy_from_slice(&19_u16.to_be_bytes());
        assert_eq!(Ipv4::parse(&bytes), None);
    }
}
