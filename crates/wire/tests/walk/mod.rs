//! Walks through bytes from outside, writes every header again from its small value, and asserts
//! that the bytes come out the same. The tests and the fuzz targets share this.

#![allow(dead_code)] // Nobody who includes this uses all of it.

use converb_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, EtherType, Ethernet, Feth, Grh, Ieth, ImmDt,
    IpProtocol, Ipv4, Ipv6, LinkNextHeader, Lrh, Packet, ParseError, ROCE_V2_PORT, Rdeth, Reth,
    Udp, Vlan, XrcEth, icrc,
};

/// A RoCE packet found in a frame.
pub struct Roce<'a> {
    pub below: Below<'a>,
    pub packet: Result<Packet<'a>, ParseError>,
    /// From the BTH to the pad.
    pub transport: &'a [u8],
    pub icrc_received: u32,
    pub icrc_computed: u32,
}

/// What stands before the BTH.
pub enum Below<'a> {
    Ipv4(Ipv4<'a>, Udp),
    Ipv6(Ipv6, Udp),
    Grh(Grh),
}

/// The RoCE packet in an Ethernet frame. `None` if there is none, or a header is malformed.
pub fn frame(bytes: &[u8]) -> Option<Roce<'_>> {
    let (ethernet, mut rest) = Ethernet::parse(bytes)?;
    assert_written_again(bytes, rest, |out| ethernet.emit(out));
    let mut ether_type = ethernet.ether_type;
    while ether_type == EtherType::VLAN {
        let (vlan, after) = Vlan::parse(rest)?;
        assert_written_again(rest, after, |out| vlan.emit(out));
        (ether_type, rest) = (vlan.ether_type, after);
    }
    match ether_type {
        EtherType::IPV4 => ipv4(rest),
        EtherType::IPV6 => ipv6(rest),
        EtherType::ROCE_V1 => grh(rest),
        _ => None,
    }
}

fn ipv4(bytes: &[u8]) -> Option<Roce<'_>> {
    let (header, rest) = Ipv4::parse(bytes)?;
    assert_written_again(bytes, rest, |out| header.emit(out));
    let payload = rest.get(..header.payload_length())?;
    if header.protocol != IpProtocol::UDP {
        return None;
    }
    let (udp, rest) = udp(payload)?;
    let (transport, icrc_received) = icrc::split(rest)?;
    let icrc_computed = icrc::ipv4(&header, &udp, transport);

    // Whatever the frame's CRC is, the word of this header is what recovery finds in the right one.
    let mut hidden = header;
    hidden.set_fragment_word(0);
    let without_word = icrc::ipv4(&hidden, &udp, transport);
    let distance = header.length() - 8 + Udp::LENGTH + transport.len();
    assert_eq!(icrc::ipv4_word(icrc_computed, without_word, distance), header.fragment_word());

    let below = Below::Ipv4(header, udp);
    Some(Roce { below, packet: packet(transport), transport, icrc_received, icrc_computed })
}

fn ipv6(bytes: &[u8]) -> Option<Roce<'_>> {
    let (header, rest) = Ipv6::parse(bytes)?;
    assert_written_again(bytes, rest, |out| header.emit(out));
    let payload = rest.get(..usize::from(header.payload_length))?;
    if header.next_header != IpProtocol::UDP {
        return None;
    }
    let (udp, rest) = udp(payload)?;
    let (transport, icrc_received) = icrc::split(rest)?;
    let icrc_computed = icrc::ipv6(&header, &udp, transport);
    let below = Below::Ipv6(header, udp);
    Some(Roce { below, packet: packet(transport), transport, icrc_received, icrc_computed })
}

fn udp(bytes: &[u8]) -> Option<(Udp, &[u8])> {
    let (udp, rest) = Udp::parse(bytes)?;
    assert_written_again(bytes, rest, |out| udp.emit(out));
    if udp.destination_port != ROCE_V2_PORT {
        return None;
    }
    Some((udp, rest.get(..udp.payload_length())?))
}

