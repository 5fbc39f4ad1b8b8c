//! Many slots, and what they must not cost others.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::Duration;

use converb_agent::SLOTS_MAX;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::stage::{Member, Newcomer, Sender, kill_agent, status, wait_until};
use crate::{Line, Users};

pub const TESTS: &[Line] = &[
    ("all_slots_can_be_used", all_slots_can_be_used, Users::Root),
    ("others_can_still_pass_descriptors", others_can_still_pass_descriptors, Users::Both),
    ("many_small_programs_fit", many_small_programs_fit, Users::Both),
];

const SOON: Duration = Duration::from_secs(5);

/// Joins with 64 slots at a time until there are no more.
fn fill() -> (Vec<Member>, String) {
    let mut members = Vec::new();
    loop {
        match Newcomer::start(64).joined() {
            Ok(member) => members.push(member),
            Err(error) => return (members, error),
        }
    }
}

fn check_packets(members: &mut [Member]) {
    let sender = Sender::new();
    for member in &mut *members {
        for &slot in &member.slots {
            for number in 0..2 {
                sender.send(slot, number);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    for member in members {
        assert_eq!(member.counts(), (2 * member.slots.len() as u64, 0));
    }
}

/// A process that holds capabilities has no limit of descriptors in flight, so it gets them all.
fn all_slots_can_be_used() {
    let (mut members, error) = fill();
    let slots: BTreeSet<u16> =
        members.iter().flat_map(|member| member.slots.iter().copied()).collect();
    assert_eq!(slots, (1..SLOTS_MAX).collect());
    assert!(error.starts_with("all 1023 slots of this network namespace are in use"), "{error}");
    check_packets(&mut members);
    for _ in 0..2 {
        kill_agent();
        wait_until(SOON, "all are back", || {
            let status = status();
            status.agent.slots_used == SLOTS_MAX && status.members.len() == members.len()
        });
    }
    // What arrived is still to be counted, and two more each.
    let sender = Sender::new();
    let members_last = members.last_mut().expect("there are many");
    let before = members_last.counts();
    for &slot in &members_last.slots {
        sender.send(slot, 0);
    }
    std::thread::sleep(Duration::from_millis(5));
    let slots = members_last.slots.len() as u64;
    assert_eq!(members_last.counts(), (before.0 + slots, 0));
    members.into_iter().for_each(Member::leave);
}

/// Descriptors in flight count per user, so a large group must leave others some room.
fn others_can_still_pass_descriptors() {
    let (mut members, error) = fill();
    if rustix::process::geteuid().is_root() {
        assert!(error.starts_with("all 1023 slots"), "{error}");
    } else {
        assert!(error.contains("too many descriptors in flight"), "{error}");
        let total = status().agent.slots_total;
        assert!((16..SLOTS_MAX).contains(&total), "{total}");
        assert!(status().agent.too_many_in_flight);
    }
    check_packets(&mut members);
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(1024), ..limit }).expect("lower");
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("a pair");
    for _ in 0..40 {
        let rights = [one.as_fd()];
        let mut space = [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
        assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&rights)));
        let slices = [std::io::IoSlice::new(b"x")];
        let flags = rustix::net::SendFlags::DONTWAIT;
        rustix::net::sendmsg(&other, &slices, &mut control, flags).expect("room for others");
    }
    drop((one, other));
    members.into_iter().for_each(Member::leave);
}

fn many_small_programs_fit() {
    let newcomers: Vec<_> = (0..100).map(|_| Newcomer::start(1)).collect();
    let mut members: Vec<_> =
        newcomers.into_iter().map(|newcomer| newcomer.joined().expect("there is room")).collect();
    let status = status();
    assert_eq!(status.members.len(), 100);
    assert_eq!(status.agent.slots_used, 101);
    check_packets(&mut members);
    members.into_iter().for_each(Member::leave);
}
