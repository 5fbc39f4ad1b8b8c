//! `converb agent`: being the agent, looking at it, ending it.

use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::table::Table;
use converb_agent::protocol::MemberEntry;
use converb_agent::{JoinError, Status, Stopped};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::time::Duration;

/// `converb agent serve`.
pub(crate) fn serve(arguments: Vec<OsString>) -> Result<(), Failure> {
    converb_agent::serve_from_command_line(arguments)
        .map_err(|error| Failure::new(error.to_string()))
}

/// `converb agent status`.
pub(crate) fn status(json: bool) -> Result<(), Failure> {
    let status = converb_agent::status().map_err(failure)?;
    if json {
        print_json(&status.as_ref().map_or(json!({ "agent": null }), as_json))?;
    } else {
        match &status {
            None => {
                let text = "no agent runs in this network namespace; the next program starts one\n";
                print(text)?;
            }
            Some(status) => print(&in_words(status))?,
        }
    }
    Ok(())
}

/// `converb agent stop`.
pub(crate) fn stop(force: bool, json: bool) -> Result<(), Failure> {
    let stopped = converb_agent::stop(force).map_err(failure)?;
    if json {
        print_json(&match &stopped {
            Stopped::NoAgent => json!({ "stopped": false, "members": [] }),
            Stopped::Stopped { pid } => json!({ "stopped": true, "pid": pid, "members": [] }),
            Stopped::HasMembers(members) => {
                json!({ "stopped": false, "members": members_as_json(members) })
            }
        })?;
    }
    match stopped {
        Stopped::NoAgent if !json => print("no agent runs in this network namespace\n")?,
        Stopped::Stopped { pid } if !json => print(&format!("the agent (pid {pid}) has ended\n"))?,
        Stopped::HasMembers(members) => {
            return Err(Failure::new(format!(
                "programs use the agent, so it was not stopped; end them, or add --force\n{}",
                table(&members)
            )));
        }
        Stopped::NoAgent | Stopped::Stopped { .. } => {}
    }
    Ok(())
}

fn failure(error: JoinError) -> Failure {
    Failure::new(error.to_string())
}

fn as_json(status: &Status) -> Value {
    let agent = &status.agent;
    json!({
        "agent": {
            "pid": agent.pid,
            "uid": agent.uid,
            "uptime_ms": agent.uptime_ms,
            "version": agent.program_version.as_str(),
            "group": format!("{:016x}", agent.group),
            "slots_total": agent.slots_total,
            "slots_used": agent.slots_used,
            "slots_waiting": agent.slots_waiting,
            "too_many_in_flight": agent.too_many_in_flight,
            "is_successor": agent.is_successor,
            "management_datagrams": agent.management_datagrams,
            "management_drops": agent.management_drops,
            "listeners": agent.listeners,
        },
        "members": members_as_json(&status.members),
    })
}

fn members_as_json(members: &[MemberEntry]) -> Vec<Value> {
    members
        .iter()
        .map(|member| {
            json!({
                "pid": member.pid,
                "uid": member.uid,
                "program": member.program.as_str(),
                "joined_ms": member.joined_ms,
                "slots": member.slots,
                "relayed": member.is_carried,
            })
        })
        .collect()
}

fn in_words(status: &Status) -> String {
    let agent = &status.agent;
    let mut text = format!(
        "agent pid {}, uid {}, version {}, up {}{}\nslots: {} of {} used, {} resting\n",
        agent.pid,
        agent.uid,
        agent.program_version.as_str(),
        duration(agent.uptime_ms),
        if agent.is_successor { ", successor of one that died" } else { "" },
        agent.slots_used,
        agent.slots_total,
        agent.slots_waiting,
    );
    if agent.too_many_in_flight {
        text += "there can be no more slots: this user has too many descriptors in flight\n";
    }
    if agent.listeners > 0 {
        text += &format!("listeners (rdma_cm): {}\n", agent.listeners);
    }
    if status.members.is_empty() {
        text + "no program uses it\n"
    } else {
        text + &table(&status.members).to_string()
    }
}

fn table(members: &[MemberEntry]) -> Table {
    let mut table = Table::new(&["PID", "UID", "RELAYED", "PROGRAM", "FOR", "SLOTS"]);
    for member in members {
        let slots: Vec<String> = member.slots.iter().map(u16::to_string).collect();
        table.add(vec![
            member.pid.to_string(),
            member.uid.to_string(),
            if member.is_carried { "yes" } else { "no" }.to_owned(),
            member.program.as_str().to_owned(),
            duration(member.joined_ms),
            slots.join(" "),
        ]);
    }
    table
}

/// A length of time in the largest unit that fits, with the next smaller one.
fn duration(milliseconds: u64) -> String {
    let seconds = Duration::from_millis(milliseconds).as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_listed_one_a_line() {
        let member = MemberEntry {
            pid: 42,
            uid: 1000,
            joined_ms: 5000,
            program: converb_agent::protocol::Name::new("ib_write_bw"),
            slots: vec![3, 4],
            is_carried: true,
        };
        let text = table(&[member]).to_string();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("3 4") && text.contains("yes"), "{text}");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(999), "0 s");
        assert_eq!(duration(61_000), "1 min 1 s");
        assert_eq!(duration(7_200_000), "2 h 0 min");
        assert_eq!(duration(90_000_000), "1 d 1 h");
    }
}
