//! A super-packet goes whole to the member that its first segment chooses, which passes on what
//! is for others.

use std::fs;
use std::net::{Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use converb_agent::{JoinOptions, Membership, PORT, QPN_BITS_IN_SLOT};
use converb_driver::Port;
use converb_link::{Settings, Slot, UdpPort};
use converb_wire::{Bth, IpProtocol, Ipv6, Opcode, Psn, Qpn, Udp, icrc};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::member::say;
use crate::stage::{Member, Newcomer, kill_agent, status, wait_until};
use crate::{Line, Users};

pub const TESTS: &[Line] = &[(
    "a_super_packet_for_two_members_reaches_both",
    a_super_packet_for_two_members_reaches_both,
    Users::Both,
)];

/// Makes a member process one that receives by a port with a relay.
pub const RELAY_VARIABLE: &str = "CONVERB_AGENT_TEST_RELAY";

const SOON: Duration = Duration::from_secs(10);
const SIZE: usize = 64;

fn a_super_packet_for_two_members_reaches_both() {
    let mut members = [Relaying::join(), Relaying::join()];
    let sender = GsoSender::new();
    meet(&sender, &mut members);
    exchange(&sender, &mut members);

    // Nothing changes for those who have each other's rings when the agent dies.
    for _ in 0..2 {
        kill_agent();
        wait_until(SOON, "the successor knows both", || {
            status().agent.is_successor && status().members.len() == 2
        });
    }
    exchange(&sender, &mut members);

    // One dies with its packets: nobody keeps what was its own.
    let agent = status().agent.pid;
    // The successor knows of members before they have come back with their rings.
    wait_until(SOON, "both rings are offered again", || {
        rings_open(agent) == 2 && rings_mapped(members[0].pid()) == 2
    });
    let [mut first, second] = members;
    let dead_slot = second.slot();
    second.member.kill();
    wait_until(SOON, "its ring is forgotten", || {
        rings_open(agent) == 1 && rings_mapped(first.pid()) == 1
    });
    let before = first.counts();
    sender.send(&[first.slot(), dead_slot, first.slot()]);
    wait_until(SOON, "the survivor has its own", || first.counts().right == before.right + 2);
    assert_eq!(first.counts().passed, before.passed, "there is nobody to pass it on to");
    assert_eq!(first.counts().dropped, before.dropped + 1);

    // A newcomer has a ring as well, and the successor gives it the one that was offered again.
    let mut members = [first, Relaying::join()];
    meet(&sender, &mut members);
    exchange(&sender, &mut members);
}

/// Sends until each has passed one on to the other, for the first packets only make them ask.
fn meet(sender: &GsoSender, members: &mut [Relaying; 2]) {
    for (from, to) in [(0, 1), (1, 0)] {
        let before = members[to].counts().taken;
        wait_until(SOON, "they have each other's rings", || {
            sender.send(&[members[from].slot(), members[to].slot()]);
            std::thread::sleep(Duration::from_millis(20));
            members[to].counts().taken > before
        });
    }
    // What is on the way arrives.
    std::thread::sleep(Duration::from_millis(50));
}

/// One super-packet each way, of which nothing is lost.
fn exchange(sender: &GsoSender, members: &mut [Relaying; 2]) {
    for (from, to) in [(0, 1), (1, 0)] {
        let slots = [members[from].slot(), members[to].slot()];
        let before = [members[from].counts(), members[to].counts()];
        sender.send(&[slots[0], slots[1], slots[0], slots[1], slots[1]]);
        let (two, three) = (
            Counts { right: before[0].right + 2, passed: before[0].passed + 3, ..before[0] },
            Counts { right: before[1].right + 3, taken: before[1].taken + 3, ..before[1] },
        );
        wait_until(SOON, "all five have arrived", || members[to].counts().right == three.right);
        assert_eq!((members[from].counts(), members[to].counts()), (two, three));
    }
}

/// How many rings' memories a process has open.
fn rings_open(pid: u32) -> usize {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("our own process");
    let links = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().contains("converb-ring")).count()
}

/// How many rings a process has mapped.
fn rings_mapped(pid: u32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("our own process");
    maps.lines().filter(|line| line.contains("converb-ring")).count()
}

/// What a relaying member has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// Packets for its slot, however they came.
    right: u64,
    /// Packets for others that it could not pass on.
    dropped: u64,
    passed: u64,
    taken: u64,
}

struct Relaying {
    member: Member,
}

impl Relaying {
    fn join() -> Self {
        let newcomer = Newcomer::start_with(1, |command| {
            command.env(RELAY_VARIABLE, "1");
        });
        Self { member: newcomer.joined().expect("nothing is in the way") }
    }

