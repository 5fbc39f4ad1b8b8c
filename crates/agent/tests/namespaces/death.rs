//! What happens to a slot when its owner goes, in all the ways in which processes go.

use std::time::{Duration, Instant};

use crate::stage::{Member, Newcomer, Sender, kill_agent, status, wait_until};
use crate::{Line, Users};

pub const TESTS: &[Line] = &[
    ("a_dead_members_slot_rests_and_is_clean", a_dead_members_slot_rests, Users::Both),
    ("exec_gives_the_slot_back", exec_gives_the_slot_back, Users::Both),
    ("who_closes_everything_gets_it_again", who_closes_everything_gets_it_again, Users::Both),
    ("closed_descriptors_heal", closed_descriptors_heal, Users::Both),
    ("a_fork_child_does_not_keep_the_port", a_fork_child_does_not_keep_the_port, Users::Both),
    ("a_fork_child_hides_no_death", a_fork_child_hides_no_death, Users::Both),
    ("counters_outlive_members_and_agents", counters_outlive_members_and_agents, Users::Both),
    ("an_idle_agent_exits", an_idle_agent_exits, Users::Both),
];

const SOON: Duration = Duration::from_secs(3);

fn a_dead_members_slot_rests() {
    let keeper = Member::join(14);
    let mut dying = Member::join(1);
    let slot = dying.slots[0];
    // It must not read what arrives.
    assert_eq!(dying.counts(), (0, 0));
    let pid = rustix::process::Pid::from_raw(dying.pid() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("ours");
    let sender = Sender::new();
    for number in 0..20 {
        sender.send(slot, number);
    }
    let start = Instant::now();
    dying.kill();
    wait_until(SOON, "its death is seen", || status().agent.slots_waiting == 1);
    assert_eq!(status().members.len(), 1);
    sender.send(slot, 0);
    // All sixteen are taken, so the group grows while the slot rests.
    let other = Member::join(16);
    assert!(!other.slots.contains(&slot));
    assert_eq!(status().agent.slots_total, 32);
    wait_until(SOON, "its rest is over", || status().agent.slots_waiting == 0);
    assert!(start.elapsed() >= Duration::from_secs(2));
    let mut next = Member::join(1);
    assert_eq!(next.slots, [slot]);
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(next.counts(), (0, 0));
    for member in [keeper, other, next] {
        member.leave();
    }
}

fn exec_gives_the_slot_back() {
    let mut member = Member::join(2);
    let start = Instant::now();
    member.tell_only("exec sleep");
    wait_until(SOON, "the slots rest", || status().agent.slots_waiting == 2);
    assert!(start.elapsed() >= Duration::from_millis(900));
    assert!(std::fs::exists(format!("/proc/{}", member.pid())).is_ok_and(|exists| exists));
    member.kill();
}

fn who_closes_everything_gets_it_again() {
    let mut member = Member::join(3);
    let answer = member.tell("close-all");
    let lowest = answer.strip_prefix("fetched 3 from ").expect(&answer);
    assert!(lowest.parse::<u32>().expect("a number") > 500);
    let sender = Sender::new();
    for &slot in &member.slots {
        sender.send(slot, 1);
    }
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(member.counts(), (3, 0));
    assert_eq!(status().members.len(), 1);
    // It has a vault again, and takes part in takeovers.
    let killed = kill_agent();
    wait_until(SOON, "it has a successor", || status().members.len() == 1);
    assert_ne!(status().agent.pid, killed);
    // Nor do a second time and a dead agent together matter.
    let answer = member.tell("close-all");
    assert!(answer.starts_with("fetched 3 from "), "{answer}");
    member.leave();
}

/// A process that closes everything and does not use its slots for a while stays a member, and
/// does not spin on its closed descriptors.
fn closed_descriptors_heal() {
    let mut member = Member::join(2);
    assert_eq!(member.tell("close-all-silently"), "closed");
    wait_until(SOON, "it has noticed", || {
        member.tell("standing") == "Served" && member.tell("events") != "0"
    });
    std::thread::sleep(Duration::from_millis(1300));
    let events: u32 = member.tell("events").parse().expect("a number");
    assert!(events < 10, "{events} events");
    assert_eq!(status().members.len(), 1);
    let agent = kill_agent();
    wait_until(SOON, "it has a successor", || status().members.len() == 1);
    assert_ne!(status().agent.pid, agent);
    let sender = Sender::new();
    sender.send(member.slots[0], 1);
    assert!(member.tell("fetch").starts_with("fetched 2 from "));
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(member.counts(), (1, 0));
    member.leave();
}

fn a_fork_child_does_not_keep_the_port() {
    let mut member = Member::join(2);
    let answer = member.tell("fork abandon");
    let child = answer.strip_prefix("forked ").expect(&answer);
    let group = status().agent.group;
    // The child has to have run.
    std::thread::sleep(Duration::from_millis(50));
    let agent = kill_agent();
    wait_until(SOON, "there is a successor", || status().agent.pid != agent);
    let agent = status().agent.pid;
    member.kill();
    crate::stage::send_kill(agent);
    let member = Member::join(1);
    assert_ne!(status().agent.group, group);
    // Asleep, and not dead of an error of its own.
    let state = std::fs::read_to_string(format!("/proc/{child}/stat")).expect("the child lives");
    assert!(state.contains(") S "), "{state}");
    member.leave();
}

/// The child holds the connection open, so there is no hang-up.
fn a_fork_child_hides_no_death() {
    let mut member = Member::join(1);
    let answer = member.tell("fork keep");
    assert!(answer.starts_with("forked "), "{answer}");
    member.kill();
    wait_until(SOON, "the death is seen", || status().members.is_empty());
    assert_eq!(status().agent.slots_waiting, 1);
}

fn counters_outlive_members_and_agents() {
    let counters = || {
        let devices = converb_agent::device_counters().expect("it answers").expect("an agent");
        assert!(devices.len() <= 1);
        let of = |name: &str| {
            let counters = devices.iter().flat_map(|device| &device.counters);
            counters.filter(|(counter, _)| counter == name).map(|(_, value)| *value).sum::<u64>()
        };
        assert_eq!(of("bytes"), 0);
        of("packets")
    };
    let mut one = Member::join(1);
    let mut two = Member::join(1);
    assert_eq!(counters(), 0);
    one.tell("count 5");
    two.tell("count 30");
    assert_eq!(counters(), 35);
    one.kill();
    wait_until(SOON, "its death is seen", || status().members.len() == 1);
    assert_eq!(counters(), 35);
    two.tell("count 10");
    kill_agent();
    wait_until(SOON, "the other is back", || status().members.len() == 1 && counters() == 45);
    two.tell("count 1");
    assert_eq!(counters(), 46);
    let watcher = Member::join(1);
    two.kill();
    wait_until(SOON, "its death is seen", || status().members.len() == 1);
    assert_eq!(counters(), 46);
    watcher.leave();
}

fn an_idle_agent_exits() {
    let with_limit = |command: &mut std::process::Command| {
        command.env("CONVERB_AGENT_IDLE_SECONDS", "1");
    };
    let member = Newcomer::start_with(1, with_limit).joined().expect("nothing is in the way");
    let agent = status().agent.pid;
    std::thread::sleep(Duration::from_millis(1300));
    assert_eq!(status().agent.pid, agent, "an agent with members is not idle");
    member.leave();
    let start = Instant::now();
    wait_until(SOON, "the agent is gone", || {
        converb_agent::status().is_ok_and(|status| status.is_none())
    });
    assert!(start.elapsed() >= Duration::from_millis(900));
    let member = Member::join(1);
    assert_ne!(status().agent.pid, agent);
    member.leave();
}
