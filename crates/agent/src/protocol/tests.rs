use super::*;
use crate::services::{At, Service};
use converb_cm::mad::MAD_SIZE;
use converb_cm::message::ServiceId;
use converb_engine::Address;

fn service(at: At) -> Service {
    Service { id: ServiceId(0x0106_1234), at, is_listening: true, is_shared: false }
}

fn requests() -> Vec<Request> {
    let program = Name::new("ib_write_bw");
    vec![
        Request::Hello(Hello { role: Role::Join { slots: 3, is_carried: false }, program }),
        Request::Hello(Hello { role: Role::Join { slots: 4, is_carried: true }, program }),
        Request::Hello(Hello {
            role: Role::Rejoin {
                group: 0x0123_4567_89ab_cdef,
                slots: vec![1, 2, 1022],
                wants_descriptors: true,
                is_carried: true,
            },
            program,
        }),
        Request::Hello(Hello { role: Role::Observe, program }),
        Request::Leave,
        Request::RingQuery { slot: 1022 },
        Request::StatusQuery,
        Request::MembersQuery { from: 32 },
        Request::CountersQuery { index: 2 },
        Request::FailuresQuery { from: 40 },
        Request::Letter { slot: 9, bytes: (0..64).collect() },
        Request::TakeOver { slot: 10 },
        Request::Serve { token: 7, service: service(At::All { v4: true, v6: false }) },
        Request::ServeNoMore {
            service: service(At::One { ip: "fe80::1".parse().unwrap(), scope: 3 }),
        },
        Request::Remember { id: 5, words: datagram() },
        Request::Forget { id: 5 },
        Request::Stop { force: true },
        Request::Stop { force: false },
    ]
}

fn datagram() -> ManagementDatagram {
    ManagementDatagram {
        source: Address::Udp { ip: "::ffff:10.0.0.1".parse().unwrap(), scope: 0 },
        local: Address::Udp { ip: "fe80::1".parse().unwrap(), scope: 3 },
        traffic_class: 1,
        hop_limit: 64,
        mad: Box::new([9; MAD_SIZE]),
    }
}

fn replies() -> Vec<Reply> {
    let entry = MemberEntry {
        pid: 12,
        uid: 65534,
        joined_ms: 1234,
        program: Name::new("a program with a long name"),
        slots: (1..65).collect(),
        is_carried: false,
    };
    let carried = MemberEntry { is_carried: true, slots: vec![7], ..entry.clone() };
    let failure = FailureEntry { pid: 9, program: Name::new("ib_send_bw"), words: [u64::MAX; 20] };
    let mut replies = vec![
        Reply::Welcome(Welcome { group: 7, slots: 17 }),
        Reply::CarriedWelcome(CarriedWelcome { group: 7, slots: 2, receive_buffer_bytes: 425_984 }),
        Reply::Slots(Slots { numbers: (1..=16).collect() }),
        Reply::Ring { slot: 3, generation: u64::MAX - 1 },
        Reply::Served { token: 7, served: Served::As(ServiceId(5)) },
        Reply::Served { token: 8, served: Served::InUse },
        Reply::Management(datagram()),
        Reply::Status(StatusReply {
            pid: 1,
            uid: 2,
            uptime_ms: 3,
            program_version: Name::new("0.1.0"),
            group: 4,
            slots_total: 16,
            slots_used: 3,
            slots_waiting: 1,
            members: 2,
            too_many_in_flight: true,
            is_successor: false,
            management_datagrams: 9,
            management_drops: 8,
            listeners: 9,
        }),
        Reply::Members(MembersReply {
            total: 700,
            entries: vec![entry.clone(); MembersReply::ENTRIES_MAX],
        }),
        Reply::Members(MembersReply { total: 2, entries: vec![entry, carried] }),
        Reply::Device(DeviceReply {
            devices: 3,
            name: Name::new("roce_lo"),
            counters: vec![(Name::new("rx_packets"), u64::MAX); DeviceReply::COUNTERS_MAX],
        }),
        Reply::Failures(FailuresReply {
            total: 64,
            entries: vec![failure; FailuresReply::ENTRIES_MAX],
        }),
        Reply::Letter { bytes: vec![1, 2, 3] },
        Reply::Delivered,
        Reply::Goodbye,
    ];
    replies.extend(
        [
            Refusal::Version,
            Refusal::OtherUser,
            Refusal::NoSlots { total: 1023, soon: true, too_many_in_flight: false },
            Refusal::NoSlots { total: 32, soon: false, too_many_in_flight: true },
            Refusal::SlotLost,
            Refusal::Malformed,
            Refusal::HasMembers { members: 4 },
            Refusal::Busy,
        ]
        .map(Reply::Refused),
    );
    replies
}

#[test]
fn every_message_comes_back_as_it_was_and_fits() {
    for request in requests() {
        let bytes = request.emit();
        assert!(bytes.len() <= MESSAGE_MAX);
        assert_eq!(Request::parse(&bytes), Ok(request));
    }
    for reply in replies() {
        let bytes = reply.emit();
        assert!(bytes.len() <= MESSAGE_MAX, "{} bytes", bytes.len());
        assert_eq!(Reply::parse(&bytes), Ok(reply));
    }
}

#[test]
fn a_shortened_message_is_malformed_and_a_longer_one_is_read() {
    for bytes in messages() {
        let is_request = Request::parse(&bytes).is_ok();
        for length in 0..bytes.len() {
            let short = &bytes[..length];
            assert!(if is_request {
                Request::parse(short).is_err()
            } else {
                Reply::parse(short).is_err()
            });
        }
        let longer = [&bytes[..], &[1, 2, 3]].concat();
        assert_eq!(Request::parse(&longer), Request::parse(&bytes));
        assert_eq!(Reply::parse(&longer), Reply::parse(&bytes));
    }
}

#[test]
fn random_and_damaged_bytes_never_panic() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let messages = messages();
    for round in 0..20_000 {
        let mut bytes = if round % 2 == 0 {
            (0..next() % 300).map(|_| next() as u8).collect::<Vec<_>>()
        } else {
            messages[next() as usize % messages.len()].clone()
        };
        if !bytes.is_empty() {
            let place = next() as usize % bytes.len();
            bytes[place] = next() as u8;
        }
        if bytes.len() >= 4 && round % 4 == 0 {
            bytes[..4].copy_from_slice(b"CVAG");
        }
        let _ = (Header::parse(&bytes), Request::parse(&bytes), Reply::parse(&bytes));
    }
}

#[test]
fn the_header_of_another_version_can_be_read() {
    let mut bytes = Request::Leave.emit();
    bytes[4] = 99;
    assert_eq!(Header::parse(&bytes).map(|header| header.version), Ok(99));
}

#[test]
fn names_are_cut_at_characters_and_cleaned() {
    assert_eq!(Name::<4>::new("abcdef").as_str(), "abcd");
    assert_eq!(Name::<4>::new("abcé").as_str(), "abc");
    assert_eq!(Name::from_bytes(*b"a\nb\0").as_str(), "a?b");
    assert_eq!(Name::from_bytes(*b"a\0b\0"), Name::<4>::new("a"));
    assert!(Name::<4>::default().is_empty());
}

fn messages() -> Vec<Vec<u8>> {
    let requests = requests().into_iter().map(|request| request.emit());
    requests.chain(replies().into_iter().map(|reply| reply.emit())).collect()
}
