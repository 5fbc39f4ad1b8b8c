//! What Linux's communication manager sent over `rdma_rxe`, as captured: it parses, says what
//! tshark reads in it, and written again it has the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use converb_cm::mad::{Header, MAD_SIZE};
use converb_cm::message::{
    self, AdditionalInformation, DisconnectReply, DisconnectRequest, EnhancedConnection,
    IpAddresses, IpHeader, Message, MessageRejected, PortSpace, PrivateData, ReadyToUse, Reason,
    Reject, Reply, Request, ServiceId, ServiceReply, ServiceRequest, ServiceStatus,
    TransportServiceType,
};
use converb_wire::{Gid, Lid, Psn, Qpn};

#[path = "../../wire/tests/pcap/mod.rs"]
mod pcap;
mod survival;
#[path = "../../wire/tests/walk/mod.rs"]
mod walk;

/// The management datagrams in a capture, which lies with the formats of packets.
fn datagrams(name: &str) -> Vec<[u8; MAD_SIZE]> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../wire/tests/captures/{name}.pcap"));
    let file = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let frames = pcap::frames(&file);
    let packets = frames.into_iter().filter_map(|frame| walk::frame(frame)?.packet.ok());
    packets
        .filter(|packet| packet.bth().destination == Qpn::GSI)
        .map(|packet| packet.payload().try_into().expect("a management datagram has 256 bytes"))
        .collect()
}

/// The messages in a capture, with their transaction ids.
fn messages(name: &str) -> Vec<(u64, Message)> {
    let parse = |mad: &[u8; MAD_SIZE]| {
        let (header, message) = Message::parse(mad).expect("Linux sends what is right");
        (header.transaction_id, message)
    };
    datagrams(name).iter().map(parse).collect()
}

#[test]
fn every_captured_message_is_written_again_the_same() {
    let mut seen = BTreeMap::new();
    for name in CAPTURES {
        let datagrams = datagrams(name);
        assert!(!datagrams.is_empty(), "{name} has no management datagrams");
        for (number, mad) in (1..).zip(datagrams) {
            match survival::message(&mad) {
                Ok((_, again)) => assert_eq!(again, mad, "datagram {number} of {name}"),
                Err(error) => panic!("{error}: datagram {number} of {name}"),
            }
            let header = Header::parse(&mad).expect("it was just parsed");
            *seen.entry(header.attribute_id).or_insert(0) += 1;
        }
    }
    let expected = [
        (Request::ATTRIBUTE, 24),
        (Reject::ATTRIBUTE, 2),
        (Reply::ATTRIBUTE, 22),
        (ReadyToUse::ATTRIBUTE, 22),
        (DisconnectRequest::ATTRIBUTE, 16),
        (DisconnectReply::ATTRIBUTE, 16),
        (ServiceRequest::ATTRIBUTE, 1),
        (ServiceReply::ATTRIBUTE, 1),
    ];
    assert_eq!(seen, BTreeMap::from(expected));
}

/// Captures with messages of connection management.
const CAPTURES: [&str; 17] = [
    "rxe-atomic-cmpswap",
    "rxe-atomic-fadd",
    "rxe-cm-reject",
    "rxe-iser",
    "rxe-nfs",
    "rxe-nvme",
    "rxe-rds",
    "rxe-read",
    "rxe-rnbd",
    "rxe-rping",
    "rxe-rping-ipv6",
    "rxe-rstream",
    "rxe-send",
    "rxe-smb",
    "rxe-srp",
    "rxe-udaddy-sidr",
    "rxe-write",
];

const CLIENT: u32 = 0x7db0_8dff;
const SERVER: u32 = 0xe4b3_43e8;

/// The flow label is what the specification's figure makes of the bytes 4b d0 b0 00. tshark 4.0
/// shows 0x004bd, for it reads one byte less than its mask is made for.
#[test]
fn rping_asks_for_a_connection() {
    let messages = messages("rxe-rping");
    let (transaction, Message::Request(request)) = messages[0] else { panic!("{messages:?}") };
    assert_eq!(transaction, 0x0000_0002_ff8d_b07d);
    let primary = message::Path {
        local_lid: Lid(0xffff),
        remote_lid: Lid(0xffff),
        local_gid: Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 3]),
        remote_gid: Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 2]),
        flow_label: 0x4bd0b,
        packet_rate: 0,
        traffic_class: 0,
        hop_limit: 0x40,
        service_level: 0,
        subnet_local: false,
        local_ack_timeout: 0x13,
    };
    let header = IpHeader {
        minor_version: 0,
        source_port: 0xaa5b,
        addresses: IpAddresses::V4 {
            source: [10, 77, 0, 3].into(),
            destination: [10, 77, 0, 2].into(),
        },
    };
    let expected = Request {
        local_communication_id: CLIENT,
        enhanced: EnhancedConnection::default(),
        service_id: ServiceId::ip(PortSpace::TCP, 0x1c06),
        local_ca_guid: 0x5054_00ff_fe77_0002,
        local_qpn: Qpn::new(0x11),
        responder_resources: 1,
        initiator_depth: 1,
        remote_cm_response_timeout: 0x14,
        transport_service_type: TransportServiceType::RELIABLE_CONNECTION,
        starting_psn: Psn::new(0x05_f41a),
        local_cm_response_timeout: 0x14,
        retry_count: 7,
        partition_key: 0xffff,
        path_packet_payload_mtu: 3,
        rnr_retry_count: 7,
        max_cm_retries: 0xf,
        primary,
        private_data: header.before(&[]).expect("nothing fits"),
        ..Request::default()
    };
    assert_eq!(request, expected);
}

