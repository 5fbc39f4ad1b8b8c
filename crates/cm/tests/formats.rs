//! All messages, whatever their fields hold: what is not reserved survives, and lies where the
//! specification puts it.

use std::fs;
use std::path::Path as FilePath;

use converb_cm::mad::{Header, MAD_SIZE};
use converb_cm::message::{
    AdditionalInformation, AlternatePathResponse, AlternatePathStatus, EnhancedConnection,
    LoadAlternatePath, Message, MessageMraed, Path, PrivateData, ReceiptAcknowledgment, Reply,
    Request, ServiceReply,
};
use converb_wire::{Gid, Lid, Qpn};
use proptest::prelude::*;

mod survival;

/// For each attribute, where reserved bits are: offset in the body, and the bits.
const RESERVED: [(u16, &[(usize, u8)]); 11] = [
    (0x10, IN_REQUEST),
    (0x11, &[(8, 0x3f), (9, 0x07)]),
    (0x12, &[(8, 0x3f), (9, 0x01)]),
    (0x13, &[(27, 0x0f)]),
    (0x14, &[]),
    (0x15, &[(11, 0xff)]),
    (0x16, &[]),
    (0x17, &[(6, 0xff), (7, 0xff)]),
    (0x18, &[]),
    (0x19, IN_LOAD_ALTERNATE_PATH),
    (0x1a, &[(10, 0xff), (11, 0xff)]),
];

#[rustfmt::skip] // A line for each field, or path.
const IN_REQUEST: &[(usize, u8)] = &[
    (4, 0xff),
    (24, 0xff), (25, 0xff), (26, 0xff), (27, 0xff),
    (90, 0x0f), (91, 0xc0), (94, 0x07), (95, 0x07),
    (134, 0x0f), (135, 0xc0), (138, 0x07), (139, 0x07),
];

#[rustfmt::skip] // A line for each field, or path.
const IN_LOAD_ALTERNATE_PATH: &[(usize, u8)] = &[
    (8, 0xff), (9, 0xff), (10, 0xff), (11, 0xff),
    (15, 0x07),
    (16, 0xff), (17, 0xff), (18, 0xff), (19, 0xff),
    (58, 0x0f), (61, 0xc0), (62, 0x07), (63, 0x07),
];

/// Where a message says how much of its additional information is used, and that all of it is.
const FULL_INFORMATION: [(u16, usize, u8); 3] = [(0x12, 9, 72 << 1), (0x18, 5, 72), (0x1a, 8, 72)];

fn datagram(attribute: u16, modifier: u32, body: &[u8]) -> [u8; MAD_SIZE] {
    let mut mad = [0; MAD_SIZE];
    mad[..4].copy_from_slice(&[1, 7, 2, 3]);
    mad[8..16].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad[20..24].copy_from_slice(&modifier.to_be_bytes());
    mad[Header::SIZE..].copy_from_slice(body);
    mad
}

fn body_of(message: Message) -> Vec<u8> {
    let mut mad = [0; MAD_SIZE];
    message.emit(0, &mut mad);
    mad[Header::SIZE..].to_vec()
}

proptest! {
    #[test]
    fn all_bits_survive_but_the_reserved(
        (attribute, reserved) in prop::sample::select(&RESERVED),
        mut body in prop::collection::vec(any::<u8>(), MAD_SIZE - Header::SIZE),
    ) {
        for (_, at, length) in FULL_INFORMATION.iter().filter(|full| full.0 == attribute) {
            body[*at] = *length;
        }
        let mad = datagram(attribute, 0, &body);
        let (_, again) = survival::message(&mad).expect("the attribute is known");
        for (at, mask) in reserved {
            body[*at] &= !mask;
        }
        prop_assert_eq!(&again[..], &datagram(attribute, 0, &body)[..]);
    }

    #[test]
    fn no_datagram_makes_the_parser_panic(
        bytes in prop::collection::vec(any::<u8>(), MAD_SIZE),
        attribute in 0..0x20_u16,
        is_message in any::<bool>(),
    ) {
        let mut mad: [u8; MAD_SIZE] = bytes.try_into().expect("as many as were asked for");
        if is_message {
            mad[..4].copy_from_slice(&[1, 7, 2, 3]);
            mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        }
        let parsed = survival::message(&mad);
        prop_assert_eq!(parsed.is_ok(), is_message && (0x10..=0x1a).contains(&attribute));
    }
}

