//! What a port sends and receives is written down as it was on the wire.

mod pair;

use converb_driver::Port;
use converb_link::Settings;
use pair::*;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("converb-{name}-{}.pcapng", std::process::id())))
    }

    /// The payloads of the datagrams in it, each with its comment, sent ones first.
    fn packets(&self) -> Vec<(bool, Vec<u8>, String)> {
        let bytes = std::fs::read(&self.0).expect("a file");
        let mut rest = &bytes[..];
        let mut found = Vec::new();
        while !rest.is_empty() {
            let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            let length = word(4) as usize;
            if word(0) == 6 {
                let packet = &rest[28..28 + word(20) as usize];
                let mut options = &rest[28 + packet.len().next_multiple_of(4)..length - 4];
                let (mut comment, mut is_sent) = (String::new(), false);
                loop {
                    let half = |at: usize| u16::from_le_bytes([options[at], options[at + 1]]);
                    let value = &options[4..4 + usize::from(half(2))];
                    match half(0) {
                        0 => break,
                        1 => comment = String::from_utf8(value.to_vec()).unwrap(),
                        2 => is_sent = value[0] & 3 == 2,
                        other => panic!("option {other}"),
                    }
                    options = &options[4 + value.len().next_multiple_of(4)..];
                }
                let headers = if packet[0] >> 4 == 4 { 28 } else { 48 };
                found.push((is_sent, packet[headers..].to_vec(), comment));
            }
            rest = &rest[length..];
        }
        found.sort_by_key(|(is_sent, ..)| !is_sent);
        found
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pair_with(file: &File, faults: &str) -> Pair {
    let capture = Some(file.0.clone());
    let faults = if faults.is_empty() { Default::default() } else { faults.parse().unwrap() };
    let settings = Settings { capture, faults, ..Settings::default() };
    Pair::with(IpAddr::V6(Ipv6Addr::UNSPECIFIED), settings)
}

#[test]
fn both_sides_write_down_the_same_packets() {
    for (name, ip) in [("capture-4", LOOPBACK_4), ("capture-6", LOOPBACK_6)] {
        let file = File::new(name);
        let pair = pair_with(&file, "");
        let sent: Vec<_> = (0..20).map(|number| packet(number, 1000)).collect();
        send_all(&pair.sender, &path(ip), &sent);
        let mut incoming = pair.receiver.new_incoming();
        assert_eq!(receive_all(&pair.receiver, &mut incoming, 20).len(), 20);
        pair.receiver.receive(&mut incoming);
        let packets = file.packets();
        assert_eq!(packets.len(), 40);
        for (index, (is_sent, bytes, comment)) in packets.iter().enumerate() {
            assert_eq!((*is_sent, comment.as_str()), (index < 20, ""));
            let (transport, icrc) = bytes.split_at(1000);
            assert_eq!(transport, sent[index % 20]);
            // The CRC is there as it was sent, over the Identification that is written down too.
            assert_eq!(icrc, &packets[(index + 20) % 40].1[1000..]);
        }
        assert_eq!(count(&pair.sender, "captured_packets"), 20);
    }
}

#[test]
fn drops_have_a_comment() {
    let file = File::new("capture-drops");
    let pair = pair_with(&file, "tx:drop=100%");
    send_all(&pair.sender, &path(LOOPBACK_4), &[packet(1, 100)]);
    let forger = Forger::new(LOOPBACK_4, pair.udp_port);
    forger.send(&[1, 2, 3]);
    forger.send(&packet(2, 100));
    let mut incoming = pair.receiver.new_incoming();
    assert_eq!(receive_all(&pair.receiver, &mut incoming, 1).len(), 0);
    let comments: Vec<_> = file.packets().into_iter().map(|(.., comment)| comment).collect();
    assert_eq!(comments.len(), 3, "{comments:?}");
    assert!(comments[0].contains("on purpose"));
    assert!(comments[1].contains("shorter"));
    assert!(comments[2].contains("invariant CRC is wrong"));
}

fn error_of(capture: &Path) -> String {
    let settings = Settings { capture: Some(capture.into()), ..Settings::default() };
    let (socket, _) = slot_socket(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    let slot = converb_link::Slot { index: SLOT, socket };
    let error = converb_link::UdpPort::new(vec![slot], settings).err();
    error.expect("such a file cannot be written").to_string()
}

#[test]
fn a_file_that_cannot_be_written_is_named_at_the_start() {
    let full = error_of(Path::new("/dev/full"));
    assert!(full.starts_with("cannot capture to /dev/full: No space left"), "{full}");
    let folder = error_of(Path::new("/"));
    assert!(folder.starts_with("cannot capture to /: Is a directory"), "{folder}");
    // Nobody reads that pipe, and nobody waits until somebody does.
    let pipe = std::env::temp_dir().join(format!("converb-pipe-{}", std::process::id()));
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).expect("a pipe can be made");
    let nobody = error_of(&pipe);
    std::fs::remove_file(&pipe).expect("it is there");
    assert!(nobody.contains("No such device or address"), "{nobody}");
}