#[test]
fn rping_is_accepted_and_disconnects() {
    let reply = Reply {
        local_communication_id: SERVER,
        remote_communication_id: CLIENT,
        local_qpn: Qpn::new(0x11),
        starting_psn: Psn::new(0x73_6695),
        responder_resources: 1,
        initiator_depth: 1,
        target_ack_delay: 0xf,
        rnr_retry_count: 7,
        local_ca_guid: 0x5054_00ff_fe77_0001,
        ..Reply::default()
    };
    let ready = ReadyToUse {
        local_communication_id: CLIENT,
        remote_communication_id: SERVER,
        private_data: PrivateData::EMPTY,
    };
    let disconnect = DisconnectRequest {
        local_communication_id: CLIENT,
        remote_communication_id: SERVER,
        remote_qpn_or_eecn: Qpn::new(0x11),
        private_data: PrivateData::EMPTY,
    };
    let disconnected = DisconnectReply {
        local_communication_id: SERVER,
        remote_communication_id: CLIENT,
        private_data: PrivateData::EMPTY,
    };
    let expected = [
        Message::Reply(reply),
        Message::ReadyToUse(ready),
        Message::DisconnectRequest(disconnect),
        Message::DisconnectReply(disconnected),
    ];
    let messages = messages("rxe-rping");
    assert!(messages.iter().all(|(transaction, _)| *transaction == messages[0].0));
    let messages: Vec<Message> = messages.into_iter().map(|(_, message)| message).collect();
    assert_eq!(messages[1..], expected);
}

#[test]
fn ipv6_addresses_are_in_the_path_and_in_the_private_data() {
    let messages = messages("rxe-rping-ipv6");
    let (_, Message::Request(request)) = messages[0] else { panic!("{messages:?}") };
    let [source, destination] = ["fd77::3", "fd77::2"].map(|text| text.parse().expect("IPv6"));
    let (header, consumer) =
        IpHeader::parse(request.private_data.as_bytes()).expect("rping connects IP addresses");
    assert_eq!(header.addresses, IpAddresses::V6 { source, destination });
    assert_eq!(header.source_port, 0xbb31);
    assert_eq!(consumer, [0; 56]);
    assert_eq!(request.primary.local_gid, Gid(source.octets()));
    assert_eq!(request.primary.remote_gid, Gid(destination.octets()));
    assert_eq!(request.primary.flow_label, 0x6c6f5);
}

#[test]
fn a_port_that_nobody_listens_at_is_an_invalid_service() {
    let messages = messages("rxe-cm-reject");
    let (_, Message::Request(request)) = messages[0] else { panic!("{messages:?}") };
    assert_eq!(request.service_id.ip_port(), Some((PortSpace::TCP, 9999)));
    let expected = Reject {
        local_communication_id: 0,
        remote_communication_id: request.local_communication_id,
        message_rejected: MessageRejected::REQUEST,
        reason: Reason::INVALID_SERVICE_ID,
        additional_information: AdditionalInformation::EMPTY,
        private_data: PrivateData::EMPTY,
    };
    assert_eq!(messages[1].1, Message::Reject(expected));
}

/// What tshark 4.0 does not know.
#[test]
fn udaddy_asks_for_the_queue_pair_of_a_service() {
    let header = IpHeader {
        minor_version: 0,
        source_port: 0xaf8a,
        addresses: IpAddresses::V4 {
            source: [10, 77, 0, 3].into(),
            destination: [10, 77, 0, 2].into(),
        },
    };
    let request = ServiceRequest {
        request_id: 0x70b0_8dff,
        partition_key: 0xffff,
        service_id: ServiceId::ip(PortSpace::UDP, 7174),
        private_data: header.before(&[]).expect("nothing fits"),
    };
    let reply = ServiceReply {
        request_id: 0x70b0_8dff,
        status: ServiceStatus::VALID,
        qpn: Qpn::new(0x22),
        service_id: ServiceId::ip(PortSpace::UDP, 7174),
        qkey: 0x0123_4567,
        ..ServiceReply::default()
    };
    let messages: Vec<Message> =
        messages("rxe-udaddy-sidr").into_iter().map(|(_, message)| message).collect();
    assert_eq!(messages, [Message::ServiceRequest(request), Message::ServiceReply(reply)]);
}

#[test]
fn the_kernels_own_protocols_use_flow_control_and_private_data() {
    let messages = messages("rxe-srp");
    let (_, Message::Reply(reply)) = messages[1] else { panic!("{messages:?}") };
    assert!(reply.end_to_end_flow_control);
    assert_eq!((reply.responder_resources, reply.initiator_depth), (4, 4));
    assert_eq!(reply.private_data.as_bytes()[..8], [0xc0, 0, 0, 0, 0, 0, 0, 0x80]);
}
