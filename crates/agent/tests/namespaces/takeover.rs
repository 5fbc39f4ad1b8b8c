//! The group outlives its agents.

use std::time::Duration;

use converb_agent::Stopped;

use crate::stage::{Member, Newcomer, Sender, kill_agent, send_kill, status, wait_until};
use crate::{Line, Users};

pub const TESTS: &[Line] = &[
    ("no_datagram_strays_while_agents_die", no_datagram_strays_while_agents_die, Users::Both),
    ("agents_die_as_soon_as_they_serve", agents_die_as_soon_as_they_serve, Users::Both),
    ("a_sleeping_member_keeps_its_slot", a_sleeping_member_keeps_its_slot, Users::Both),
    ("who_dies_with_the_agent_is_found_dead", who_dies_with_the_agent_is_found_dead, Users::Both),
    ("a_group_without_members_ends", a_group_without_members_ends, Users::Both),
    ("a_stopped_agent_comes_back_on_demand", a_stopped_agent_comes_back_on_demand, Users::Both),
    ("members_without_a_program_leave_it_to_others", members_without_a_program, Users::Both),
    ("a_successor_can_grow", a_successor_can_grow, Users::Both),
];

const SOON: Duration = Duration::from_secs(3);

fn wait_for_members(count: usize) {
    wait_until(SOON, "all members are known", || {
        let status = status();
        status.members.len() == count && status.agent.is_successor
    });
}

/// Twenty agents die in a row while two newcomers race each time; every datagram goes right.
fn no_datagram_strays_while_agents_die() {
    let mut members = [Member::join(1), Member::join(2)];
    let slots: Vec<u16> = members.iter().flat_map(|member| member.slots.clone()).collect();
    let sender = Sender::new();
    let mut last = 0;
    for round in 0..20 {
        let killed = kill_agent();
        assert_ne!(killed, last);
        last = killed;
        let newcomers = [Newcomer::start(1), Newcomer::start(1)];
        for number in 0..30 {
            for &slot in &slots {
                sender.send(slot, 100 * round + number);
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        let mut newcomers =
            newcomers.map(|newcomer| newcomer.joined().expect("a member starts a successor"));
        for newcomer in &mut newcomers {
            assert!(!slots.contains(&newcomer.slots[0]));
            sender.send(newcomer.slots[0], round);
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(newcomer.counts(), (1, 0));
        }
        assert_ne!(newcomers[0].slots, newcomers[1].slots);
        newcomers.into_iter().for_each(Member::leave);
    }
    assert_eq!((members[0].counts(), members[1].counts()), ((600, 0), (1200, 0)));
    wait_for_members(2);
    for member in &mut members {
        wait_until(SOON, "it is served", || member.tell("standing") == "Served");
    }
    members.into_iter().for_each(Member::leave);
}

fn agents_die_as_soon_as_they_serve() {
    let mut members = [(); 3].map(|()| Member::join(1));
    for _ in 0..20 {
        kill_agent();
    }
    wait_for_members(3);
    let sender = Sender::new();
    for member in &mut members {
        sender.send(member.slots[0], 0);
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(member.counts(), (1, 0));
    }
    members.into_iter().for_each(Member::leave);
}

/// It cannot say that it is there, but the slot table and its process tell.
fn a_sleeping_member_keeps_its_slot() {
    let mut sleeper = Member::join(1);
    let other = Member::join(1);
    let pid = rustix::process::Pid::from_raw(sleeper.pid() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("ours");
    kill_agent();
    wait_for_members(2);
    let more = Member::join(13);
    assert_eq!(more.slots.len(), 13);
    assert!(!more.slots.contains(&sleeper.slots[0]));
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("ours");
    wait_until(SOON, "the sleeper is served", || sleeper.tell("standing") == "Served");
    assert_eq!(status().members.len(), 3);
    for member in [sleeper, other, more] {
        member.leave();
    }
}

fn who_dies_with_the_agent_is_found_dead() {
    let dying = Member::join(2);
    let other = Member::join(1);
    let agent = status().agent.pid;
    // Nobody starts a successor before both are dead.
    let pid = rustix::process::Pid::from_raw(other.pid() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("ours");
    send_kill(agent);
    dying.kill();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("ours");
    wait_for_members(1);
    assert_eq!(status().agent.slots_waiting, 2);
    other.leave();
}

fn a_group_without_members_ends() {
    let member = Member::join(1);
    let group = status().agent.group;
    let agent = status().agent.pid;
    member.kill();
    send_kill(agent);
    wait_until(SOON, "the agent is gone", || {
        converb_agent::status().is_ok_and(|status| status.is_none())
    });
    let member = Member::join(1);
    assert_ne!(status().agent.group, group);
    assert!(!status().agent.is_successor);
    member.leave();
}

fn a_stopped_agent_comes_back_on_demand() {
    let mut member = Member::join(1);
    let pid = status().agent.pid;
    match converb_agent::stop(false) {
        Ok(Stopped::HasMembers(members)) => assert_eq!(members[0].pid, member.pid()),
        other => panic!("{other:?}"),
    }
    assert_eq!(converb_agent::stop(true).expect("it answers"), Stopped::Stopped { pid });
    let sender = Sender::new();
    for number in 0..10 {
        sender.send(member.slots[0], number);
    }
    // Long enough for two looks around: nobody needs an agent, and nobody starts one.
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(member.tell("standing"), "Unserved");
    assert_eq!(member.counts(), (10, 0));
    let newcomer = Member::join(1);
    assert_ne!(newcomer.slots, member.slots);
    wait_for_members(2);
    wait_until(SOON, "it is served", || member.tell("standing") == "Served");
    member.leave();
    newcomer.leave();
}

fn members_without_a_program() {
    let first = Member::join(1);
    let without = Newcomer::start_with(1, |command| {
        command.env_remove("CONVERB_BIN");
    });
    let without = without.joined().expect("there is an agent");
    let wrong = Newcomer::start_with(1, |command| {
        command.env("CONVERB_BIN", "/nonexistent");
    });
    let wrong = wrong.joined().expect("there is an agent");
    for _ in 0..5 {
        kill_agent();
        wait_for_members(3);
    }
    for member in [first, without, wrong] {
        member.leave();
    }
}

fn a_successor_can_grow() {
    let mut first = Member::join(10);
    kill_agent();
    wait_for_members(1);
    let mut second = Member::join(30);
    assert_eq!(status().agent.slots_total, 48);
    kill_agent();
    wait_for_members(2);
    let mut third = Member::join(20);
    let sender = Sender::new();
    for member in [&mut first, &mut second, &mut third] {
        for (number, &slot) in member.slots.iter().enumerate() {
            sender.send(slot, number as u32);
        }
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(member.counts(), (member.slots.len() as u64, 0));
    }
    for member in [first, second, third] {
        member.leave();
    }
}
