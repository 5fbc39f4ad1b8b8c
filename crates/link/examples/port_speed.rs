//! Prints how fast a port is, as ratios to the plain sockets below it in the same run.
//!
//! `cargo run -p converb-link --release --example port_speed [PART OF A NAME]`
//!
//! The port copies each packet once on either side and computes its invariant CRC on both; plain
//! UDP does neither. Sender and receiver are two threads that poll, with a window between them, as
//! a queue pair has it.

use converb_driver::{Port, Sent};
use converb_engine::{Address, AddressVector, Memory, PacketSink};
use converb_link::{Settings, Slot, UdpPort};
use converb_wire::{Bth, Opcode, Psn, Qpn};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

const QPN: Qpn = Qpn::new(5 << 14 | 7);
const PAIRS: usize = 9;

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    println!("medians of {PAIRS} interleaved pairs; port / plain UDP");
    for (name, payload, segments) in [
        ("bandwidth, MTU 4096", 4096, 15),
        ("bandwidth, MTU 1024", 1024, 59),
        ("message rate, 8 B writes", 8, 64),
    ] {
        if !name.contains(&wanted) {
            continue;
        }
        // BTH and RETH, payload, ICRC.
        let bytes = if payload == 8 { 28 + 8 + 4 } else { 12 + payload + 4 };
        let mut ratios = Vec::new();
        let mut absolute = Vec::new();
        let ports = Ports::new();
        let plain = Plain::new(bytes);
        for _ in 0..PAIRS {
            let theirs = plain.packets_per_second(bytes, segments);
            let ours = ports.packets_per_second(payload, bytes, segments);
            ratios.push(ours / theirs);
            absolute.push(ours);
        }
        println!(
            "{name:<28} {:.2}   ({:.1} M packets/s, {:.2} GB/s)",
            median(&mut ratios),
            median(&mut absolute) / 1e6,
            median(&mut absolute) * payload as f64 / 1e9
        );
    }
    let name = "latency, 8 B sends";
    if !name.contains(&wanted) {
        return;
    }
    let mut ratios = Vec::new();
    for _ in 0..PAIRS {
        let theirs = plain_latency();
        let ours = port_latency();
        ratios.push(ours / theirs);
    }
    println!("{:<28} {:.2}   (lower is better)", name, median(&mut ratios));
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How long one measurement takes.
const ROUND: Duration = Duration::from_millis(150);

fn address() -> Address {
    Address::Udp { ip: Ipv4Addr::LOCALHOST.to_ipv6_mapped(), scope: 0 }
}

fn path() -> AddressVector {
    AddressVector {
        local: address(),
        remote: address(),
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
        service_level: 0,
    }
}

fn slot_socket() -> (OwnedFd, u16) {
    let socket = UdpSocket::bind("[::]:0").expect("a socket on a free UDP port");
    let port = socket.local_addr().expect("bound").port();
    (socket.into(), port)
}

/// A port that sends to another.
struct Ports {
    sender: UdpPort,
    receiver: UdpPort,
}

impl Ports {
    fn new() -> Self {
        let (receiving, udp_port) = slot_socket();
        let (sending, _) = slot_socket();
        Self::between(receiving, sending, udp_port, Settings::default().destination_port)
    }

    fn between(receiving: OwnedFd, sending: OwnedFd, to: u16, back_to: u16) -> Self {
        let receiver = UdpPort::new(
            vec![Slot { index: 5, socket: receiving }],
            Settings { destination_port: back_to, ..Settings::default() },
        );
        let sender = UdpPort::new(
            vec![Slot { index: 6, socket: sending }],
            Settings { destination_port: to, ..Settings::default() },
        );
        Self { receiver: receiver.expect("a port"), sender: sender.expect("a port") }
    }

    fn packets_per_second(&self, payload: usize, bytes: usize, segments: usize) -> f64 {
        let header = bytes - 4 - payload;
        let (window, path) = (Window::new(bytes * segments), path());
        let from = vec![7u8; payload * segments];
        let mut outgoing = self.sender.new_outgoing();
        let send = || {
            for index in 0..segments {
                let room =
                    outgoing.begin(&path, QPN, header + payload).expect("one run is small enough");
                Bth::new(Opcode::RC_WRITE_MIDDLE, QPN, Psn::new(0)).emit(room);
                let address = from[index * payload..].as_ptr() as u64;
                self.sender.memory().read(address, &mut room[header..]).expect("mapped");
                outgoing.finish();
            }
            assert_eq!(self.sender.send(&mut outgoing), Sent::All);
        };
        let to = vec![0u8; payload * segments];
        let mut incoming = self.receiver.new_incoming();
        let mut next = 0;
        let receive = || {
            let mut count = 0;
            if self.receiver.receive(&mut incoming) {
                while let Some(received) = self.receiver.next(&mut incoming) {
                    let address = to[next * payload..].as_ptr() as u64;
                    let memory = self.receiver.memory();
                    memory.write(address, &received.bytes[header..]).expect("mapped");
                    next = (next + 1) % segments;
                    count += 1;
                }
            }
            count
        };
        window.packets_per_second(segments, send, receive)
    }
}

