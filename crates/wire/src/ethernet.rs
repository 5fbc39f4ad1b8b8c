//! The Ethernet header and the VLAN tag that may follow it.

use core::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

/// The type of what follows an Ethernet header or a VLAN tag. Any value is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

/// The Ethernet header (IEEE 802.3).
///
/// ```text
/// +-------------------------+-------------------------+-----------+
/// |  destination, 6 bytes   |     source, 6 bytes     | EtherType |
/// +-------------------------+-------------------------+-----------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ethernet {
    /// Whom the frame is for.
    pub destination: Mac,
    /// Who sent it.
    pub source: Mac,
    /// What follows.
    pub ether_type: EtherType,
}

/// The VLAN tag (IEEE 802.1Q), without the EtherType before it that announces it.
///
/// ```text
/// +-----+-+-----------------------+-------------------------------+
/// | PCP |D|        VLAN id        |           EtherType           |
/// +-----+-+-----------------------+-------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vlan {
    /// PCP, 3 bits.
    pub priority: u8,
    /// D: this frame may be dropped before others.
    pub drop_eligible: bool,
    /// The VLAN, 12 bits; 0 means that only the priority counts.
    pub id: u16,
    /// What follows.
    pub ether_type: EtherType,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    destination: [u8; 6],
    source: [u8; 6],
    ether_type: U16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct VlanLayout {
    control: U16,
    ether_type: U16,
}

const _: () = assert!(size_of::<Layout>() == Ethernet::LENGTH);
const _: () = assert!(size_of::<VlanLayout>() == Vlan::LENGTH);

impl EtherType {
    /// An IPv4 packet.
    pub const IPV4: Self = Self(0x0800);
    /// A VLAN tag.
    pub const VLAN: Self = Self(0x8100);
    /// An IPv6 packet.
    pub const IPV6: Self = Self(0x86dd);
    /// A RoCEv1 packet, which begins with a GRH (IBA annex A16).
    pub const ROCE_V1: Self = Self(0x8915);
}

impl Ethernet {
    /// The length on the wire.
    pub const LENGTH: usize = 14;

    /// The header at the start of `bytes` and what follows it; `None` if `bytes` is too short.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = Layout::ref_from_prefix(bytes).ok()?;
        let header = Self {
            destination: Mac(wire.destination),
            source: Mac(wire.source),
            ether_type: EtherType(wire.ether_type.get()),
        };
        Some((header, rest))
    }

    /// Writes the header over the first 14 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let wire = Layout {
            destination: self.destination.0,
            source: self.source.0,
            ether_type: U16::new(self.ether_type.0),
        };
        bytes[..Self::LENGTH].copy_from_slice(wire.as_bytes());
    }
}

impl Vlan {
    /// The length on the wire.
    pub const LENGTH: usize = 4;

    /// The tag at the start of `bytes` and what follows it; `None` if `bytes` is too short.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = VlanLayout::ref_from_prefix(bytes).ok()?;
        let control = wire.control.get();
        let header = Self {
            priority: (control >> 13) as u8,
            drop_eligible: control & 1 << 12 != 0,
            id: control & 0x0fff,
            ether_type: EtherType(wire.ether_type.get()),
        };
        Some((header, rest))
    }

    /// Writes the tag over the first 4 bytes. Panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let control = u16::from(self.priority & 0x7) << 13
            | u16::from(self.drop_eligible) << 12
            | self.id & 0x0fff;
        let wire =
            VlanLayout { control: U16::new(control), ether_type: U16::new(self.ether_type.0) };
        bytes[..Self::LENGTH].copy_from_slice(wire.as_bytes());
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(formatter, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}
