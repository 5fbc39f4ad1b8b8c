//! A member: a process that joins and then does what a test tells it, line by line.

use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use crate::serving::Serving;
use converb_agent::{JoinOptions, Membership, QPN_BITS_IN_SLOT, Standing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};

/// Makes a process a member; the value is the number of slots that it asks for.
pub const PART_VARIABLE: &str = "CONVERB_AGENT_TEST_MEMBER";

/// Joins, prints `joined SLOTS...` or `error TEXT`, and obeys.
pub fn play(part: &str) {
    let options = JoinOptions {
        slots: part.parse().expect("a number of slots"),
        counters: vec!["packets", "bytes"],
        ..JoinOptions::default()
    };
    match Membership::join(&options) {
        Ok(membership) => Member::new(membership).obey(),
        Err(error) => say(&format!("error {error}")),
    }
}

struct Member {
    membership: Membership,
    slots: BTreeMap<u16, OwnedFd>,
    right: u64,
    wrong: u64,
    standing: Standing,
    /// How often the membership was looked after.
    events: u32,
    serving: Serving,
}

impl Member {
    fn new(mut membership: Membership) -> Self {
        let slots: BTreeMap<_, _> = membership.take_slots().into_iter().collect();
        let numbers: Vec<String> = slots.keys().map(u16::to_string).collect();
        say(&format!("joined {}", numbers.join(" ")));
        Self {
            membership,
            slots,
            right: 0,
            wrong: 0,
            standing: Standing::Served,
            events: 0,
            serving: Serving::default(),
        }
    }

    fn obey(mut self) {
        let mut line = Vec::new();
        loop {
            for byte in self.wait() {
                if byte != b'\n' {
                    line.push(byte);
                    continue;
                }
                let command = String::from_utf8(core::mem::take(&mut line)).expect("text");
                if command == "leave" {
                    drop(self);
                    say("left");
                    return;
                }
                let answer = self.perform(&command);
                say(&answer);
            }
        }
    }

    /// Looks after everything that a driver would, and gives what came from the test.
    fn wait(&mut self) -> Vec<u8> {
        loop {
            let stdin = std::io::stdin();
            let input = stdin.as_fd();
            let is_event = |set: &PollFd<'_>| !set.revents().is_empty();
            let (has_input, has_event) = {
                let watch = self.membership.watch_fd().expect("no fork child");
                let mut set =
                    vec![PollFd::new(&input, PollFlags::IN), PollFd::new(&watch, PollFlags::IN)];
                set.extend(self.slots.values().map(|slot| PollFd::new(slot, PollFlags::IN)));
                poll(&mut set, None).expect("waiting works");
                (is_event(&set[0]), is_event(&set[1]))
            };
            self.receive();
            if has_event {
                self.standing = self.membership.handle_event();
                self.slots.extend(self.membership.take_renewed());
                self.events += 1;
                self.answer_letters();
                self.serving.look(&self.membership);
            }
            if has_input {
                let mut bytes = [0; 256];
                match rustix::io::read(input, &mut bytes) {
                    Ok(0) | Err(_) => std::process::exit(0),
                    Ok(length) => return bytes[..length].to_vec(),
                }
            }
        }
    }

    fn receive(&mut self) {
        let mut message = [0; 128];
        // Before a datagram that the agent carries stands what the kernel told it.
        let front = if self.membership.carried_by().is_some() { 64 } else { 0 };
        let mut ended = Vec::new();
        for (&slot, socket) in &self.slots {
            while let Ok((length, _)) = recv(socket, &mut message[..], RecvFlags::DONTWAIT) {
                if length == 0 && front > 0 {
                    ended.push(slot);
                    break;
                }
                let (datagram, length) = (&message[front..], length.saturating_sub(front));
                let qpn = u32::from_be_bytes([0, datagram[5], datagram[6], datagram[7]]);
                let is_right = length >= 12 && qpn >> QPN_BITS_IN_SLOT == u32::from(slot);
                self.right += u64::from(is_right);
                self.wrong += u64::from(!is_right);
            }
        }
        // Another agent gives others.
        self.slots.retain(|slot, _| !ended.contains(slot));
    }

