//! The RDMA IP CM service (IBA annex A11): connections between IP addresses and ports.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::codes::codes;
use super::field::{bits, place};
use super::private_data::{PrivateData, TooLong};

/// Names a service, for connections and for datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceId(pub u64);

codes! {
    /// Whose ports are meant: the IP protocol that a program would use without RDMA.
    ///
    /// The port spaces of librdmacm are this with a 1 before it: 0x0106 is TCP.
    pub struct PortSpace(u8);
    TCP = 0x06, "TCP";
    UDP = 0x11, "UDP";
    IB = 0x3f, "InfiniBand";
}

/// What stands before a consumer's private data in a REQ or SIDR_REQ to an IP service
/// (IBA A11.4).
///
/// ```text
///   | major | minor | IPv   | rsv   | source port                   |
///   | source address, 16 bytes; an IPv4 address is the last four    |
///   | destination address, 16 bytes                                 |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpHeader {
    /// The minor version, 4 bits. Whoever knows an older one understands a newer.
    pub minor_version: u8,
    /// The port of the sender; that of the receiver is in the service ID.
    pub source_port: u16,
    /// From where to where.
    pub addresses: IpAddresses,
}

/// Two addresses of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpAddresses {
    /// IPv4.
    V4 {
        /// The sender's.
        source: Ipv4Addr,
        /// The receiver's.
        destination: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// The sender's.
        source: Ipv6Addr,
        /// The receiver's.
        destination: Ipv6Addr,
    },
}

/// Why private data does not begin with an IP CM header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadIpHeader {
    /// There are less than 36 bytes.
    TooShort,
    /// The major version is not 0.
    MajorVersion(u8),
    /// The IP version is neither 4 nor 6.
    IpVersion(u8),
}

impl ServiceId {
    /// What the service IDs of all ports begin with; the port space and the port follow.
    const IP_PREFIX: u64 = 0x00_0000_0001;

    /// The service at a port.
    pub const fn ip(space: PortSpace, port: u16) -> Self {
        Self(Self::IP_PREFIX << 24 | (space.0 as u64) << 16 | port as u64)
    }

    /// The port of an IP service; `None` if this is another kind of service.
    pub const fn ip_port(self) -> Option<(PortSpace, u16)> {
        if self.0 >> 24 != Self::IP_PREFIX {
            return None;
        }
        Some((PortSpace((self.0 >> 16) as u8), self.0 as u16))
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    version: u8,
    ip_version: u8,
    source_port: U16,
    source: [u8; 16],
    destination: [u8; 16],
}

const _: () = assert!(size_of::<Layout>() == IpHeader::LENGTH);

impl IpHeader {
    /// The length on the wire.
    pub const LENGTH: usize = 36;
    /// The only major version that there is.
    const MAJOR_VERSION: u8 = 0;

    /// The header at the start of private data, and the consumer's part of it.
    ///
    /// # Errors
    /// There is no header, or one whose meaning is unknown.
    pub fn parse(private_data: &[u8]) -> Result<(Self, &[u8]), BadIpHeader> {
        let (wire, consumer) =
            Layout::ref_from_prefix(private_data).map_err(|_| BadIpHeader::TooShort)?;
        let major = bits(wire.version, 0, 4);
        if major != Self::MAJOR_VERSION {
            return Err(BadIpHeader::MajorVersion(major));
        }
        let addresses = match bits(wire.ip_version, 0, 4) {
            4 => IpAddresses::V4 {
                source: last_four(&wire.source),
                destination: last_four(&wire.destination),
            },
            6 => {
                IpAddresses::V6 { source: wire.source.into(), destination: wire.destination.into() }
            }
            other => return Err(BadIpHeader::IpVersion(other)),
        };
        let header = Self {
            minor_version: bits(wire.version, 4, 4),
            source_port: wire.source_port.get(),
            addresses,
        };
        Ok((header, consumer))
    }

