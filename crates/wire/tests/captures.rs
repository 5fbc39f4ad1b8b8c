//! Every packet that the kernel's soft RDMA sent, as captured: it parses, its invariant CRC is
//! right, and written again it has the same bytes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use converb_wire::{Opcode, icrc};
use walk::Below;

mod pcap;
mod walk;

#[test]
fn every_captured_packet_parses_and_is_written_again_the_same() {
    let mut opcodes = BTreeSet::new();
    for (name, frames_expected, packets_expected) in CAPTURES {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/captures/{name}.pcap"));
        let file = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let frames = pcap::frames(&file);
        assert_eq!(frames.len(), frames_expected, "frames in {name}");

        let mut packets = 0;
        for (number, frame) in (1..).zip(frames) {
            // For what is not RoCE (TCP, IGMP with options, neighbours) the walk through Ethernet
            // and IP, with its assertions, is the test.
            let Some(roce) = walk::frame(frame) else { continue };
            packets += 1;
            let place = format!("frame {number} of {name}");
            assert_eq!(roce.icrc_received, roce.icrc_computed, "CRC, {place}");
            assert_eq!(roce.transport.len() % 4, 0, "length, {place}");
            match roce.packet {
                Ok(packet) => opcodes.insert(packet.bth().opcode),
                Err(error) => panic!("{error}: {place}"),
            };
            if let Below::Ipv4(header, udp) = roce.below {
                assert_eq!(header.checksum, header.right_checksum(), "checksum, {place}");
                // As a receiver does it, who sees neither identification nor flags.
                let mut seen = header;
                seen.set_fragment_word(0);
                let computed = icrc::ipv4(&seen, &udp, roce.transport);
                let distance = icrc::IPV4_WORD_TO_BTH + roce.transport.len();
                let word = icrc::ipv4_word(roce.icrc_received, computed, distance);
                assert_eq!(word, header.fragment_word(), "recovered word, {place}");
                assert!(header.dont_fragment, "rdma_rxe sets DF, {place}");
            }
        }
        assert_eq!(packets, packets_expected, "RoCE packets in {name}");
    }
    let seen: Vec<Opcode> = opcodes.into_iter().collect();
    assert_eq!(seen, OPCODES);
}

#[test]
fn a_flipped_bit_anywhere_but_in_the_masked_byte_breaks_the_crc() {
    for name in ["rxe-rping", "rxe-rping-ipv6"] {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/captures/{name}.pcap"));
        let file = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let frame = pcap::frames(&file)
            .into_iter()
            .find(|frame| walk::frame(frame).is_some())
            .expect("the capture has RoCE packets");
        let transport = walk::frame(frame).expect("it was found so").transport;
        // Behind the transport there is only the CRC.
        let bth = frame.len() - icrc::LENGTH - transport.len();
        for bit in bth * 8..frame.len() * 8 {
            let mut flipped = frame.to_vec();
            flipped[bit / 8] ^= 0x80 >> (bit % 8);
            let roce = walk::frame(&flipped).expect("nothing below the transport has changed");
            let masked = bit / 8 == bth + 4;
            assert_eq!(roce.icrc_received == roce.icrc_computed, masked, "bit {bit} of {name}");
        }
    }
}

/// All opcodes that occur in the captures.
const OPCODES: [Opcode; 25] = [
    Opcode::RC_SEND_FIRST,
    Opcode::RC_SEND_MIDDLE,
    Opcode::RC_SEND_LAST,
    Opcode::RC_SEND_ONLY,
    Opcode::RC_SEND_ONLY_IMMEDIATE,
    Opcode::RC_WRITE_FIRST,
    Opcode::RC_WRITE_MIDDLE,
    Opcode::RC_WRITE_LAST,
    Opcode::RC_WRITE_ONLY,
    Opcode::RC_WRITE_ONLY_IMMEDIATE,
    Opcode::RC_READ_REQUEST,
    Opcode::RC_READ_RESPONSE_FIRST,
    Opcode::RC_READ_RESPONSE_MIDDLE,
    Opcode::RC_READ_RESPONSE_LAST,
    Opcode::RC_READ_RESPONSE_ONLY,
    Opcode::RC_ACKNOWLEDGE,
    Opcode::RC_ATOMIC_ACKNOWLEDGE,
    Opcode::RC_COMPARE_SWAP,
    Opcode::RC_FETCH_ADD,
    Opcode::RC_SEND_ONLY_INVALIDATE,
    Opcode::UC_SEND_FIRST,
    Opcode::UC_SEND_MIDDLE,
    Opcode::UC_SEND_LAST,
    Opcode::UD_SEND_ONLY,
    Opcode::UD_SEND_ONLY_IMMEDIATE,
];

/// File, frames, and RoCE packets among them.
const CAPTURES: [(&str, usize, usize); 32] = [
    ("rxe-atomic-cmpswap", 86, 86),
    ("rxe-atomic-fadd", 84, 84),
    ("rxe-cm-reject", 2, 2),
    ("rxe-iser", 110, 110),
    ("rxe-mckey-mcast", 11, 3),
    ("rxe-nfs", 110, 110),
    ("rxe-nvme", 110, 110),
    ("rxe-rc-pingpong", 35, 24),
    ("rxe-rds", 110, 110),
    ("rxe-read", 112, 112),
    ("rxe-rnbd", 110, 110),
    ("rxe-rping-ipv6", 31, 29),
    ("rxe-rping", 29, 29),
    ("rxe-rstream", 25, 25),
    ("rxe-send", 92, 90),
    ("rxe-smb", 110, 110),
    ("rxe-smc", 110, 101),
    ("rxe-srp", 110, 110),
    ("rxe-srq-pingpong", 85, 16),
    ("rxe-uc-pingpong", 29, 18),
    ("rxe-ud-pingpong", 17, 6),
    ("rxe-udaddy-sidr", 8, 8),
    ("rxe-write", 112, 110),
    ("siw-nfs", 110, 0),
    ("siw-nvme", 110, 0),
    ("siw-read", 121, 0),
    ("siw-rping", 26, 0),
    ("siw-rstream", 39, 0),
    ("siw-send", 91, 0),
    ("siw-smb", 110, 0),
    ("siw-srp", 110, 0),
    ("siw-write", 100, 0),
];