    fn perform(&mut self, command: &str) -> String {
        let (verb, argument) = command.split_once(' ').unwrap_or((command, ""));
        match verb {
            "counts" => format!("{} {}", self.right, self.wrong),
            "carried" => match self.membership.carried_by() {
                Some(by) => format!("by {}", by.uid),
                None => "no".into(),
            },
            "standing" => format!("{:?}", self.standing),
            "count" => {
                let device = self.membership.counters().device("roce_lo").expect("a place");
                device[0].fetch_add(argument.parse().expect("a number"), Ordering::Relaxed);
                "counted".into()
            }
            "exec" => {
                let error = std::process::Command::new(argument).arg("60").exec();
                format!("error {error}")
            }
            "events" => self.events.to_string(),
            "close-all" => {
                self.close_all();
                self.fetch()
            }
            "close-all-silently" => {
                self.close_all();
                "closed".into()
            }
            "fetch" => self.fetch(),
            "fork" => self.fork(argument),
            "write" => self.write(argument),
            "take" => self.take(argument),
            "serve" | "give-back" | "ask" | "news" => {
                self.serving.perform(&self.membership, verb, argument)
            }
            _ => format!("error {command}?"),
        }
    }

    /// What daemons do.
    fn close_all(&mut self) {
        // SAFETY: the descriptors that are closed have owners, who expect that they may fail.
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
        let old = core::mem::take(&mut self.slots);
        assert!(old.values().all(|slot| {
            recv(slot, &mut [0; 1][..], RecvFlags::DONTWAIT) == Err(rustix::io::Errno::BADF)
        }));
        // Nothing is left that these could close.
        core::mem::forget(old);
    }

    /// What a driver does when it finds its sockets closed.
    fn fetch(&mut self) -> String {
        let deadline = Instant::now() + Duration::from_secs(2);
        match self.membership.fetch_slots_again(deadline) {
            Ok(slots) => self.slots = slots.into_iter().collect(),
            Err(error) => return format!("error {error}"),
        }
        let lowest = self.slots.values().map(|slot| slot.as_raw_fd()).min();
        format!("fetched {} from {}", self.slots.len(), lowest.unwrap_or(-1))
    }

    /// Sends each letter back by what came with it.
    fn answer_letters(&self) {
        for letter in self.membership.take_letters() {
            let reply = letter.descriptors.first().expect("a way back");
            // The writer may have given up.
            let _ = rustix::io::write(reply, &letter.bytes);
        }
    }

    /// Writes to a slot's owner and waits until that has read it.
    fn write(&self, argument: &str) -> String {
        let (slot, text) = argument.split_once(' ').expect("a slot and a text");
        let (read_end, write_end) = rustix::pipe::pipe().expect("a pipe");
        let with = [write_end.as_fd()];
        let slot = slot.parse().expect("a slot");
        if let Err(error) = self.membership.write(slot, text.as_bytes(), &with) {
            return format!("error {error:?}");
        }
        let soon = Timespec { tv_sec: 1, tv_nsec: 0 };
        let answered = poll(&mut [PollFd::new(&read_end, PollFlags::IN)], Some(&soon));
        if answered != Ok(1) {
            return "unread".into();
        }
        let mut bytes = [0; 64];
        let length = rustix::io::read(&read_end, &mut bytes).expect("a letter");
        format!("read {}", str::from_utf8(&bytes[..length]).expect("text"))
    }

    fn take(&mut self, argument: &str) -> String {
        let slot = argument.parse().expect("a slot");
        match self.membership.take_over_slot(slot) {
            Ok(socket) => {
                self.slots.insert(slot, socket);
                format!("took {slot}")
            }
            Err(error) => format!("error {error:?}"),
        }
    }

    /// Leaves a child behind that sleeps; it gives up the membership if the argument says so.
    fn fork(&mut self, argument: &str) -> String {
        // SAFETY: this process has one thread.
        let child = unsafe { libc::fork() };
        if child != 0 {
            return format!("forked {child}");
        }
        if argument == "abandon" {
            self.membership.abandon_in_child();
            self.slots.clear();
            assert!(self.membership.watch_fd().is_none());
        }
        let forever = Timespec { tv_sec: 60, tv_nsec: 0 };
        let _ = poll(&mut [], Some(&forever));
        std::process::exit(0);
    }
}

/// Tells the test.
pub fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    let told = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    if told.is_err() {
        std::process::exit(0);
    }
}
