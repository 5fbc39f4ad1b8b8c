//! Paths: from a GID of ours to a GID of a peer's.

use crate::context::Context;
use crate::error::Error;
use crate::gid::Gid;
use converb_engine::{Address, AddressVector};
use std::net::Ipv6Addr;

/// How to reach a peer's port (`struct ibv_ah_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathOptions {
    /// The index of our own GID, which decides the address that packets come from.
    pub local_index: usize,
    /// The peer's GID.
    pub remote: Gid,
    /// IP traffic class.
    pub traffic_class: u8,
    /// IP time to live; 0: the usual 64.
    pub hop_limit: u8,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
    /// Service level, 4 bits.
    pub service_level: u8,
}

const HOP_LIMIT_USUAL: u8 = 64;

/// An Ethernet address, and the VLAN to reach it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddress {
    /// The MAC address of the next hop.
    pub mac: [u8; 6],
    /// The VLAN of our interface, if it is the interface of one.
    pub vlan: Option<u16>,
}

impl Context {
    /// The link address that packets to a peer are sent to, for programs that build Ethernet
    /// headers themselves. May wait for two seconds.
    ///
    /// # Errors
    /// `System` if there is no route, or nobody answers.
    pub fn link_address(&self, peer: Gid) -> Result<LinkAddress, Error> {
        let interface = self.device().interface();
        let mac = crate::interfaces::next_hop_mac(interface.index, peer.ip())
            .map_err(Error::system("find the peer's MAC address"))?;
        // To this host packets go by the interface's own address; loopback's is zero.
        let mac = mac.or(interface.mac).unwrap_or_default();
        Ok(LinkAddress { mac, vlan: interface.vlan })
    }

    /// The path that the options describe.
    ///
    /// # Errors
    /// `Invalid` for an index without a GID, or GIDs that are not both IPv4 or both IPv6.
    pub fn path(&self, options: &PathOptions) -> Result<AddressVector, Error> {
        let local = self
            .gid(crate::PORT.into(), options.local_index)
            .map_err(|_| Error::Invalid("there is no GID of ours at this index"))?;
        if options.remote == Gid::ZERO {
            return Err(Error::Invalid("the peer's GID is zero"));
        }
        if is_ipv4(local.ip()) != is_ipv4(options.remote.ip()) {
            return Err(Error::Invalid("one GID is IPv4 and the other is IPv6"));
        }
        let index = self.device().interface_index();
        Ok(AddressVector {
            local: address(local.ip(), index),
            remote: address(options.remote.ip(), index),
            traffic_class: options.traffic_class,
            hop_limit: if options.hop_limit == 0 { HOP_LIMIT_USUAL } else { options.hop_limit },
            flow_label: options.flow_label & 0x000f_ffff,
            service_level: options.service_level & 0x0f,
        })
    }
}

/// Link-local addresses mean something on one interface only.
fn address(ip: Ipv6Addr, interface: u32) -> Address {
    Address::Udp { ip, scope: if ip.is_unicast_link_local() { interface } else { 0 } }
}

fn is_ipv4(ip: Ipv6Addr) -> bool {
    ip.to_ipv4_mapped().is_some()
}
