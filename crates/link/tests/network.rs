//! What only a network shows: a queue that is full, sends that are cut up on the way, devices
//! without offloads, packets too long for it. Each part runs in a network namespace of its own.

mod pair;

use converb_driver::{Interest, Port, Sent};
use converb_engine::{Address, AddressVector};
use converb_link::{Settings, Slot, UdpPort};
use pair::*;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// The environment variable that makes this test program play a part.
const PART: &str = "CONVERB_TEST_PART";

/// Plays a part of [`parts`] in a new network namespace, after commands for the shell. Returns
/// what was printed.
fn play(part: &str, setup: &str) -> String {
    let program = std::env::current_exe().expect("this program");
    let script = format!("set -e; {setup}; exec \"$0\" --exact parts --nocapture");
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", &script])
        .arg(program)
        .env(PART, part)
        .output()
        .expect("unshare(1) is part of util-linux");
    assert!(output.status.success(), "{part}: {output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("played {part}\n")), "{text}");
    text.into_owned()
}

#[test]
fn a_full_queue_keeps_the_rest_until_there_is_room() {
    let shaped = "ip link set lo up; tc qdisc add dev lo root tbf rate 8mbit burst 100k latency 9s";
    play("full", shaped);
}

#[test]
fn segments_that_are_cut_up_on_the_way_are_good() {
    let cut = "ip link set lo up; \
               tc qdisc add dev lo root tbf rate 10gbit burst 20k latency 100ms";
    play("cut up", cut);
}

#[test]
fn a_device_that_computes_no_checksums_gets_all_packets() {
    // A pair of devices, one of which does not compute checksums: older kernels refuse to cut up
    // for it. The other is in a namespace of its own, where the packets are received.
    let setup = "ip link set lo up; ip link add near type veth peer name far; \
                 ethtool -K near tx off > /dev/null; \
                 ip address add 10.9.0.1/24 dev near; ip link set near up; \
                 CONVERB_TEST_PART='no checksums, receiver' unshare --net sh -ec ' \
                     until ip link show far > /dev/null 2>&1; do sleep 0.02; done; \
                     ip address add 10.9.0.2/24 dev far; ip link set far up; \
                     exec \"$0\" --exact parts --nocapture' \"$0\" & \
                 sleep 0.1; ip link set far netns $!; \
                 sleep 1";
    let text = play("no checksums", setup);
    assert!(text.contains("played no checksums, receiver\n"), "{text}");
}

#[test]
fn packets_longer_than_the_network_takes_are_counted() {
    play("too big", "ip link set lo up mtu 1500");
}

#[test]
fn unreachable_places_are_counted() {
    play("unreachable", "true");
}

#[test]
fn parts() {
    let Ok(part) = std::env::var(PART) else { return };
    match part.as_str() {
        "full" => full(),
        "cut up" => cut_up(),
        "no checksums" => no_checksums(),
        "no checksums, receiver" => no_checksums_receiver(),
        "too big" => too_big(),
        "unreachable" => unreachable(),
        _ => unreachable!("a part that this file names"),
    }
    println!("played {part}");
}

fn dual() -> Pair {
    Pair::with(IpAddr::V4(Ipv4Addr::UNSPECIFIED), Settings::default())
}

fn counter_sum(port: &UdpPort, prefix: &str) -> u64 {
    let matching = port.counters().iter().filter(|(name, ..)| name.starts_with(prefix));
    matching.map(|(.., value)| value).sum()
}

fn full() {
    let pair = dual();
    let (mut outgoing, mut incoming) = (pair.sender.new_outgoing(), pair.receiver.new_incoming());
    let sent: Vec<_> = (0..4000).map(|number| packet(number, 1000)).collect();
    let (mut received, mut was_full) = (Vec::new(), 0);
    let mut fetch = |received: &mut Vec<Vec<u8>>| {
        while pair.receiver.receive(&mut incoming) {
            while let Some(packet) = pair.receiver.next(&mut incoming) {
                received.push(packet.bytes.to_vec());
            }
        }
    };
    for bytes in &sent {
        while !append(&mut outgoing, &path(LOOPBACK_4), QPN, bytes) {
            while pair.sender.send(&mut outgoing) == Sent::Full {
                assert!(!pair.sender.is_empty(&outgoing));
                was_full += 1;
                let interest = Interest {
                    sendable: true,
                    timeout: Some(Duration::from_secs(5)),
                    ..Interest::default()
                };
                assert!(pair.sender.wait(interest).sendable);
                fetch(&mut received);
            }
        }
    }
    while pair.sender.send(&mut outgoing) == Sent::Full {
        std::thread::sleep(Duration::from_millis(10));
        fetch(&mut received);
    }
    while received.len() < sent.len() {
        let interest = Interest {
            receivable: true,
            timeout: Some(Duration::from_secs(5)),
            ..Interest::default()
        };
        assert!(pair.receiver.wait(interest).receivable, "{} came", received.len());
        fetch(&mut received);
    }
    assert!(received == sent, "all, in order");
    assert!(was_full > 0);
    assert_eq!(count(&pair.sender, "send_full"), was_full);
    assert_eq!(counter_sum(&pair.sender, "dropped"), 0);
}

fn cut_up() {
    let pair = dual();
    let mut incoming = pair.receiver.new_incoming();
    let sent: Vec<_> = (0..45).map(|number| packet(number, 4108)).collect();
    send_all(&pair.sender, &path(LOOPBACK_4), &sent);
    assert!(count(&pair.sender, "sent_super_packets") > 0);
    let received = receive_all(&pair.receiver, &mut incoming, sent.len());
    assert!(received == sent, "{} came", received.len());
    assert_eq!(counter_sum(&pair.receiver, "dropped"), 0);
    assert!(count(&pair.receiver, "received_batches") > 5, "they came cut up");
}

const FAR_PORT: u16 = 4791;

fn no_checksums() {
    let address =
        |last| Address::Udp { ip: Ipv4Addr::new(10, 9, 0, last).to_ipv6_mapped(), scope: 0 };
    let path = AddressVector { local: address(1), remote: address(2), ..path(LOOPBACK_4) };
    let settings = Settings { destination_port: FAR_PORT, ..Settings::default() };
    let sender = UdpPort::new(Vec::new(), settings).expect("a port");
    for round in 0..2 {
        let sent: Vec<_> = (0..20).map(|number| packet(round * 20 + number, 1000)).collect();
        send_all(&sender, &path, &sent);
    }
    let has_refused = count(&sender, "segmentation_refused") == 1;
    assert_eq!(count(&sender, "sent_super_packets"), if has_refused { 0 } else { 2 });
    assert_eq!(count(&sender, "sent_packets"), 40);
    assert_eq!(counter_sum(&sender, "dropped"), 0);
    // The receiver's verdict is the last thing to be printed.
    std::thread::sleep(Duration::from_secs(1));
}

fn no_checksums_receiver() {
    let socket = UdpSocket::bind(("::", FAR_PORT)).expect("nobody else is here").into();
    let slots = vec![Slot { index: SLOT, socket }];
    let receiver = UdpPort::new(slots, Settings::default()).expect("a port");
    let interest =
        Interest { receivable: true, timeout: Some(Duration::from_secs(9)), ..Interest::default() };
    assert!(receiver.wait(interest).receivable);
    let received = receive_all(&receiver, &mut receiver.new_incoming(), 40);
    assert!(received == (0..40).map(|number| packet(number, 1000)).collect::<Vec<_>>());
    assert_eq!(counter_sum(&receiver, "dropped"), 0);
}

fn too_big() {
    let pair = dual();
    let mut incoming = pair.receiver.new_incoming();
    // Five that are too long, cut from one send, and a last one that is not.
    let mut sent: Vec<_> = (0..5).map(|number| packet(number, 4108)).collect();
    sent.push(packet(5, 200));
    send_all(&pair.sender, &path(LOOPBACK_4), &sent);
    assert_eq!(receive_all(&pair.receiver, &mut incoming, 1), [sent[5].clone()]);
    assert_eq!(count(&pair.sender, "dropped_too_big"), 5);
    assert_eq!(count(&pair.sender, "sent_packets"), 1);
    // That says nothing about cutting up.
    let short: Vec<_> = (0..5).map(|number| packet(number, 1000)).collect();
    send_all(&pair.sender, &path(LOOPBACK_4), &short);
    assert_eq!(receive_all(&pair.receiver, &mut incoming, 5), short);
    assert_eq!(count(&pair.sender, "sent_super_packets"), 1);
    assert_eq!(count(&pair.sender, "segmentation_refused"), 0);
}

fn unreachable() {
    let pair = dual();
    send_all(&pair.sender, &path(LOOPBACK_4), &[packet(0, 20), packet(1, 20)]);
    assert_eq!(counter_sum(&pair.sender, "dropped"), 2);
    assert_eq!(count(&pair.sender, "sent_packets"), 0);
}
