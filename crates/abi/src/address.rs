//! Address handles and their attributes.

use crate::guard::Errno;
use crate::layout::*;
use converb::{AddressVector, Context, Gid, LinkAddress, PathOptions};

/// `IBV_WC_GRH`.
const WITH_GRH: u32 = 1;
/// What a reply's time to live is set to.
const HOP_LIMIT_OF_REPLIES: u8 = 0xff;
/// The 20 low bits of the first word of a GRH; the traffic class is above them.
const FLOW_LABEL_BITS: u32 = 0x000f_ffff;

/// The path that attributes describe. On Ethernet every address is a GID, so there has to be one.
pub(crate) fn path(context: &Context, attributes: &ibv_ah_attr) -> Result<AddressVector, Errno> {
    if attributes.port_num != converb::PORT || attributes.is_global == 0 {
        return Err(Errno::INVALID);
    }
    let route = &attributes.grh;
    Ok(context.path(&PathOptions {
        local_index: route.sgid_index.into(),
        remote: Gid(route.dgid.raw.0),
        traffic_class: route.traffic_class,
        hop_limit: route.hop_limit,
        flow_label: route.flow_label,
        service_level: attributes.sl,
    })?)
}

/// What `ibv_resolve_eth_l2_from_gid` says instead of a VLAN.
pub(crate) const NO_VLAN: u16 = 0xffff;

/// The link address that packets to the peer in the attributes are sent to.
pub(crate) fn link_address(
    context: &Context,
    attributes: &ibv_ah_attr,
) -> Result<LinkAddress, Errno> {
    path(context, attributes)?;
    Ok(context.link_address(Gid(attributes.grh.dgid.raw.0))?)
}

/// The attributes that describe a path.
pub(crate) fn described(context: &Context, path: &AddressVector) -> ibv_ah_attr {
    // SAFETY: all fields are integers.
    let mut attributes: ibv_ah_attr = unsafe { core::mem::zeroed() };
    attributes.grh.dgid = gid_of(&path.remote);
    attributes.grh.flow_label = path.flow_label;
    attributes.grh.sgid_index = index_of(context, &gid_of(&path.local)).unwrap_or(0);
    attributes.grh.hop_limit = path.hop_limit;
    attributes.grh.traffic_class = path.traffic_class;
    attributes.sl = path.service_level;
    attributes.is_global = 1;
    attributes.port_num = converb::PORT;
    attributes
}

/// The attributes with which to answer a datagram (`ibv_init_ah_from_wc`).
pub(crate) fn of_sender(
    context: &Context,
    port: u8,
    completion: &ibv_wc,
    header: &ibv_grh,
) -> Result<ibv_ah_attr, Errno> {
    // SAFETY: all fields are integers.
    let mut attributes: ibv_ah_attr = unsafe { core::mem::zeroed() };
    attributes.dlid = completion.slid;
    attributes.sl = completion.sl;
    attributes.src_path_bits = completion.dlid_path_bits;
    attributes.port_num = port;
    if completion.wc_flags & WITH_GRH != 0 {
        let (source, destination, traffic_class, flow_label) = ends(header);
        attributes.is_global = 1;
        attributes.grh.dgid = source;
        attributes.grh.sgid_index = index_of(context, &destination).ok_or(Errno::INVALID)?;
        attributes.grh.flow_label = flow_label;
        attributes.grh.traffic_class = traffic_class;
        attributes.grh.hop_limit = HOP_LIMIT_OF_REPLIES;
    }
    Ok(attributes)
}

/// Source, destination, traffic class and flow label of the 40 bytes before a datagram: a GRH, or
/// (RoCEv2 over IPv4) 20 unspecified bytes and an IPv4 header.
fn ends(header: &ibv_grh) -> (ibv_gid, ibv_gid, u8, u32) {
    let first = u32::from_be(header.version_tclass_flow);
    if first >> 28 == 6 {
        return (header.sgid, header.dgid, (first >> 20) as u8, first & FLOW_LABEL_BITS);
    }
    // The IPv4 header begins 20 bytes into the structure: 4 bytes before the end of `sgid`.
    let (low, high) = (header.sgid.raw.0, header.dgid.raw.0);
    let mapped = |address: [u8; 4]| {
        let ip = core::net::Ipv4Addr::from(address).to_ipv6_mapped();
        ibv_gid { raw: GidBytes(ip.octets()) }
    };
    let traffic_class = low[13];
    let source = [high[8], high[9], high[10], high[11]];
    let destination = [high[12], high[13], high[14], high[15]];
    (mapped(source), mapped(destination), traffic_class, 0)
}

fn index_of(context: &Context, gid: &ibv_gid) -> Option<u8> {
    let gids = context.device().gids();
    let found = gids.entries().find(|(_, entry)| entry.0 == gid.raw.0);
    found.and_then(|(index, _)| u8::try_from(index).ok())
}

pub(crate) fn gid_of(address: &converb::Address) -> ibv_gid {
    let raw = match address {
        converb::Address::Udp { ip, .. } => ip.octets(),
        converb::Address::Ethernet(_) | converb::Address::Lid(_) => [0; 16],
    };
    ibv_gid { raw: GidBytes(raw) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(bytes: [u8; 40]) -> ibv_grh {
        // SAFETY: the structure consists of 40 bytes of integers.
        unsafe { core::mem::transmute(bytes) }
    }

    #[test]
    fn an_ipv4_header_sits_in_the_second_half() {
        let mut bytes = [0u8; 40];
        bytes[20] = 0x45;
        bytes[21] = 0x68;
        bytes[32..36].copy_from_slice(&[10, 0, 0, 1]);
        bytes[36..40].copy_from_slice(&[10, 0, 0, 2]);
        let (source, destination, traffic_class, flow_label) = ends(&header(bytes));
        assert_eq!(source.raw.0[10..], [0xff, 0xff, 10, 0, 0, 1]);
        assert_eq!(destination.raw.0[10..], [0xff, 0xff, 10, 0, 0, 2]);
        assert_eq!((traffic_class, flow_label), (0x68, 0));
    }

    #[test]
    fn a_grh_has_its_traffic_class_and_flow_label_in_the_first_word() {
        let mut bytes = [0u8; 40];
        bytes[..4].copy_from_slice(&0x6ab1_2345u32.to_be_bytes());
        bytes[8] = 0xfe;
        bytes[24] = 0xfd;
        let (source, destination, traffic_class, flow_label) = ends(&header(bytes));
        assert_eq!((source.raw.0[0], destination.raw.0[0]), (0xfe, 0xfd));
        assert_eq!((traffic_class, flow_label), (0xab, 0x12345));
    }
}
