//! What processes of a family write to each other, by way of the agent, and how they answer.
//!
//! With a letter goes one end of a pair of sockets, by which the answer comes, and the ring of the
//! writer. If the reader ends before it answers, the writer learns it by the end of the connection.

use crate::heritage::Lost;
use crate::runtime::Runtime;
use converb_agent::{Undelivered, receive_descriptors, send_descriptors};
use converb_driver::{Heir, Kept};
use converb_wire::Qpn;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What a process writes to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    /// By this number all processes know each other that come from one.
    pub(crate) family: u64,
    pub(crate) wish: Wish,
}

/// What it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The queue pair, of which it has a copy that the runtime of this number has made.
    Have { qpn: Qpn, heir: Heir, maker: u64 },
    /// It needs the number no more.
    Return { qpn: Qpn },
}

/// What the other one has answered.
pub(crate) enum Answer {
    /// What comes for the queue pair is passed on; the process that does it, if it can be watched.
    Granted(Option<OwnedFd>),
    /// It is not, and why.
    Refused(Kept),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// Nobody has the slot.
    Nobody,
    /// There is no agent to hand the letter over now, or the reader does not answer: it may have
    /// ended just now.
    NotNow,
}

const LETTER_BYTES: usize = 48;
const VERSION: u8 = 1;
const RETURN: u8 = 0;
const HAVE: u8 = 1;

/// How long to wait for an answer; it comes within a millisecond, unless the other process has lost
/// the processor.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

impl Letter {
    fn emit(&self) -> [u8; LETTER_BYTES] {
        let mut bytes = [0; LETTER_BYTES];
        bytes[0] = VERSION;
        bytes[8..16].copy_from_slice(&self.family.to_ne_bytes());
        let qpn = match self.wish {
            Wish::Have { qpn, heir, maker } => {
                bytes[1] = HAVE;
                bytes[2] = heir.by_poll.into();
                bytes[16..24].copy_from_slice(&maker.to_ne_bytes());
                bytes[24..32].copy_from_slice(&heir.fork.to_ne_bytes());
                bytes[32..34].copy_from_slice(&heir.slot.to_ne_bytes());
                qpn
            }
            Wish::Return { qpn } => qpn,
        };
        bytes[4..8].copy_from_slice(&qpn.value().to_ne_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LETTER_BYTES] = bytes.try_into().ok()?;
        let long = |at: usize| u64::from_ne_bytes(*bytes[at..].first_chunk().expect("within"));
        let qpn = Qpn::new(u32::from_ne_bytes(*bytes[4..].first_chunk()?));
        let wish = match (bytes[0], bytes[1]) {
            (VERSION, RETURN) => Wish::Return { qpn },
            (VERSION, HAVE) => {
                let slot = u16::from_ne_bytes(*bytes[32..].first_chunk()?);
                let heir = Heir { fork: long(24), slot, generation: 0, by_poll: bytes[2] != 0 };
                Wish::Have { qpn, heir, maker: long(16) }
            }
            _ => return None,
        };
        Some(Self { family: long(8), wish })
    }
}

/// Writes to the owner of `slot`, and waits for the answer.
pub(crate) fn exchange(
    runtime: &Runtime,
    slot: u16,
    letter: &Letter,
    ring: [BorrowedFd<'_>; 2],
) -> Result<Answer, NoAnswer> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(|_: Errno| NoAnswer::NotNow)?;
    let with = [theirs.as_fd(), ring[0], ring[1]];
    match runtime.membership().write(slot, &letter.emit(), &with) {
        Ok(()) => {}
        Err(Undelivered::Owner) => return Err(NoAnswer::Nobody),
        Err(Undelivered::Agent) => return Err(NoAnswer::NotNow),
    }
    drop(theirs);
    let mut entries = [PollFd::new(&ours, PollFlags::IN)];
    let _ = poll(&mut entries, Some(&PATIENCE));
    let mut verdict = [0];
    match receive_descriptors(&ours, &mut verdict) {
        Ok(answer) if answer.length == 1 => Ok(match verdict[0] {
            0 => Answer::Granted(answer.descriptors.into_iter().next()),
            1 => Answer::Refused(Kept::InUse),
            2 => Answer::Refused(Kept::Forgotten),
            _ => Answer::Refused(Kept::Unknown),
        }),
        Ok(_) | Err(_) => Err(NoAnswer::NotNow),
    }
}

