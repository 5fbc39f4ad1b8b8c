//! What is wrong is said, and what to do.

use std::net::UdpSocket;

use converb_agent::PORT;
use converb_agent::protocol::{
    Header, Hello, MESSAGE_MAX, Name, Refusal, Reply, Request, Role, VERSION,
};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType};

use crate::stage::{Member, Newcomer, status};
use crate::{Line, Users};

pub const TESTS: &[Line] = &[
    ("a_taken_port_is_told_with_its_holder", a_taken_port_is_told, Users::Both),
    ("a_port_of_another_user_is_told", a_port_of_another_user_is_told, Users::Root),
    ("a_squatted_name_is_told", a_squatted_name_is_told, Users::Both),
    ("without_a_program_it_is_told", without_a_program_it_is_told, Users::Both),
    ("another_version_is_refused", another_version_is_refused, Users::Both),
    ("noise_is_refused", noise_is_refused, Users::Both),
    ("slots_of_others_are_refused", slots_of_others_are_refused, Users::Both),
];

fn error_of(newcomer: Newcomer) -> String {
    match newcomer.joined() {
        Ok(member) => panic!("joined with slots {:?}", member.slots),
        Err(error) => error,
    }
}

fn a_taken_port_is_told() {
    let holder = UdpSocket::bind(("0.0.0.0", PORT)).expect("the namespace is empty");
    let error = error_of(Newcomer::start(1));
    let name = std::fs::read_to_string("/proc/self/comm").expect("ours");
    let expected =
        format!("UDP port 4791 is in use by process {} ({})", std::process::id(), name.trim_end());
    assert!(error.starts_with(&expected), "{error}");
    assert!(error.contains("another network namespace"), "{error}");
    drop(holder);
    Member::join(1).leave();
}

fn a_port_of_another_user_is_told() {
    let _holder = UdpSocket::bind(("0.0.0.0", PORT)).expect("the namespace is empty");
    let error = error_of(Newcomer::start_as(65534, 1));
    let expected = "UDP port 4791 is in use by a socket of user 0, of no process that can be seen";
    assert!(error.starts_with(expected), "{error}");
}

fn a_squatted_name_is_told() {
    let socket =
        rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    rustix::net::bind(&socket, &agent_address()).expect("nobody has it");
    let error = error_of(Newcomer::start(1));
    assert!(error.contains("@converb/agent/1) is held by a process"), "{error}");
    drop(socket);
    Member::join(1).leave();
}

fn without_a_program_it_is_told() {
    let error = error_of(Newcomer::start_with(1, |command| {
        command.env_remove("CONVERB_BIN");
    }));
    assert!(error.contains("CONVERB_BIN is not set"), "{error}");
    for path in ["/nonexistent", "relative", "/"] {
        let error = error_of(Newcomer::start_with(1, |command| {
            command.env("CONVERB_BIN", path);
        }));
        let expected = format!("and {path} cannot be executed");
        assert!(error.contains(&expected), "{error}");
    }
    // One that is a program, but no agent.
    let error = error_of(Newcomer::start_with(1, |command| {
        command.env("CONVERB_BIN", "/bin/true");
    }));
    assert!(error.contains("/bin/true ended without a word"), "{error}");
}

fn agent_address() -> SocketAddrUnix {
    SocketAddrUnix::new_abstract_name(b"converb/agent/1").expect("short")
}

/// Sends `message` as the first on a new connection and gives the answer.
fn converse(message: &[u8]) -> Option<(Header, Reply)> {
    let socket: OwnedFd =
        rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    rustix::net::connect(&socket, &agent_address()).expect("the agent listens");
    rustix::net::send(&socket, message, SendFlags::empty()).expect("the agent is there");
    let mut answer = [0; MESSAGE_MAX];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty()).ok()?;
    let answer = &answer[..length];
    Some((Header::parse(answer).ok()?, Reply::parse(answer).ok()?))
}

fn hello(role: Role) -> Vec<u8> {
    Request::Hello(Hello { role, program: Name::new("test") }).emit()
}

fn another_version_is_refused() {
    let member = Member::join(1);
    let mut message = hello(Role::Join { slots: 1, is_carried: false });
    message[4..6].copy_from_slice(&99_u16.to_le_bytes());
    let (header, reply) = converse(&message).expect("an answer");
    assert_eq!((header.version, reply), (VERSION, Reply::Refused(Refusal::Version)));
    assert_eq!(status().members.len(), 1);
    member.leave();
}

fn noise_is_refused() {
    let member = Member::join(1);
    for noise in [&[0; 1][..], &[0xff; 100], &hello(Role::Observe)[..20], &[0; 20_000]] {
        let (_, reply) = converse(noise).expect("an answer");
        assert_eq!(reply, Reply::Refused(Refusal::Malformed));
    }
    let (_, reply) = converse(&Request::StatusQuery.emit()).expect("an answer");
    assert_eq!(reply, Reply::Refused(Refusal::Malformed));
    assert_eq!(status().members.len(), 1);
    member.leave();
}

fn slots_of_others_are_refused() {
    let member = Member::join(2);
    let group = status().agent.group;
    let claim = |group: u64, slots: &[u16]| {
        let slots = slots.to_vec();
        let role = Role::Rejoin { group, slots, wants_descriptors: true, is_carried: false };
        let message = hello(role);
        converse(&message).expect("an answer").1
    };
    for (group, slots) in [
        (group, &member.slots[..1]),
        (group, &member.slots[..]),
        (group, &[0][..]),
        (group, &[16][..]),
        (group, &[1023][..]),
        (group, &[][..]),
        (group + 1, &[1][..]),
    ] {
        assert_eq!(claim(group, slots), Reply::Refused(Refusal::SlotLost), "{slots:?}");
    }
    assert_eq!(status().members.len(), 1);
    assert_eq!(status().members[0].slots, member.slots);
    member.leave();
}
