//! Two ports on the loopback interface that send to each other, for the tests of a port.
#![allow(dead_code, reason = "each test file uses its own share")]

use converb_driver::{Port, Sent};
use converb_engine::{Address, AddressVector, PacketSink};
use converb_link::{Incoming, Settings, Slot, UdpPort};
use converb_wire::{Bth, IpProtocol, Ipv4, Ipv6, Opcode, Psn, Qpn, Udp, icrc};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The slot of every receiving port here, and a queue pair in it.
pub const SLOT: u16 = 5;
pub const QPN: Qpn = Qpn::new((SLOT as u32) << 14 | 7);

pub const LOOPBACK_4: Ipv6Addr = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
pub const LOOPBACK_6: Ipv6Addr = Ipv6Addr::LOCALHOST;

/// A bound socket as the agent would hand it out, and its UDP port.
pub fn slot_socket(ip: IpAddr) -> (OwnedFd, u16) {
    let socket = UdpSocket::bind(SocketAddr::new(ip, 0)).expect("a socket on a free UDP port");
    let port = socket.local_addr().expect("bound").port();
    (socket.into(), port)
}

/// A port that sends and one that receives what it sends.
pub struct Pair {
    pub sender: UdpPort,
    pub receiver: UdpPort,
    /// The receiver's UDP port.
    pub udp_port: u16,
}

impl Pair {
    pub fn new() -> Self {
        Self::with(IpAddr::V6(Ipv6Addr::UNSPECIFIED), Settings::default())
    }

    pub fn with(bound_to: IpAddr, settings: Settings) -> Self {
        let (socket, udp_port) = slot_socket(bound_to);
        let receiver =
            UdpPort::new(vec![Slot { index: SLOT, socket }], settings.clone()).expect("a port");
        let (socket, _) = slot_socket(bound_to);
        let settings = Settings { destination_port: udp_port, ..settings };
        let sender = UdpPort::new(vec![Slot { index: 6, socket }], settings).expect("a port");
        Self { sender, receiver, udp_port }
    }
}

/// From `ip` to itself.
pub fn path(ip: Ipv6Addr) -> AddressVector {
    let address = Address::Udp { ip, scope: 0 };
    AddressVector {
        local: address,
        remote: address,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
        service_level: 0,
    }
}

/// A transport packet of `length` bytes whose contents depend on `number`.
pub fn packet(number: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Bth::new(Opcode::RC_SEND_ONLY, QPN, Psn::new(number)).emit(&mut bytes);
    for (index, byte) in bytes[Bth::LENGTH..].iter_mut().enumerate() {
        *byte = (index as u32).wrapping_mul(31).wrapping_add(number) as u8;
    }
    bytes
}

/// Appends a packet to a batch; false if it takes no more.
pub fn append(
    batch: &mut converb_link::Outgoing,
    path: &AddressVector,
    destination: Qpn,
    bytes: &[u8],
) -> bool {
    let Some(room) = batch.begin(path, destination, bytes.len()) else { return false };
    room.copy_from_slice(bytes);
    batch.finish();
    true
}

/// Sends packets, in as many batches as they need.
pub fn send_all(port: &UdpPort, path: &AddressVector, packets: &[Vec<u8>]) {
    let mut batch = port.new_outgoing();
    for bytes in packets {
        if !append(&mut batch, path, QPN, bytes) {
            assert_eq!(port.send(&mut batch), Sent::All);
            assert!(append(&mut batch, path, QPN, bytes), "an empty batch takes a packet");
        }
    }
    assert_eq!(port.send(&mut batch), Sent::All);
    assert!(port.is_empty(&batch));
}

/// Receives until `count` packets have come, or half a second has passed without any.
pub fn receive_all(port: &UdpPort, incoming: &mut Incoming, count: usize) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut quiet_since = Instant::now();
    while packets.len() < count && quiet_since.elapsed() < Duration::from_millis(500) {
        if port.receive(incoming) {
            while let Some(received) = port.next(incoming) {
                packets.push(received.bytes.to_vec());
            }
            quiet_since = Instant::now();
        }
    }
    packets
}

/// The value of a port's counter.
pub fn count(port: &UdpPort, name: &str) -> u64 {
    let found = port.counters().iter().find(|(known, ..)| *known == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).2
}

/// Sends from a plain socket, whose packets carry whatever CRC the test gives them.
pub struct Forger {
    socket: UdpSocket,
    to: SocketAddr,
    from_port: u16,
}

impl Forger {
    /// From `ip` to a port's UDP port there.
    pub fn new(ip: Ipv6Addr, udp_port: u16) -> Self {
        let ip = ip.to_canonical();
        let socket = UdpSocket::bind(SocketAddr::new(ip, 0)).expect("a socket");
        let from_port = socket.local_addr().expect("bound").port();
        Self { socket, to: SocketAddr::new(ip, udp_port), from_port }
    }

    /// The packet with the CRC that it has if its IPv4 header has this Identification and DF.
    pub fn seal(&self, transport: &[u8], identification: u16) -> Vec<u8> {
        let length = (transport.len() + 4) as u16;
        let udp = Udp::new(self.from_port, self.to.port(), length);
        let crc = match self.to.ip() {
            IpAddr::V4(ip) => {
                let header = Ipv4::new(ip, ip, IpProtocol::UDP, length + 8);
                icrc::ipv4(&Ipv4 { identification, ..header }, &udp, transport)
            }
            IpAddr::V6(ip) => {
                icrc::ipv6(&Ipv6::new(ip, ip, IpProtocol::UDP, length + 8), &udp, transport)
            }
        };
        [transport, &icrc::to_wire(crc)].concat()
    }

    /// Sends bytes as they are.
    pub fn send(&self, bytes: &[u8]) {
        assert_eq!(self.socket.send_to(bytes, self.to).expect("sent"), bytes.len());
    }
}
