//! The agent starts by itself, and packets reach the process that owns their slot.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::stage::{Member, Newcomer, Sender, status, wait_until};
use crate::{Line, Users};

pub const TESTS: &[Line] = &[
    ("the_first_program_starts_the_agent", the_first_program_starts_the_agent, Users::Both),
    ("newcomers_race_to_one_agent", newcomers_race_to_one_agent, Users::Both),
    ("ipv6_may_be_switched_off", ipv6_may_be_switched_off, Users::Root),
    ("the_agent_keeps_nothing_of_its_starter", the_agent_keeps_nothing_of_its_starter, Users::Both),
];

fn the_first_program_starts_the_agent() {
    assert_eq!(converb_agent::status().expect("no obstacle"), None);
    let mut one = Member::join(1);
    let mut two = Member::join(3);
    assert_eq!((one.slots.len(), two.slots.len()), (1, 3));
    let status = status();
    assert_eq!((status.agent.slots_used, status.members.len()), (5, 2));
    assert_eq!(status.members[0].pid, one.pid());
    assert_eq!(status.members[1].slots.len(), 3);
    let sender = Sender::new();
    for number in 0..100 {
        for &slot in one.slots.iter().chain(&two.slots) {
            sender.send(slot, number);
        }
        // Slots that do not exist, or that nobody owns, disturb nobody.
        sender.send(16 + number as u16, number);
        std::thread::sleep(Duration::from_micros(200));
    }
    assert_eq!((one.counts(), two.counts()), ((100, 0), (300, 0)));
    wait_until(Duration::from_secs(1), "slot 0 has seen the strays", || {
        crate::stage::status().agent.management_drops == 100
    });
    one.leave();
    two.leave();
}

fn newcomers_race_to_one_agent() {
    for _ in 0..5 {
        let newcomers: Vec<_> = (0..6).map(|_| Newcomer::start(1)).collect();
        let members: Vec<_> = newcomers
            .into_iter()
            .map(|newcomer| newcomer.joined().expect("nothing is in the way"))
            .collect();
        let slots: BTreeSet<u16> = members.iter().flat_map(|member| member.slots.clone()).collect();
        assert_eq!(slots.len(), 6);
        assert_eq!(status().members.len(), 6);
        members.into_iter().for_each(Member::leave);
        assert!(matches!(converb_agent::stop(false), Ok(converb_agent::Stopped::Stopped { .. })));
    }
}

fn ipv6_may_be_switched_off() {
    std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").expect("our own namespace");
    let mut member = Member::join(2);
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
    let mut datagram = [0; 16];
    for &slot in &member.slots {
        let qpn = u32::from(slot) << converb_agent::QPN_BITS_IN_SLOT;
        datagram[4..8].copy_from_slice(&qpn.to_be_bytes());
        sender.send_to(&datagram, ("127.0.0.1", converb_agent::PORT)).expect("the port is open");
    }
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(member.counts(), (2, 0));
    member.leave();
}

/// Else `$(converb run x)` would hang, or a folder could not be unmounted.
fn the_agent_keeps_nothing_of_its_starter() {
    let member = Newcomer::start_with(1, |command| {
        use std::os::unix::process::CommandExt;
        command.env("SECRET", "1").env("LD_BIND_NOW", "1").current_dir("/tmp");
        // SAFETY: only system calls, on a live local.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGTERM, libc::SIG_IGN);
                let mut set: libc::cpu_set_t = core::mem::zeroed();
                libc::CPU_SET(0, &mut set);
                libc::sched_setaffinity(0, size_of_val(&set), &set);
                // A descriptor that the program passes on.
                libc::dup(1);
                Ok(())
            })
        };
    });
    let member = member.joined().expect("nothing is in the way");
    let agent = status().agent.pid;
    let read = |file: &str| {
        std::fs::read(format!("/proc/{agent}/{file}"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    let environment = read("environ");
    assert!(environment.split('\0').all(|entry| entry.is_empty() || entry.starts_with("CONVERB_")));
    let link = |file: &str| std::fs::read_link(format!("/proc/{agent}/{file}")).expect("ours");
    assert_eq!(link("cwd").to_str(), Some("/"));
    for descriptor in std::fs::read_dir(format!("/proc/{agent}/fd")).expect("ours") {
        let descriptor = descriptor.expect("ours").path();
        // The agent closes connections while we look.
        let Ok(target) = std::fs::read_link(&descriptor) else { continue };
        let target = target.to_str().expect("text");
        assert!(!target.starts_with("pipe:"), "{descriptor:?} is {target}");
    }
    let state = read("status");
    let field = |name: &str| {
        let line = state.lines().find(|line| line.starts_with(name)).expect("a field");
        line.split_once(':').expect("a value").1.trim().to_owned()
    };
    assert_eq!(u64::from_str_radix(&field("SigBlk"), 16), Ok(0));
    // SIGPIPE (13) is ignored by every Rust program, SIGXFSZ (25) by the agent.
    assert_eq!(u64::from_str_radix(&field("SigIgn"), 16), Ok(1 << 12 | 1 << 24));
    let own = std::fs::read_to_string("/proc/self/status").expect("ours");
    assert!(own.contains(&format!("Cpus_allowed:\t{}\n", field("Cpus_allowed"))));
    // Not getsid: where the session's leader is outside the test's PID namespace the kernel says 0,
    // which rustix takes for impossible.
    let session = |stat: &str| {
        let mut fields = stat.rsplit(')').next().expect("a name").split_ascii_whitespace();
        fields.nth(3).expect("a session").to_owned()
    };
    let of_agent = session(&read("stat"));
    let ours = std::fs::read_to_string("/proc/self/stat").expect("ours");
    assert_ne!(of_agent, "0");
    assert_ne!(of_agent, session(&ours));
    member.leave();
}
