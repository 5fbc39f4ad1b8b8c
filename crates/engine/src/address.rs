//! Where packets go: the address of a port on one of the networks that carry InfiniBand transport.

use core::net::Ipv6Addr;

/// A port's address on its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// RoCEv2: an IP address (IPv4 in its v4-mapped form) and, for link-local ones, the index of
    /// the interface it belongs to, else 0.
    Udp {
        /// The address; `::ffff:a.b.c.d` for IPv4.
        ip: Ipv6Addr,
        /// Interface index of a link-local address, 0 for others.
        scope: u32,
    },
    /// RoCEv1: a MAC address on an Ethernet segment.
    Ethernet([u8; 6]),
    /// InfiniBand: a local identifier.
    Lid(u16),
}

/// How to reach the queue pair at the other end (IBA 9.2, `ibv_ah_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressVector {
    /// Our own port's address, which the peer sees as the source.
    pub local: Address,
    /// The peer's port.
    pub remote: Address,
    /// IP traffic class: DSCP in the high six bits, ECN in the low two.
    pub traffic_class: u8,
    /// IP time to live.
    pub hop_limit: u8,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
    /// Service level, 4 bits.
    pub service_level: u8,
}
