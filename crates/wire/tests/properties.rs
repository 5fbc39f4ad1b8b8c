//! Every header survives being written and read back, whatever its fields hold, and no bytes at
//! all make a parser panic.

use converb_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, EtherType, Ethernet, Feth, Gid, Grh, Ieth, ImmDt,
    IpProtocol, Ipv4, Ipv4Options, Ipv6, Lid, LinkNextHeader, Lrh, Mac, Opcode, Psn, Qpn, Rdeth,
    Reth, Rkey, Syndrome, Udp, Vlan, XrcEth, icrc,
};
use proptest::collection::vec;
use proptest::prelude::*;

mod walk;

/// For one type of header of fixed length: `parse` gives back what `emit` wrote and leaves what
/// follows; `emit` gives back what `parse` read; what is too short is refused.
macro_rules! survives {
    ($($name:ident: $header:ident = $strategy:expr;)*) => {
        proptest! {
            $(
                #[test]
                fn $name(
                    header in $strategy,
                    after in vec(any::<u8>(), 0..9),
                    noise in any::<[u8; $header::LENGTH]>(),
                ) {
                    let mut bytes = vec![0xa5; $header::LENGTH];
                    header.emit(&mut bytes);
                    prop_assert_eq!($header::parse(&bytes[1..]), None);
                    bytes.extend(&after);
                    prop_assert_eq!($header::parse(&bytes), Some((header, &after[..])));

                    if let Some((read, rest)) = $header::parse(&noise) {
                        prop_assert!(rest.is_empty());
                        let mut written = [0; $header::LENGTH];
                        read.emit(&mut written);
                        prop_assert_eq!(written, noise);
                    }
                }
            )*
        }
    };
}

survives! {
    bth_survives: Bth = bth();
    rdeth_survives: Rdeth = (bits(24), any::<u8>())
        .prop_map(|(end_to_end_context, reserved)| Rdeth { end_to_end_context, reserved });
    deth_survives: Deth = (any::<u32>(), qpn(), any::<u8>())
        .prop_map(|(queue_key, source, reserved)| Deth { queue_key, source, reserved });
    xrceth_survives: XrcEth = (qpn(), any::<u8>())
        .prop_map(|(shared_receive_queue, reserved)| XrcEth { shared_receive_queue, reserved });
    feth_survives: Feth = (0..16_u8, 0..4_u8, bits(26)).prop_map(
        |(placement, selectivity, reserved)| Feth { placement, selectivity, reserved },
    );
    reth_survives: Reth = (any::<u64>(), rkey(), any::<u32>())
        .prop_map(|(address, rkey, length)| Reth { address, rkey, length });
    atomic_eth_survives: AtomicEth = (any::<u64>(), rkey(), any::<u64>(), any::<u64>()).prop_map(
        |(address, rkey, swap_or_add, compare)| AtomicEth { address, rkey, swap_or_add, compare },
    );
    aeth_survives: Aeth = (any::<u8>(), bits(24))
        .prop_map(|(byte, msn)| Aeth { syndrome: Syndrome::from_byte(byte), msn });
    atomic_ack_eth_survives: AtomicAckEth =
        any::<u64>().prop_map(|original| AtomicAckEth { original });
    immdt_survives: ImmDt = any::<u32>().prop_map(ImmDt);
    ieth_survives: Ieth = rkey().prop_map(Ieth);
    ethernet_survives: Ethernet = (any::<[u8; 6]>(), any::<[u8; 6]>(), any::<u16>()).prop_map(
        |(destination, source, ether_type)| Ethernet {
            destination: Mac(destination),
            source: Mac(source),
            ether_type: EtherType(ether_type),
        },
    );
    vlan_survives: Vlan = (0..8_u8, any::<bool>(), 0..4096_u16, any::<u16>()).prop_map(
        |(priority, drop_eligible, id, ether_type)| Vlan {
            priority,
            drop_eligible,
            id,
            ether_type: EtherType(ether_type),
        },
    );
    udp_survives: Udp = (any::<u16>(), any::<u16>(), 8..=u16::MAX, any::<u16>()).prop_map(
        |(source_port, destination_port, length, checksum)| Udp {
            source_port,
            destination_port,
            length,
            checksum,
        },
    );
    ipv6_survives: Ipv6 = ipv6();
    grh_survives: Grh = ipv6().prop_map(Grh::from);
    lrh_survives: Lrh = lrh();
}

