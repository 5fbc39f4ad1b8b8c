//! Programs of other users than the agent's: it carries their datagrams, and gives them no power.

use std::io::Error;
use std::os::unix::process::CommandExt;
use std::time::Duration;

use converb_agent::JoinError;

use crate::stage::{Member, Newcomer, Sender, kill_agent, send_kill, status, wait_until};
use crate::{Line, Users};

pub const TESTS: &[Line] = &[
    ("another_user_is_carried", another_user_is_carried, Users::Root),
    ("root_is_carried_by_a_users_agent", root_is_carried_by_a_users_agent, Users::Root),
    ("an_unknown_user_is_carried", an_unknown_user_is_carried, Users::Both),
    ("a_container_of_the_same_user_has_sockets", a_container_has_sockets, Users::Both),
    ("a_successor_carries_to_the_same_slots", a_successor_carries_on, Users::Root),
    ("a_stopped_agent_comes_back_for_others", a_stopped_agent_comes_back, Users::Root),
    ("a_group_without_its_own_members_ends", a_group_ends_for_others, Users::Root),
    ("a_sleeping_user_holds_up_nobody", a_sleeping_user_holds_up_nobody, Users::Root),
    ("one_user_cannot_have_all_slots", one_user_cannot_have_all_slots, Users::Root),
];

const SOON: Duration = Duration::from_secs(5);
const OTHER: u32 = 1000;
const THIRD: u32 = 1001;

fn other(slots: u16) -> Member {
    Newcomer::start_as(OTHER, slots).joined().expect("nothing is in the way")
}

/// Sends `count` datagrams to each slot of a member, and waits until they are there.
fn exchange(sender: &Sender, member: &mut Member, count: u32) {
    let (before, wrong) = member.counts();
    assert_eq!(wrong, 0);
    for &slot in &member.slots {
        (0..count).for_each(|number| sender.send(slot, number));
    }
    let expected = before + u64::from(count) * member.slots.len() as u64;
    wait_until(SOON, "all have arrived", || member.counts().0 == expected);
    assert_eq!(member.counts(), (expected, 0));
}

fn another_user_is_carried() {
    let mut owner = Member::join(1);
    let (mut one, mut third) =
        (other(2), Newcomer::start_as(THIRD, 20).joined().expect("nothing is in the way"));
    let sender = Sender::new();
    for member in [&mut owner, &mut one, &mut third] {
        exchange(&sender, member, 20);
    }
    assert_eq!([owner.tell("carried"), one.tell("carried")], ["no", "by 0"]);
    let carried: Vec<_> =
        status().members.iter().map(|member| (member.uid, member.is_carried)).collect();
    assert_eq!(carried, [(0, false), (OTHER, true), (THIRD, true)]);
    // A dead one's slot rests, and is served by its next owner's ways.
    let slot = one.slots[0];
    one.kill();
    wait_until(SOON, "its death is seen", || status().agent.slots_waiting == 2);
    let mut next = Vec::new();
    wait_until(SOON, "the slot is used again", || {
        next.push(Member::join(1));
        next.iter().any(|member| member.slots == [slot])
    });
    next.iter_mut().for_each(|member| exchange(&sender, member, 5));
    next.into_iter().chain([owner, third]).for_each(Member::leave);
}