#[test]
fn the_kept_inputs_of_the_fuzz_target_hold() {
    let folder =
        FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/connection_message");
    let mut attributes = Vec::new();
    for entry in fs::read_dir(&folder).expect("the corpus is in the tree") {
        let bytes = fs::read(entry.expect("the folder stays readable").path()).expect("a file");
        if let Some(mad) = bytes.first_chunk()
            && survival::message(mad).is_ok()
        {
            attributes.push(u16::from_be_bytes([mad[16], mad[17]]));
        }
    }
    attributes.sort_unstable();
    attributes.dedup();
    assert_eq!(attributes, RESERVED.map(|(attribute, _)| attribute));
}

#[test]
fn a_receipt_acknowledgment_says_what_has_come_and_how_long_it_takes() {
    let body = body_of(Message::ReceiptAcknowledgment(ReceiptAcknowledgment {
        local_communication_id: 0x0102_0304,
        remote_communication_id: 0x0506_0708,
        message_mraed: MessageMraed::LOAD_ALTERNATE_PATH,
        service_timeout: 0x15,
        private_data: PrivateData::new(&[0xaa]).expect("1 byte fits"),
    }));
    assert_eq!(body[..11], [1, 2, 3, 4, 5, 6, 7, 8, 0b1000_0000, 0b1010_1000, 0xaa]);
}

#[test]
fn an_alternate_path_lies_behind_the_connection() {
    let alternate = Path {
        local_lid: Lid(0x0a0b),
        remote_lid: Lid(0x0c0d),
        local_gid: Gid([0x11; 16]),
        remote_gid: Gid([0x22; 16]),
        ..Path::default()
    };
    let body = body_of(Message::LoadAlternatePath(LoadAlternatePath {
        local_communication_id: 0x0102_0304,
        remote_communication_id: 0x0506_0708,
        remote_qpn_or_eecn: Qpn::new(0x09_0a0b),
        remote_cm_response_timeout: 0x1f,
        alternate,
        private_data: PrivateData::new(&[0xaa]).expect("1 byte fits"),
    }));
    assert_eq!(body[..16], [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 9, 10, 11, 0b1111_1000]);
    assert_eq!(body[16..24], [0, 0, 0, 0, 0x0a, 0x0b, 0x0c, 0x0d]);
    assert_eq!(body[24..56], [[0x11; 16], [0x22; 16]].concat());
    assert_eq!(body[64], 0xaa);
}

#[test]
fn a_refused_path_is_explained() {
    let body = body_of(Message::AlternatePathResponse(AlternatePathResponse {
        local_communication_id: 0x0102_0304,
        remote_communication_id: 0x0506_0708,
        status: AlternatePathStatus::LID_REJECTED,
        additional_information: AdditionalInformation::new(&[0xbb, 0xcc]).expect("2 bytes fit"),
        private_data: PrivateData::new(&[0xaa]).expect("1 byte fits"),
    }));
    assert_eq!(body[..15], [1, 2, 3, 4, 5, 6, 7, 8, 2, 7, 0, 0, 0xbb, 0xcc, 0]);
    assert_eq!(body[84], 0xaa);
}

#[test]
fn the_vendor_of_an_enhanced_connection_is_where_reserved_fields_were() {
    let enhanced = EnhancedConnection { vendor_id: 0x00ab_cdef, attribute_modifier: 0x0123_4567 };
    let vendor = [0xab, 0xcd, 0xef];
    let request = Message::Request(Request { enhanced, ..Request::default() });
    let reply = Message::Reply(Reply { enhanced, ..Reply::default() });
    let service = Message::ServiceReply(ServiceReply { enhanced, ..ServiceReply::default() });
    for (message, places) in [(request, [5, 6, 7]), (reply, [15, 19, 23]), (service, [6, 7, 11])] {
        let mut mad = [0; MAD_SIZE];
        message.emit(0, &mut mad);
        assert_eq!(places.map(|place| mad[Header::SIZE + place]), vendor);
        assert_eq!(mad[20..24], [0x01, 0x23, 0x45, 0x67]);
    }
}

#[test]
fn values_beyond_their_fields_do_not_spill_into_others() {
    let request = Request { retry_count: 0xff, max_cm_retries: 0xff, ..Request::default() };
    let cut = Request { retry_count: 7, max_cm_retries: 0xf, ..Request::default() };
    assert_eq!(body_of(Message::Request(request)), body_of(Message::Request(cut)));
}
