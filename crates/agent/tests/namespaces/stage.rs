//! What tests need to have members, and to send to them.

use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use converb_agent::{PORT, QPN_BITS_IN_SLOT, Status};

use crate::member::PART_VARIABLE;
use crate::runner::become_user;

/// A member process, ended with this value.
pub struct Member {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Its slots.
    pub slots: Vec<u16>,
}

/// A member process that has not told yet how its joining went.
pub struct Newcomer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Newcomer {
    /// Starts a process that joins with `slots` slots.
    pub fn start(slots: u16) -> Self {
        Self::start_with(slots, |_| {})
    }

    /// The same, with something else about the process.
    pub fn start_with(slots: u16, change: impl FnOnce(&mut Command)) -> Self {
        let program = std::env::var_os("CONVERB_BIN").expect("the runner sets it");
        let mut command = Command::new(program);
        command.env(PART_VARIABLE, slots.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().expect("our own program runs");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, input, output }
    }

    /// The same, as another user, which takes root.
    pub fn start_as(user: u32, slots: u16) -> Self {
        Self::start_with(slots, |command| {
            // SAFETY: only system calls.
            unsafe {
                command.pre_exec(move || {
                    become_user(user);
                    Ok(())
                })
            };
        })
    }

    /// Waits until it is a member, or has the error that it printed.
    pub fn joined(self) -> Result<Member, String> {
        let Self { child, input, output } = self;
        let mut member = Member { child, input, output, slots: Vec::new() };
        let line = member.line();
        if let Some(error) = line.strip_prefix("error ") {
            return Err(error.to_owned());
        }
        let numbers = line.strip_prefix("joined ").expect("a member says that it joined");
        let numbers = numbers.split_ascii_whitespace();
        member.slots = numbers.map(|number| number.parse().expect("a number")).collect();
        Ok(member)
    }
}

impl Member {
    /// A member with `slots` slots.
    pub fn join(slots: u16) -> Self {
        Newcomer::start(slots).joined().expect("nothing is in the way")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to do something and gives its answer.
    pub fn tell(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").expect("the member lives");
        self.line()
    }

    /// Tells it to do something that has no answer.
    pub fn tell_only(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("the member lives");
    }

    /// How many datagrams it got that are for its slots, and how many that are not.
    pub fn counts(&mut self) -> (u64, u64) {
        let line = self.tell("counts");
        let (right, wrong) = line.split_once(' ').expect("two numbers");
        (right.parse().expect("a number"), wrong.parse().expect("a number"))
    }

    /// Kills it with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("our own child");
        self.child.wait().expect("our own child");
    }

    /// Lets it leave in good order.
    pub fn leave(mut self) {
        assert_eq!(self.tell("leave"), "left");
        self.child.wait().expect("our own child");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the member lives");
        line.trim_end().to_owned()
    }
}

/// Sends datagrams with a base transport header to slots on this machine.
pub struct Sender {
    four: UdpSocket,
    six: UdpSocket,
}

impl Sender {
    pub fn new() -> Self {
        Self {
            four: UdpSocket::bind("127.0.0.1:0").expect("loopback is up"),
            six: UdpSocket::bind("[::1]:0").expect("loopback is up"),
        }
    }

    /// Sends one to some queue pair of `slot`, by IPv4 and IPv6 in turn.
    pub fn send(&self, slot: u16, number: u32) {
        let qpn = u32::from(slot) << QPN_BITS_IN_SLOT | number & 0x3fff;
        let mut datagram = [0; 32];
        datagram[4..8].copy_from_slice(&qpn.to_be_bytes());
        let sent = if number.is_multiple_of(2) {
            self.four.send_to(&datagram, ("127.0.0.1", PORT))
        } else {
            self.six.send_to(&datagram, ("::1", PORT))
        };
        assert_eq!(sent.expect("the port is open"), datagram.len());
    }
}

/// The agent, which has to be there.
pub fn status() -> Status {
    converb_agent::status().expect("the agent answers").expect("there is an agent")
}

/// Kills the agent with SIGKILL and gives its process number.
pub fn kill_agent() -> u32 {
    let pid = status().agent.pid;
    send_kill(pid);
    pid
}

pub fn send_kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process number");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("our own process");
}

/// Waits until `condition` holds, at most for `limit`.
pub fn wait_until(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < give_up, "it takes too long until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