/// Says that a number is free again; if nobody hears it, the number is free when we end.
pub(crate) fn give_back(runtime: &Runtime, slot: u16, qpn: Qpn) {
    let letter = Letter { family: runtime.family(), wish: Wish::Return { qpn } };
    let _ = runtime.membership().write(slot, &letter.emit(), &[]);
}

/// Answers the letters that have come.
pub(crate) fn serve(runtime: &Runtime) {
    for letter in runtime.membership().take_letters() {
        match Letter::parse(&letter.bytes) {
            // Of another family, which may have had the slot before: no answer is one.
            Some(Letter { family, .. }) if family != runtime.family() => {
                refuse(letter.descriptors, Kept::Unknown);
            }
            Some(Letter { wish: Wish::Return { qpn }, .. }) => runtime.driver().take_back(qpn),
            Some(Letter { wish: Wish::Have { qpn, heir, maker }, .. }) => {
                grant(runtime, qpn, heir, maker, letter.descriptors);
            }
            None => {}
        }
    }
}

fn refuse(descriptors: Vec<OwnedFd>, kept: Kept) {
    let verdict = match kept {
        Kept::InUse => 1,
        Kept::Forgotten => 2,
        Kept::Unknown => 3,
    };
    if let Some(reply) = descriptors.first() {
        let _ = send_descriptors(reply, &[verdict], &[]);
    }
}

fn grant(runtime: &Runtime, qpn: Qpn, heir: Heir, maker: u64, mut descriptors: Vec<OwnedFd>) {
    if descriptors.len() != 3 {
        return refuse(descriptors, Kept::Unknown);
    }
    let ring = descriptors.split_off(1);
    let Some(generation) = runtime.membership().keep_ring(heir.slot, ring) else {
        return refuse(descriptors, Kept::Unknown);
    };
    let heir = Heir { generation, ..heir };
    let driver = runtime.driver();
    let result = if maker == runtime.id() {
        driver.hand_on(qpn, heir)
    } else {
        // The copy comes from a process that has ended, or that had it from us.
        driver.redirect(qpn, heir, &|slot, generation| runtime.is_gone(slot, generation))
    };
    match result {
        Ok(()) => {
            // A child that has ended meanwhile takes the queue pair with it.
            let process = pidfd_open(getpid(), PidfdFlags::empty()).ok();
            let with: Vec<_> = process.iter().map(AsFd::as_fd).collect();
            let _ = send_descriptors(&descriptors[0], &[0], &with);
        }
        Err(kept) => refuse(descriptors, kept),
    }
}

impl From<NoAnswer> for Lost {
    fn from(none: NoAnswer) -> Self {
        match none {
            NoAnswer::Nobody => Self::Gone,
            NoAnswer::NotNow => Self::NoAnswer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_as_they_were_written() {
        let heir = Heir { fork: 7, slot: 3, generation: 0, by_poll: true };
        let qpn = Qpn::new(0x12_3456);
        for wish in [Wish::Have { qpn, heir, maker: u64::MAX - 1 }, Wish::Return { qpn }] {
            let letter = Letter { family: 0x0123_4567_89ab_cdef, wish };
            assert_eq!(Letter::parse(&letter.emit()), Some(letter));
        }
        assert_eq!(Letter::parse(&[9; LETTER_BYTES]), None);
        assert_eq!(Letter::parse(&[1; 3]), None);
    }
}