    fn pid(&self) -> u32 {
        self.member.pid()
    }

    fn slot(&self) -> u16 {
        self.member.slots[0]
    }

    fn counts(&mut self) -> Counts {
        let line = self.member.tell("counts");
        let numbers: Vec<u64> =
            line.split(' ').map(|number| number.parse().expect("a number")).collect();
        let [right, dropped, passed, taken] = numbers[..] else { panic!("four numbers: {line}") };
        Counts { right, dropped, passed, taken }
    }
}

/// Sends super-packets whose segments are for any slots.
struct GsoSender(UdpSocket);

impl GsoSender {
    fn new() -> Self {
        let socket = UdpSocket::bind("[::1]:0").expect("loopback is up");
        let size: libc::c_int = SIZE as libc::c_int;
        // SAFETY: the option's value is an int, which lives during the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_SEGMENT,
                (&raw const size).cast(),
                size_of_val(&size) as libc::socklen_t,
            )
        };
        assert_eq!(result, 0, "the kernel can segment");
        Self(socket)
    }

    /// One packet for each of `slots`, in one send.
    fn send(&self, slots: &[u16]) {
        let from_port = self.0.local_addr().expect("bound").port();
        let ip = Ipv6Addr::LOCALHOST;
        let mut bytes = Vec::new();
        for (number, &slot) in slots.iter().enumerate() {
            let mut transport = [number as u8; SIZE - 4];
            let qpn = Qpn::new(u32::from(slot) << QPN_BITS_IN_SLOT | 7);
            let psn = Psn::new(number as u32);
            Bth::new(Opcode::RC_SEND_ONLY, qpn, psn).emit(&mut transport);
            let udp = Udp::new(from_port, PORT, SIZE as u16);
            let header = Ipv6::new(ip, ip, IpProtocol::UDP, SIZE as u16 + 8);
            bytes.extend_from_slice(&transport);
            bytes.extend_from_slice(&icrc::to_wire(icrc::ipv6(&header, &udp, &transport)));
        }
        let sent = self.0.send_to(&bytes, (ip, PORT)).expect("the port is open");
        assert_eq!(sent, bytes.len());
    }
}

/// A member that moves packets as a driver does. Prints `joined SLOTS...`, and obeys.
pub fn play() {
    let options = JoinOptions { has_ring: true, ..JoinOptions::default() };
    let mut membership = match Membership::join(&options) {
        Ok(membership) => membership,
        Err(error) => return say(&format!("error {error}")),
    };
    let slots = membership.take_slots().into_iter();
    let slots = slots.map(|(index, socket)| Slot { index, socket }).collect();
    let port = UdpPort::new(slots, Settings::default()).expect("sockets are good");
    let relay = membership.take_relay().expect("a descriptor is left");
    port.set_relay(Box::new(relay.expect("there is a ring")));
    say(&format!("joined {}", port.slots()[0]));
    run(&membership, &port);
}

fn run(membership: &Membership, port: &UdpPort) {
    let mut incoming = port.new_incoming();
    let (mut right, mut dropped) = (0u64, 0u64);
    let mut refreshed = Instant::now();
    let pause = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    loop {
        if refreshed.elapsed() > Duration::from_millis(100) {
            membership.refresh_rings();
            refreshed = Instant::now();
        }
        while port.receive(&mut incoming) {
            while let Some(received) = port.next(&mut incoming) {
                let (bth, _) = Bth::parse(received.bytes).expect("a whole packet");
                let slot = (bth.destination.value() >> QPN_BITS_IN_SLOT) as u16;
                if slot == port.slots()[0] {
                    right += 1;
                } else {
                    dropped += u64::from(!port.pass_on(slot, &received));
                }
            }
        }
        let stdin = std::io::stdin();
        let input = stdin.as_fd();
        let watch = membership.watch_fd().expect("no fork child");
        let mut set = [PollFd::new(&input, PollFlags::IN), PollFd::new(&watch, PollFlags::IN)];
        poll(&mut set, Some(&pause)).expect("waiting works");
        if !set[1].revents().is_empty() {
            membership.handle_event();
        }
        if !set[0].revents().is_empty() {
            // Whatever a line says, it asks for the counts; it may come in parts.
            let mut byte = [0];
            match rustix::io::read(input, &mut byte) {
                Ok(0) | Err(_) => return,
                Ok(_) if byte != *b"\n" => continue,
                Ok(_) => {}
            }
            let counters = port.counters();
            let (passed, taken) =
                (counters.passed_on_packets.value(), counters.taken_over_packets.value());
            say(&format!("{right} {dropped} {passed} {taken}"));
        }
    }
}