fn grh(bytes: &[u8]) -> Option<Roce<'_>> {
    let (header, rest) = Grh::parse(bytes)?;
    assert_written_again(bytes, rest, |out| header.emit(out));
    let (transport, icrc_received) = icrc::split(rest.get(..usize::from(header.payload_length))?)?;
    if header.next_header != IpProtocol::INFINIBAND {
        return None;
    }
    let icrc_computed = icrc::grh(&header, transport);
    let below = Below::Grh(header);
    Some(Roce { below, packet: packet(transport), transport, icrc_received, icrc_computed })
}

/// The transport packet in an InfiniBand packet, which begins with an LRH and ends with the
/// invariant CRC, and whether that CRC is right. `None` if there is none.
pub fn infiniband(bytes: &[u8]) -> Option<(Result<Packet<'_>, ParseError>, bool)> {
    let (lrh, rest) = Lrh::parse(bytes)?;
    assert_written_again(bytes, rest, |out| lrh.emit(out));
    match lrh.next {
        LinkNextHeader::Bth => {
            let (transport, received) = icrc::split(rest)?;
            Some((packet(transport), icrc::lrh(&lrh, transport) == received))
        }
        LinkNextHeader::Grh => {
            let roce = grh(rest)?;
            Some((roce.packet, roce.icrc_computed == roce.icrc_received))
        }
        LinkNextHeader::Raw | LinkNextHeader::Ipv6 => None,
    }
}

/// The packet in `bytes`, which reach from the BTH to the pad.
pub fn packet(bytes: &[u8]) -> Result<Packet<'_>, ParseError> {
    let packet = Packet::parse(bytes)?;
    assert_eq!(write_again(&packet, bytes), bytes);

    let info = packet.info();
    assert_eq!(packet.bth().opcode.info(), Some(info));
    assert_eq!(packet.rdeth().is_some(), info.has_rdeth());
    assert_eq!(packet.deth().is_some(), info.has_deth());
    assert_eq!(packet.xrceth().is_some(), info.has_xrceth());
    assert_eq!(packet.feth().is_some(), info.has_feth());
    assert_eq!(packet.reth().is_some(), info.has_reth());
    assert_eq!(packet.atomic_eth().is_some(), info.has_atomic_eth());
    assert_eq!(packet.aeth().is_some(), info.has_aeth());
    assert_eq!(packet.atomic_ack_eth().is_some(), info.has_atomic_ack_eth());
    assert_eq!(packet.immediate().is_some(), info.has_immediate());
    assert_eq!(packet.invalidate().is_some(), info.has_invalidate());
    assert!(info.has_payload() || packet.payload().is_empty());
    Ok(packet)
}

/// The packet from its small values, its payload, and the pad bytes at the end of `original`.
fn write_again(packet: &Packet<'_>, original: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; Bth::LENGTH];
    packet.bth().emit(&mut bytes);
    macro_rules! push_if_there {
        ($($accessor:ident: $header:ident,)*) => {
            $(if let Some(header) = packet.$accessor() {
                let mut written = [0; $header::LENGTH];
                header.emit(&mut written);
                bytes.extend(written);
            })*
        };
    }
    push_if_there! {
        rdeth: Rdeth,
        deth: Deth,
        xrceth: XrcEth,
        feth: Feth,
        reth: Reth,
        atomic_eth: AtomicEth,
        aeth: Aeth,
        atomic_ack_eth: AtomicAckEth,
        immediate: ImmDt,
        invalidate: Ieth,
    }
    bytes.extend(packet.payload());
    bytes.extend(&original[original.len() - usize::from(packet.bth().pad)..]);
    bytes
}

/// Asserts that `emit` writes exactly what lies in `bytes` before `rest`.
fn assert_written_again(bytes: &[u8], rest: &[u8], emit: impl FnOnce(&mut [u8])) {
    let header = &bytes[..bytes.len() - rest.len()];
    let mut written = vec![0; header.len()];
    emit(&mut written);
    assert_eq!(written, header);
}