    /// The header's bytes.
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        let mut wire = Layout {
            version: place(Self::MAJOR_VERSION, 0, 4) | place(self.minor_version, 4, 4),
            source_port: U16::new(self.source_port),
            ..Layout::new_zeroed()
        };
        match self.addresses {
            IpAddresses::V4 { source, destination } => {
                wire.ip_version = place(4, 0, 4);
                wire.source[12..].copy_from_slice(&source.octets());
                wire.destination[12..].copy_from_slice(&destination.octets());
            }
            IpAddresses::V6 { source, destination } => {
                wire.ip_version = place(6, 0, 4);
                wire.source = source.octets();
                wire.destination = destination.octets();
            }
        }
        zerocopy::transmute!(wire)
    }

    /// Private data of this header and the consumer's part.
    ///
    /// # Errors
    /// The consumer's part does not fit behind the header. The error's limit is what would.
    pub fn before<const LIMIT: usize>(
        &self,
        consumer: &[u8],
    ) -> Result<PrivateData<LIMIT>, TooLong> {
        PrivateData::of_parts(&self.emit(), consumer)
    }
}

fn last_four(field: &[u8; 16]) -> Ipv4Addr {
    let [.., a, b, c, d] = *field;
    Ipv4Addr::new(a, b, c, d)
}

impl fmt::Display for BadIpHeader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => formatter.write_str("too short for an IP CM header"),
            Self::MajorVersion(version) => write!(formatter, "unknown IP CM version {version}"),
            Self::IpVersion(version) => write!(formatter, "unknown IP version {version}"),
        }
    }
}

impl core::error::Error for BadIpHeader {}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: IpHeader = IpHeader {
        minor_version: 0,
        source_port: 0x1234,
        addresses: IpAddresses::V4 {
            source: Ipv4Addr::new(10, 77, 0, 3),
            destination: Ipv4Addr::new(10, 77, 0, 2),
        },
    };

    #[test]
    fn service_ids_of_ports_have_a_prefix() {
        assert_eq!(ServiceId::ip(PortSpace::TCP, 7174), ServiceId(0x0000_0000_0106_1c06));
        assert_eq!(ServiceId::ip(PortSpace::UDP, 7174), ServiceId(0x0000_0000_0111_1c06));
        assert_eq!(ServiceId::ip(PortSpace::IB, 1), ServiceId(0x0000_0000_013f_0001));
        assert_eq!(ServiceId(0x0106_1c06).ip_port(), Some((PortSpace::TCP, 7174)));
        assert_eq!(ServiceId(0x0206_1c06).ip_port(), None);
        assert_eq!(ServiceId(0x0100_0000_0106_1c06).ip_port(), None);
    }

    #[test]
    fn only_what_changes_the_meaning_is_refused() {
        let mut bytes = HEADER.emit();
        assert_eq!(IpHeader::parse(&bytes[1..]), Err(BadIpHeader::TooShort));
        bytes[0] = 0x10;
        assert_eq!(IpHeader::parse(&bytes), Err(BadIpHeader::MajorVersion(1)));
        bytes[..2].copy_from_slice(&[0x00, 0x5f]);
        assert_eq!(IpHeader::parse(&bytes), Err(BadIpHeader::IpVersion(5)));
        // A newer minor version, reserved bits, and noise before an IPv4 address.
        bytes[..2].copy_from_slice(&[0x03, 0x4f]);
        bytes[4] = 0xff;
        let newer = IpHeader { minor_version: 3, ..HEADER };
        assert_eq!(IpHeader::parse(&bytes), Ok((newer, &[][..])));
    }

    #[test]
    fn the_consumer_gets_what_the_header_leaves() {
        let data = HEADER.before::<92>(&[7; 56]).expect("56 bytes fit into a REQ");
        assert_eq!(IpHeader::parse(data.as_bytes()), Ok((HEADER, &[7; 56][..])));
        assert_eq!(HEADER.before::<92>(&[7; 57]), Err(TooLong { length: 57, limit: 56 }));
        assert!(HEADER.before::<216>(&[7; 180]).is_ok());
    }
}