/// Keeps a sender from sending more than the receiver has room for.
struct Window {
    super_packets_max: usize,
    is_over: AtomicBool,
    received: AtomicUsize,
}

impl Window {
    fn new(super_packet_bytes: usize) -> Self {
        Self {
            super_packets_max: (256 << 10) / super_packet_bytes.max(8 << 10),
            is_over: AtomicBool::new(false),
            received: AtomicUsize::new(0),
        }
    }

    fn packets_per_second(
        &self,
        segments: usize,
        mut send: impl FnMut() + Send,
        mut receive: impl FnMut() -> usize + Send,
    ) -> f64 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !self.is_over.load(Relaxed) {
                    match receive() {
                        0 => std::hint::spin_loop(),
                        count => _ = self.received.fetch_add(count, Relaxed),
                    }
                }
            });
            let start = Instant::now();
            let mut sent = 0;
            // Returns whether no more than `count` packets are on their way, in good time.
            let wait_for = |sent: usize, count: usize| {
                while sent > self.received.load(Relaxed) + count {
                    std::hint::spin_loop();
                    if start.elapsed() > 10 * ROUND {
                        return false;
                    }
                }
                true
            };
            while start.elapsed() < ROUND && wait_for(sent, (self.super_packets_max - 1) * segments)
            {
                send();
                sent += segments;
            }
            let is_whole = wait_for(sent, 0);
            self.is_over.store(true, Relaxed);
            assert!(is_whole, "nothing is lost here");
            self.received.load(Relaxed) as f64 / start.elapsed().as_secs_f64()
        })
    }
}

/// The sockets below, with segmentation and coalescing but nothing else.
struct Plain {
    sender: UdpSocket,
    receiver: UdpSocket,
    to: SocketAddrV4,
}

impl Plain {
    fn new(segment_bytes: usize) -> Self {
        let sender = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        set(&receiver, libc::SOL_SOCKET, libc::SO_RCVBUF, i32::MAX / 2);
        set(&receiver, libc::SOL_UDP, libc::UDP_GRO, 1);
        set(&sender, libc::SOL_UDP, libc::UDP_SEGMENT, segment_bytes as i32);
        let port = receiver.local_addr().expect("bound").port();
        Self { sender, receiver, to: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port) }
    }

    fn packets_per_second(&self, bytes: usize, segments: usize) -> f64 {
        let from = vec![7u8; bytes * segments];
        let mut to = vec![0u8; 65_536];
        self.receiver.set_nonblocking(true).expect("set");
        let send = || _ = self.sender.send_to(&from, self.to).expect("sent");
        let receive = || self.receiver.recv_from(&mut to).map_or(0, |(length, _)| length / bytes);
        Window::new(bytes * segments).packets_per_second(segments, send, receive)
    }
}

fn set(socket: &UdpSocket, level: i32, name: i32, value: i32) {
    // SAFETY: the pointer and length describe `value`.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), 4) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

const ROUND_TRIPS: u32 = 20_000;

/// Seconds of a round trip of 24 bytes between two threads that poll unconnected sockets.
fn plain_latency() -> f64 {
    let open = || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_nonblocking(true).expect("set");
        let address = socket.local_addr().expect("bound");
        (socket, address)
    };
    let ((near, near_address), (far, far_address)) = (open(), open());
    let poll = |socket: &UdpSocket| {
        let mut bytes = [0; 64];
        while socket.recv_from(&mut bytes).is_err() {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUND_TRIPS {
                poll(&far);
                far.send_to(&[0; 24], near_address).expect("sent");
            }
        });
        let start = Instant::now();
        for _ in 0..ROUND_TRIPS {
            near.send_to(&[0; 24], far_address).expect("sent");
            poll(&near);
        }
        start.elapsed().as_secs_f64() / f64::from(ROUND_TRIPS)
    })
}

/// The same between ports, with CRCs and copies.
fn port_latency() -> f64 {
    let ((near, near_port), (far, far_port)) = (slot_socket(), slot_socket());
    let ports = Ports::between(near, far, near_port, far_port);
    let serve = |port: &UdpPort, is_first: bool| {
        let (mut outgoing, mut incoming) = (port.new_outgoing(), port.new_incoming());
        let path = path();
        let value = [1u8; 8];
        let mut send = || {
            let room = outgoing.begin(&path, QPN, 20).expect("empty");
            Bth::new(Opcode::RC_SEND_ONLY, QPN, Psn::new(1)).emit(room);
            port.memory().read(value.as_ptr() as u64, &mut room[12..]).expect("mapped");
            outgoing.finish();
            assert_eq!(port.send(&mut outgoing), Sent::All);
        };
        let target = [0u8; 8];
        let mut poll = || {
            while !port.receive(&mut incoming) {
                std::hint::spin_loop();
            }
            let received = port.next(&mut incoming).expect("one packet");
            let address = target.as_ptr() as u64;
            port.memory().write(address, &received.bytes[12..]).expect("mapped");
        };
        let start = Instant::now();
        for _ in 0..ROUND_TRIPS {
            if is_first {
                send();
                poll();
            } else {
                poll();
                send();
            }
        }
        start.elapsed().as_secs_f64() / f64::from(ROUND_TRIPS)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&ports.receiver, false));
        serve(&ports.sender, true)
    })
}
