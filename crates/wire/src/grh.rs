//! The global route header of InfiniBand and RoCEv1, and the addresses in it.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::{IpProtocol, Ipv6};

/// A global identifier: 16 bytes that look like an IPv6 address (IBA 4.1.1). In RoCEv2 they are
/// the IPv6 address, or the IPv4 address mapped into IPv6 (IBA annex A17).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gid(pub [u8; 16]);

/// The global route header (IBA 8.3), which has the layout of an IPv6 header:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-------+---------------+---------------------------------------+
/// |   6   |     TClass    |               FlowLabel               |
/// +-------+---------------+-------+---------------+---------------+
/// |            PayLen             |     NxtHdr    |    HopLmt     |
/// +-------------------------------+---------------+---------------+
/// |                        SGID, 16 bytes                         |
/// +---------------------------------------------------------------+
/// |                        DGID, 16 bytes                         |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grh {
    /// The traffic class.
    pub traffic_class: u8,
    /// Which flow this belongs to, 20 bits.
    pub flow_label: u32,
    /// The bytes from the end of this header to the end of the invariant CRC, that included.
    pub payload_length: u16,
    /// What follows; [`IpProtocol::INFINIBAND`] for a BTH.
    pub next_header: IpProtocol,
    /// How many routers may still pass this on.
    pub hop_limit: u8,
    /// Who sent it.
    pub source: Gid,
    /// Whom it is for.
    pub destination: Gid,
}

impl Grh {
    /// The length on the wire.
    pub const LENGTH: usize = Ipv6::LENGTH;

    /// A header before a BTH, without class and flow.
    pub const fn new(source: Gid, destination: Gid, payload_length: u16) -> Self {
        Self {
            traffic_class: 0,
            flow_label: 0,
            payload_length,
            next_header: IpProtocol::INFINIBAND,
            hop_limit: 64,
            source,
            destination,
        }
    }

    /// The header at the start of `bytes` and all that follows it; `None` if `bytes` is too short
    /// or the version is not 6.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = Ipv6::parse(bytes)?;
        Some((header.into(), rest))
    }

    /// Writes the header over the first 40 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        Ipv6::from(*self).emit(bytes);
    }
}

impl Gid {
    /// The IPv4 address that is mapped into this GID, if one is.
    pub fn to_ipv4(self) -> Option<Ipv4Addr> {
        Ipv6Addr::from(self).to_ipv4_mapped()
    }
}

impl From<Ipv6> for Grh {
    fn from(header: Ipv6) -> Self {
        Self {
            traffic_class: header.traffic_class,
            flow_label: header.flow_label,
            payload_length: header.payload_length,
            next_header: header.next_header,
            hop_limit: header.hop_limit,
            source: header.source.into(),
            destination: header.destination.into(),
        }
    }
}

impl From<Grh> for Ipv6 {
    fn from(header: Grh) -> Self {
        Self {
            traffic_class: header.traffic_class,
            flow_label: header.flow_label,
            payload_length: header.payload_length,
            next_header: header.next_header,
            hop_limit: header.hop_limit,
            source: header.source.into(),
            destination: header.destination.into(),
        }
    }
}

impl From<Ipv4Addr> for Gid {
    fn from(address: Ipv4Addr) -> Self {
        address.to_ipv6_mapped().into()
    }
}

impl From<Ipv6Addr> for Gid {
    fn from(address: Ipv6Addr) -> Self {
        Self(address.octets())
    }
}

impl From<Gid> for Ipv6Addr {
    fn from(gid: Gid) -> Self {
        gid.0.into()
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Ipv6Addr::from(*self), formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_becomes_a_gid_and_comes_back() {
        let gid = Gid::from(Ipv4Addr::new(10, 0, 17, 1));
        assert_eq!(gid.to_string(), "::ffff:10.0.17.1");
        assert_eq!(gid.to_ipv4(), Some(Ipv4Addr::new(10, 0, 17, 1)));
        assert_eq!(Gid::from(Ipv6Addr::LOCALHOST).to_ipv4(), None);
    }
}
