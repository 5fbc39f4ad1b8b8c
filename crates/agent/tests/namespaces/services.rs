//! Services: one member has each, and what asks for it finds that one, also after an agent's death.

use std::time::Duration;

use crate::stage::{Member, Newcomer, kill_agent, status, wait_until};
use crate::{Line, Users};

pub const TESTS: &[Line] = &[
    ("a_service_belongs_to_one_member", a_service_belongs_to_one, Users::Both),
    ("who_asks_finds_who_serves", who_asks_finds_who_serves, Users::Both),
    ("another_user_serves_too", another_user_serves_too, Users::Root),
    ("a_successor_refuses_nobodys_clients", a_successor_refuses_nobody, Users::Both),
];

const SOON: Duration = Duration::from_secs(5);
const V4: &str = "::ffff:127.0.0.1";

fn hears(member: &mut Member, news: &str) {
    let mut all = String::new();
    wait_until(SOON, news, || {
        all += &member.tell("news");
        all.contains(news)
    });
    assert_eq!(all, news);
}

fn a_service_belongs_to_one() {
    let (mut one, mut two) = (Member::join(1), Member::join(1));
    assert_eq!(one.tell("serve :: 7000"), "serves 7000");
    assert_eq!(two.tell("serve :: 7000"), "error InUse");
    assert_eq!(two.tell(&format!("serve {V4} 7000")), "error InUse");
    let picked = two.tell("serve :: 0");
    let port: u16 = picked.strip_prefix("serves ").and_then(|port| port.parse().ok()).unwrap();
    assert!(port >= 32_768);
    assert_eq!(one.tell(&format!("serve :: {port}")), "error InUse");
    assert_eq!(one.tell("give-back :: 7000"), "given back");
    assert_eq!(two.tell("serve :: 7000"), "serves 7000");
    // The dead serve nothing.
    two.kill();
    wait_until(SOON, "the port is free", || one.tell("serve :: 7000") == "serves 7000");
    one.leave();
}

fn who_asks_finds_who_serves() {
    let (mut server, mut client) = (Member::join(1), Member::join(1));
    client.tell(&format!("ask {V4} 7001"));
    hears(&mut client, "rejected-8");
    assert_eq!(server.tell(&format!("serve {V4} 7001")), "serves 7001");
    client.tell(&format!("ask {V4} 7001"));
    hears(&mut server, "asked-7001");
    // By IPv6 nobody serves there.
    client.tell("ask ::1 7001");
    hears(&mut client, "rejected-8");
    assert_eq!(server.tell("serve :: 7002"), "serves 7002");
    client.tell("ask ::1 7002");
    hears(&mut server, "asked-7002");
    server.leave();
    client.tell(&format!("ask {V4} 7001"));
    hears(&mut client, "rejected-8");
    client.leave();
}

fn another_user_serves_too() {
    let mut owner = Member::join(1);
    let mut other = Newcomer::start_as(1000, 1).joined().expect("nothing is in the way");
    assert_eq!(other.tell("serve :: 7003"), "serves 7003");
    assert_eq!(owner.tell("serve :: 7003"), "error InUse");
    owner.tell(&format!("ask {V4} 7003"));
    hears(&mut other, "asked-7003");
    other.tell(&format!("ask {V4} 7004"));
    hears(&mut other, "rejected-8");
    other.leave();
    owner.leave();
}

/// Who comes while a successor learns who serves what is not refused, but comes again.
fn a_successor_refuses_nobody() {
    let (mut server, mut client) = (Member::join(1), Member::join(1));
    assert_eq!(server.tell("serve :: 7005"), "serves 7005");
    for _ in 0..5 {
        let killed = kill_agent();
        client.tell(&format!("ask {V4} 7005"));
        wait_until(SOON, "there is another agent", || {
            converb_agent::status().is_ok_and(|status| {
                status.is_some_and(|status| status.agent.pid != killed && status.members.len() == 2)
            })
        });
        // What was asked in between is lost, or has come late.
        let mut all = String::new();
        wait_until(SOON, "the server is found", || {
            client.tell(&format!("ask {V4} 7005"));
            all += &server.tell("news");
            all.contains("asked-7005")
        });
        std::thread::sleep(Duration::from_millis(20));
        server.tell("news");
        assert_eq!(client.tell("news"), "");
        assert_eq!(client.tell("serve :: 7005"), "error InUse");
    }
    assert_eq!(status().members.len(), 2);
    server.leave();
    client.leave();
}