proptest! {
    #[test]
    fn ipv4_survives(
        words in any::<[u32; 5]>(),
        options in vec(any::<[u8; 4]>(), 0..=10),
        after in vec(any::<u8>(), 0..9),
    ) {
        let options = options.concat();
        let mut header = Ipv4 {
            type_of_service: words[0] as u8,
            total_length: (words[0] >> 16).max(60) as u16,
            time_to_live: words[1] as u8,
            checksum: (words[1] >> 16) as u16,
            options: Ipv4Options::new(&options).expect("at most ten words"),
            ..Ipv4::new(words[2].into(), words[3].into(), IpProtocol((words[1] >> 8) as u8), 0)
        };
        header.set_fragment_word(words[4]);
        prop_assert_eq!(header.fragment_word(), words[4]);
        let mut bytes = vec![0xa5; header.length()];
        header.emit(&mut bytes);
        prop_assert_eq!(Ipv4::parse(&bytes[..bytes.len() - 1]), None);
        bytes.extend(&after);
        prop_assert_eq!(Ipv4::parse(&bytes), Some((header, &after[..])));
    }

    #[test]
    fn the_checksum_makes_the_sum_of_the_header_all_ones(
        words in any::<[u32; 5]>(),
        options in vec(any::<[u8; 4]>(), 0..=10),
    ) {
        let options = options.concat();
        let mut header = Ipv4 {
            total_length: words[0] as u16,
            options: Ipv4Options::new(&options).expect("at most ten words"),
            ..Ipv4::new(words[2].into(), words[3].into(), IpProtocol::UDP, 0)
        };
        header.set_fragment_word(words[4]);
        header.checksum = header.right_checksum();
        let mut bytes = vec![0; header.length()];
        header.emit(&mut bytes);
        let mut sum: u32 =
            bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        prop_assert_eq!(sum, 0xffff);
    }

    #[test]
    fn a_packet_of_any_opcode_is_written_again_the_same(
        opcode in any::<u8>(),
        flags in any::<u8>(),
        body in vec(any::<[u8; 4]>(), 0..40),
        cut in 0..8_usize,
    ) {
        let mut bytes = vec![opcode, flags & 0xf0];
        bytes.extend([0; 10]);
        bytes.extend(body.concat());
        // Parsed or refused, the walk asserts what it reads.
        let _ = walk::packet(&bytes);
        let _ = walk::packet(&bytes[..bytes.len().saturating_sub(cut)]);
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let _ = walk::packet(&bytes);
        let _ = walk::frame(&bytes);
        let _ = walk::infiniband(&bytes);
        let _ = icrc::split(&bytes);
    }

    #[test]
    fn bytes_behind_any_ether_type_are_parsed_or_refused(
        ether_type in prop::sample::select(&[0x0800_u16, 0x8100, 0x86dd, 0x8915]),
        first in prop::sample::select(&[0x45_u8, 0x46, 0x4f, 0x60, 0x00]),
        protocol in prop::sample::select(&[17_u8, 0x1b]),
        lengths in any::<bool>(),
        mut bytes in vec(any::<u8>(), 14..200),
    ) {
        bytes[12..14].copy_from_slice(&ether_type.to_be_bytes());
        // Enough is put right for the walk to get to the transport now and then.
        if let Some(ip) = bytes.get_mut(14..).filter(|ip| ip.len() > 60 && lengths) {
            let length = ip.len() as u16;
            ip[0] = first;
            if first >> 4 == 4 {
                ip[2..4].copy_from_slice(&length.to_be_bytes());
                ip[9] = protocol;
            } else {
                ip[4..6].copy_from_slice(&(length - 40).to_be_bytes());
                ip[6] = protocol;
            }
            let udp = if first >> 4 == 4 { usize::from(first & 0xf) * 4 } else { 40 };
            if let Some(udp) = ip.get_mut(udp..).filter(|udp| udp.len() >= 8) {
                let length = udp.len() as u16;
                udp[2..4].copy_from_slice(&4791_u16.to_be_bytes());
                udp[4..6].copy_from_slice(&length.to_be_bytes());
            }
        }
        let _ = walk::frame(&bytes);
    }
}

fn bits(count: u32) -> impl Strategy<Value = u32> + Clone {
    any::<u32>().prop_map(move |value| value >> (32 - count))
}

fn qpn() -> impl Strategy<Value = Qpn> {
    any::<u32>().prop_map(Qpn::new)
}

fn rkey() -> impl Strategy<Value = Rkey> {
    any::<u32>().prop_map(Rkey)
}

fn bth() -> impl Strategy<Value = Bth> {
    let flags = any::<[bool; 5]>();
    (any::<[u8; 5]>(), flags, any::<u16>(), qpn(), any::<u32>()).prop_map(
        |(bytes, flags, partition_key, destination, psn)| Bth {
            opcode: Opcode(bytes[0]),
            solicited: flags[0],
            migration: flags[1],
            pad: bytes[1] & 0x3,
            version: bytes[2] & 0xf,
            partition_key,
            fecn: flags[2],
            becn: flags[3],
            reserved_6: bytes[3] & 0x3f,
            destination,
            ack_request: flags[4],
            reserved_7: bytes[4] & 0x7f,
            psn: Psn::new(psn),
        },
    )
}

fn ipv6() -> impl Strategy<Value = Ipv6> {
    (any::<[u8; 3]>(), bits(20), any::<u16>(), any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(
        |(bytes, flow_label, payload_length, source, destination)| Ipv6 {
            traffic_class: bytes[0],
            flow_label,
            payload_length,
            next_header: IpProtocol(bytes[1]),
            hop_limit: bytes[2],
            source: Gid(source).into(),
            destination: Gid(destination).into(),
        },
    )
}

fn lrh() -> impl Strategy<Value = Lrh> {
    use LinkNextHeader::{Bth, Grh, Ipv6, Raw};
    let next = prop::sample::select(&[Raw, Ipv6, Bth, Grh]);
    (any::<[u8; 5]>(), any::<[u16; 3]>(), next).prop_map(|(bytes, words, next)| Lrh {
        virtual_lane: bytes[0] & 0xf,
        link_version: bytes[1] & 0xf,
        service_level: bytes[2] & 0xf,
        reserved_2: bytes[3] & 0x3,
        next,
        destination: Lid(words[0]),
        reserved_5: bytes[4] & 0x1f,
        packet_words: words[1] & 0x7ff,
        source: Lid(words[2]),
    })
}