/// Root may signal anyone, and is not the same user for that.
fn root_is_carried_by_a_users_agent() {
    let owner = other(1);
    let mut root = Member::join(1);
    assert_eq!(root.tell("carried"), "by 1000");
    exchange(&Sender::new(), &mut root, 10);
    // Only its own user stops it.
    match converb_agent::stop(true) {
        Err(JoinError::AgentOfAnotherUser { uid: OTHER, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(matches!(converb_agent::failures(), Err(JoinError::AgentOfAnotherUser { .. })));
    root.leave();
    owner.leave();
}

/// A member in other namespaces, where its user is root if it `is_mapped`.
fn unshared(flags: i32, is_mapped: bool) -> Result<Member, String> {
    let map = format!("0 {} 1", rustix::process::geteuid().as_raw());
    let newcomer = Newcomer::start_with(1, |command| {
        // SAFETY: only system calls.
        unsafe {
            command.pre_exec(move || match libc::unshare(flags) {
                0 if is_mapped => std::fs::write("/proc/self/uid_map", &map),
                0 => Ok(()),
                _ => Err(Error::last_os_error()),
            })
        };
    });
    newcomer.joined()
}

/// In a user namespace without any mapping everybody is 65534, and that means nothing.
fn an_unknown_user_is_carried() {
    let owner = Member::join(1);
    let mut unknown = unshared(libc::CLONE_NEWUSER, false).expect("nothing is in the way");
    assert_eq!(unknown.tell("carried"), "by 65534");
    let sender = Sender::new();
    exchange(&sender, &mut unknown, 10);
    kill_agent();
    wait_until(SOON, "it is served again", || {
        unknown.tell("standing") == "Served" && status().members.len() == 2
    });
    exchange(&sender, &mut unknown, 10);
    unknown.leave();
    owner.leave();
}

/// Namespaces of mounts and names change nothing: the kernel knows that it is the same user.
fn a_container_has_sockets() {
    let owner = Member::join(1);
    let flags = libc::CLONE_NEWUTS | libc::CLONE_NEWIPC | libc::CLONE_NEWNS | libc::CLONE_NEWUSER;
    let mut container = unshared(flags, true).expect("nothing is in the way");
    assert_eq!(container.tell("carried"), "no");
    exchange(&Sender::new(), &mut container, 3);
    container.leave();
    owner.leave();
}

fn a_successor_carries_on() {
    let mut owner = Member::join(1);
    let mut members = [other(1), other(2)];
    let sender = Sender::new();
    for _ in 0..5 {
        let killed = kill_agent();
        // What comes meanwhile waits at the slot.
        for member in &members {
            member.slots.iter().for_each(|&slot| sender.send(slot, 0));
        }
        wait_until(SOON, "all are known", || {
            status().agent.pid != killed && status().members.len() == 3
        });
        for member in &mut members {
            wait_until(SOON, "it is served", || member.tell("standing") == "Served");
            exchange(&sender, member, 0);
        }
    }
    for member in &mut members {
        let slots = member.slots.len() as u64;
        wait_until(SOON, "what waited has come", || member.counts() == (5 * slots, 0));
        exchange(&sender, member, 10);
    }
    exchange(&sender, &mut owner, 10);
    members.into_iter().chain([owner]).for_each(Member::leave);
}

/// Without an agent nothing arrives at others, so they ask for one.
fn a_stopped_agent_comes_back() {
    let owner = Member::join(1);
    let mut one = other(1);
    assert!(matches!(converb_agent::stop(true), Ok(converb_agent::Stopped::Stopped { .. })));
    wait_until(SOON, "it is served again", || {
        converb_agent::status().is_ok_and(|status| status.is_some())
            && status().members.len() == 2
            && one.tell("standing") == "Served"
    });
    exchange(&Sender::new(), &mut one, 10);
    one.leave();
    owner.leave();
}

fn a_group_ends_for_others() {
    let owner = Member::join(1);
    let mut one = other(1);
    let agent = status().agent.pid;
    owner.kill();
    send_kill(agent);
    let next = Newcomer::start_as(THIRD, 1).joined().expect("the port is free");
    wait_until(SOON, "it knows that its slot is lost", || one.tell("standing") == "Lost");
    assert_eq!(status().members.len(), 1);
    next.leave();
    one.kill();
}

fn a_sleeping_user_holds_up_nobody() {
    let mut owner = Member::join(1);
    let (sleeper, mut one) = (other(1), other(1));
    let pid = rustix::process::Pid::from_raw(sleeper.pid() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("root may");
    let sender = Sender::new();
    for number in 0..20_000 {
        sender.send(sleeper.slots[0], number);
    }
    exchange(&sender, &mut one, 20);
    exchange(&sender, &mut owner, 20);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("root may");
    let mut sleeper = sleeper;
    let arrived = sleeper.counts().0;
    assert!((100..=20_000).contains(&arrived), "{arrived} have arrived");
    [sleeper, one, owner].into_iter().for_each(Member::leave);
}

fn one_user_cannot_have_all_slots() {
    let owner = Member::join(1);
    let mut others: Vec<_> = (0..4).map(|_| other(64)).collect();
    let error = match Newcomer::start_as(OTHER, 1).joined() {
        Ok(member) => panic!("joined with slots {:?}", member.slots),
        Err(error) => error,
    };
    assert!(error.contains("slots of this network namespace are in use"), "{error}");
    let own = Member::join(64);
    assert_eq!(own.slots.len(), 64);
    let sender = Sender::new();
    others.iter_mut().for_each(|member| exchange(&sender, member, 2));
    others.into_iter().chain([own, owner]).for_each(Member::leave);
}
