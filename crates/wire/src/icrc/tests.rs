//! Packets whose CRC others have computed.

use core::net::Ipv4Addr;

use super::*;
use crate::{IpProtocol, Lid, LinkNextHeader, Opcode, Psn, Qpn, ROCE_V2_PORT};

/// The example of IBA 7.8 (table 29): an RDMA WRITE of 14 bytes inside a subnet.
#[test]
fn the_specifications_example_of_a_local_packet() {
    let packet = [
        0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2, // LRH
        0x0a, 0x20, 0x24, 0x87, 0x00, 0x87, 0xb1, 0xb3, 0x00, 0x0d, 0xec, 0x2a, // BTH
        0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02, // RETH
        0x38, 0xf2, 0x7a, 0x05, 0x00, 0x00, 0x00, 0x0e, //
        0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c, 0xfb, 0xa4, 0x72, 0x8b, 0xc0, 0x69, 0x0e, 0xd4, 0, 0,
        0x96, 0x25, 0xb7, 0x5a, // ICRC
    ];
    let (header, rest) = Lrh::parse(&packet).expect("long enough");
    assert_eq!(header.next, LinkNextHeader::Bth);
    assert_eq!(header.destination, Lid(0x375c));
    assert_eq!(usize::from(header.packet_words) * 4, packet.len());
    let (transport, icrc) = split(rest).expect("long enough");
    assert_eq!(lrh(&header, transport), icrc);
    // The virtual lane and the variant byte of the BTH do not count; the source does.
    let mut varied = transport.to_vec();
    varied[4] = 0xa5;
    assert_eq!(lrh(&Lrh { virtual_lane: 2, ..header }, &varied), icrc);
    assert_ne!(lrh(&Lrh { source: Lid(1), ..header }, transport), icrc);
}

/// A SEND that rdma_rxe sent to itself, as Scapy's tests have it.
#[test]
fn an_unreliable_send_over_ipv4() {
    let address = Ipv4Addr::new(192, 168, 0, 7);
    let mut transport = vec![0; Bth::LENGTH];
    let bth = Bth::new(Opcode::UC_SEND_ONLY, Qpn::new(211), Psn::new(13_571_856));
    Bth { pad: 2, ..bth }.emit(&mut transport);
    transport.extend(b"F0\x81\x8b\xe2\x895\xd9\x0e\x9a\x95PT\x01\xbe\x88^P\x00\x00");
    let header = Ipv4 {
        type_of_service: 1,
        identification: 1144,
        ..Ipv4::new(address, address, IpProtocol::UDP, 44)
    };
    let udp = Udp::new(49152, ROCE_V2_PORT, 36);
    assert_eq!(to_wire(ipv4(&header, &udp, &transport)), [0x78, 0xf3, 0x53, 0xf3]);
}

/// A congestion notification from a ConnectX-4 Lx, as Scapy's tests have it.
#[test]
fn a_congestion_notification_of_a_hardware_adapter() {
    let packet = [
        0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11,
        0x01, 0x0a, 0x00, 0x12, 0x01, // IPv4
        0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, // UDP
        0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00, // BTH
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // reserved
        0x82, 0xfd, 0x00, 0x2a, // ICRC
    ];
    let (header, rest) = Ipv4::parse(&packet).expect("well-formed");
    let (udp, rest) = Udp::parse(rest).expect("well-formed");
    let (transport, icrc) = split(rest).expect("long enough");
    assert_eq!(ipv4(&header, &udp, transport), icrc);

    let hidden = Ipv4 { identification: 0, dont_fragment: false, ..header };
    let computed = ipv4(&hidden, &udp, transport);
    assert_eq!(ipv4_word(icrc, computed, IPV4_WORD_TO_BTH + transport.len()), 0x718c_4000);
}

/// A GRH has the layout of an IPv6 header, so a CRC over IPv6, which the captures hold against
/// the kernel's, says what one over a GRH must be when nothing of UDP is there.
#[test]
fn a_grh_counts_like_an_ipv6_header_without_udp() {
    let header = Grh {
        traffic_class: 0x12,
        flow_label: 0x3_4567,
        hop_limit: 9,
        ..Grh::new(crate::Gid([0xfe; 16]), crate::Gid([0x20; 16]), 16)
    };
    let transport = [0x5a; 12];
    let mut bytes = vec![0xff; 8];
    bytes.extend([0x6f, 0xff, 0xff, 0xff, 0x00, 0x10, 0x1b, 0xff]);
    bytes.extend([0xfe; 16]);
    bytes.extend([0x20; 16]);
    bytes.extend([0x5a, 0x5a, 0x5a, 0x5a, 0xff, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a]);
    assert_eq!(grh(&header, &transport), crc32fast::hash(&bytes));
}

#[test]
fn bytes_too_short_for_a_bth_have_a_crc_too() {
    let header = Lrh::default();
    let crcs: Vec<u32> = (0..16).map(|length| lrh(&header, &[0; 16][..length])).collect();
    for (index, crc) in crcs.iter().enumerate() {
        assert!(!crcs[..index].contains(crc), "length {index}");
    }
    assert_eq!(split(&[1, 2, 3]), None);
}

#[test]
fn a_prefix_follows_its_identification() {
    let address = Ipv4Addr::new(10, 1, 2, 3);
    let udp = Udp::new(50_000, ROCE_V2_PORT, 24);
    let prefix = |identification| {
        let header = Ipv4::new(address, address, IpProtocol::UDP, 32);
        Prefix::ipv4(&Ipv4 { identification, ..header }, &udp)
    };
    for identification in (0..16).map(|bit| 1 << bit).chain([0, 127, 0xbeef, 0xffff]) {
        assert_eq!(prefix(0).with_identification_changed(identification), prefix(identification));
        assert_eq!(
            prefix(0x1234).with_identification_changed(identification),
            prefix(0x1234 ^ identification)
        );
    }
}
