//! What fork children need: letters to a slot's owner, and the slots of those who have ended. To the
//! agent all are members, whoever forked from whom.

use std::time::Duration;

use crate::stage::{Member, Newcomer, Sender, kill_agent, send_kill, status, wait_until};
use crate::{Line, Users};

pub const TESTS: &[Line] = &[
    ("a_letter_reaches_the_owner_of_a_slot", a_letter_reaches_the_owner, Users::Both),
    ("another_user_gets_no_letter", another_user_gets_no_letter, Users::Root),
    ("a_slot_is_taken_over_with_what_waits", a_slot_is_taken_over, Users::Both),
    ("a_slot_is_taken_over_once", a_slot_is_taken_over_once, Users::Both),
    ("another_user_takes_no_slot", another_user_takes_no_slot, Users::Root),
    ("a_successor_knows_who_took_over", a_successor_knows_who_took_over, Users::Both),
];

const SOON: Duration = Duration::from_secs(5);
const OTHER: u32 = 1000;

fn a_letter_reaches_the_owner() {
    let mut writer = Member::join(1);
    let reader = Member::join(3);
    for round in 0..50 {
        let slot = reader.slots[round % 3];
        assert_eq!(
            writer.tell(&format!("write {slot} word-{round}")),
            format!("read word-{round}")
        );
    }
    let own = reader.slots[0];
    assert_eq!(writer.tell(&format!("write {} x", own + 9)), "error Owner");
    assert_eq!(writer.tell("write 65535 x"), "error Owner");
    assert_eq!(writer.tell(&format!("write {} x", writer.slots[0])), "error Owner", "to oneself");
    // The dead read nothing.
    let slot = reader.slots[0];
    reader.kill();
    wait_until(SOON, "its death is seen", || {
        writer.tell(&format!("write {slot} x")) == "error Owner"
    });
    let reader = Member::join(1);
    let slot = reader.slots[0];
    kill_agent();
    wait_until(SOON, "there is another agent", || {
        writer.tell(&format!("write {slot} again")) == "read again"
    });
    reader.leave();
    writer.leave();
}

fn another_user_gets_no_letter() {
    let mut owner = Member::join(1);
    let mut other = Newcomer::start_as(OTHER, 1).joined().expect("nothing is in the way");
    assert_eq!(owner.tell(&format!("write {} x", other.slots[0])), "error Owner");
    assert_eq!(other.tell(&format!("write {} x", owner.slots[0])), "error Agent");
    other.leave();
    owner.leave();
}

/// Ends a member that has not read what was sent to it.
fn end_unread(sender: &Sender, member: Member, count: u32) -> u16 {
    let slot = member.slots[0];
    let pid = rustix::process::Pid::from_raw(member.pid() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("ours");
    (0..count).for_each(|number| sender.send(slot, number));
    member.kill();
    slot
}

fn take(member: &mut Member, slot: u16) {
    wait_until(SOON, "the slot is to be had", || {
        member.tell(&format!("take {slot}")) == format!("took {slot}")
    });
}

fn a_slot_is_taken_over() {
    let mut heir = Member::join(1);
    let sender = Sender::new();
    let slot = end_unread(&sender, Member::join(1), 20);
    take(&mut heir, slot);
    wait_until(SOON, "what waited has come", || heir.counts() == (20, 0));
    // The slot is not given to others while it should rest, and what comes arrives.
    wait_until(SOON, "no slot rests", || status().agent.slots_waiting == 0);
    let others: Vec<_> = (0..14).map(|_| Member::join(1)).collect();
    assert!(others.iter().all(|member| !member.slots.contains(&slot)));
    (0..10).for_each(|number| sender.send(slot, number));
    wait_until(SOON, "the rest has come", || heir.counts() == (30, 0));
    others.into_iter().chain([heir]).for_each(Member::leave);
}

fn a_slot_is_taken_over_once() {
    let mut members = [Member::join(1), Member::join(1)];
    let slot = end_unread(&Sender::new(), Member::join(1), 0);
    take(&mut members[0], slot);
    // Who has not heard it asks again.
    take(&mut members[0], slot);
    let living = members[0].slots[0];
    for slot in [slot, living, 65535] {
        assert_eq!(members[1].tell(&format!("take {slot}")), "error Owner");
    }
    members.into_iter().for_each(Member::leave);
}

fn another_user_takes_no_slot() {
    let owner = Member::join(1);
    let mut other = Newcomer::start_as(OTHER, 1).joined().expect("nothing is in the way");
    let slot = end_unread(&Sender::new(), Member::join(1), 5);
    wait_until(SOON, "its death is seen", || status().agent.slots_waiting == 1);
    assert_eq!(other.tell(&format!("take {slot}")), "error Agent");
    assert_eq!(other.counts(), (0, 0));
    other.leave();
    owner.leave();
}

fn a_successor_knows_who_took_over() {
    let mut heir = Member::join(1);
    let sender = Sender::new();
    let slot = end_unread(&sender, Member::join(1), 0);
    take(&mut heir, slot);
    let old = status().agent.pid;
    send_kill(old);
    wait_until(SOON, "there is another agent", || {
        converb_agent::status().is_ok_and(|status| {
            status.is_some_and(|status| status.agent.pid != old && status.members.len() == 1)
        })
    });
    assert_eq!(status().members[0].slots.len(), 2);
    sender.send(slot, 0);
    sender.send(heir.slots[0], 1);
    wait_until(SOON, "both have come", || heir.counts() == (2, 0));
    heir.leave();
}
