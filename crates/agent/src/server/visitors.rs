//! Those who connect: greeted, and then members, observers, or sent away.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::Agent;
use super::events::Source;
use super::offer::Offer;
use crate::identity::{Peer, User, identify};
use crate::protocol::{Header, Hello, Refusal, Reply, Request, Role, VERSION, Welcome};
use crate::transfer::{self, Received};

/// A connection that does not belong to a member.
#[derive(Debug)]
pub struct Visitor {
    pub peer: Peer,
    pub connection: OwnedFd,
    /// Observers have said hello; the others have some time to do so.
    is_observer: bool,
    /// When it last said something.
    since: Duration,
}

/// How long a visitor may be silent.
const PATIENCE: Duration = Duration::from_secs(5);

/// A pause when the system gives us nothing.
const BREATHER: Duration = Duration::from_millis(10);

/// The most visitors at a time.
const VISITORS_MAX: usize = 1024;
/// The most of other users, who shall not keep our own out.
const STRANGERS_MAX: usize = 256;

impl Visitor {
    /// Says no and hangs up.
    pub fn refuse(self, refusal: Refusal) {
        refuse(&self.connection, refusal);
    }
}

fn refuse(connection: &OwnedFd, refusal: Refusal) {
    // One who does not listen is sent away silently.
    let _ = transfer::send(connection, &Reply::Refused(refusal).emit(), &[]);
}

impl Agent {
    /// Takes in everybody who has connected.
    pub(super) fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            let connection = match accept_with(&self.listener, flags) {
                Ok(connection) => connection,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    // No descriptor or no memory to be had: the visitor stays in the queue, which
                    // would wake us again at once.
                    std::thread::sleep(BREATHER);
                    return;
                }
            };
            let Some(peer) = identify(&connection) else { continue };
            let is_stranger = |peer: &Peer| peer.user != User::Same;
            let strangers = self.visitors.values().filter(|visitor| is_stranger(&visitor.peer));
            if self.visitors.len() >= VISITORS_MAX
                || is_stranger(&peer) && strangers.count() >= STRANGERS_MAX
            {
                refuse(&connection, Refusal::Busy);
                continue;
            }
            let number = self.next_number();
            if self.watch(&connection, Source::Visitor(number)).is_ok() {
                let since = self.now();
                let visitor = Visitor { peer, connection, is_observer: false, since };
                self.visitors.insert(number, visitor);
            }
        }
    }

    /// A visitor speaks or hangs up.
    pub(super) fn handle_visitor(&mut self, number: u64) {
        let Some(mut visitor) = self.visitors.remove(&number) else { return };
        let mut buffer = transfer::buffer();
        let received = match transfer::receive(&visitor.connection, &mut buffer) {
            Ok(received) if received.length > 0 => received,
            Err(Errno::AGAIN) => {
                self.visitors.insert(number, visitor);
                return;
            }
            Ok(_) | Err(_) => return,
        };
        visitor.since = self.now();
        let message = &buffer[..received.length];
        if Header::parse(message).is_ok_and(|header| header.version != VERSION) {
            visitor.refuse(Refusal::Version);
            return;
        }
        match Request::parse(message) {
            Ok(_) | Err(_) if received.truncated => visitor.refuse(Refusal::Malformed),
            Ok(Request::Hello(hello)) if !visitor.is_observer => {
                self.greet(number, visitor, hello, received);
            }
            Ok(Request::TakeOver { slot }) if visitor.is_observer => {
                self.give_slot(&visitor, slot);
                self.visitors.insert(number, visitor);
            }
            Ok(request) if visitor.is_observer => {
                let reply = match request {
                    Request::Letter { slot, bytes } => {
                        self.hand_over(&visitor, slot, bytes, &received.descriptors)
                    }
                    request => self.answer(request, visitor.peer.user),
                };
                let is_told = transfer::send(&visitor.connection, &reply.emit(), &[]).is_ok();
                if is_told && !matches!(reply, Reply::Refused(_) | Reply::Goodbye) {
                    self.visitors.insert(number, visitor);
                }
            }
            Ok(_) | Err(_) => visitor.refuse(Refusal::Malformed),
        }
    }

    fn greet(&mut self, number: u64, mut visitor: Visitor, hello: Hello, received: Received) {
        // The connection gets another number in the epoll set, or none.
        let is_stranger = visitor.peer.user != User::Same;
        // Nothing of another user's is mapped, read or passed on: it could change under our hands.
        let offered = if is_stranger { Vec::new() } else { received.descriptors };
        let Ok(mut offer) = Offer::of(offered) else {
            visitor.refuse(Refusal::Malformed);
            return;
        };
        let is_carried = is_stranger || hello.role.is_carried();
        offer.ring = offer.ring.filter(|_| !is_carried);
        match hello.role {
            Role::Observe => {
                let welcome = Reply::Welcome(Welcome { group: self.vault.group(), slots: 0 });
                if transfer::send(&visitor.connection, &welcome.emit(), &[]).is_ok() {
                    visitor.is_observer = true;
                    self.visitors.insert(number, visitor);
                }
            }
            Role::Join { slots, .. } => {
                self.unwatch(&visitor.connection);
                self.join(visitor, slots, is_carried, hello.program, offer);
            }
            Role::Rejoin { group, .. } if group != self.vault.group() => {
                visitor.refuse(Refusal::SlotLost);
            }
            Role::Rejoin { slots, wants_descriptors, .. } => {
                self.unwatch(&visitor.connection);
                let claimed = slots.into_iter().collect();
                self.rejoin(visitor, claimed, wants_descriptors, is_carried, hello.program, offer);
            }
        }
    }

    /// Sends away those who say nothing, and tells when to look again.
    pub(super) fn expire_visitors(&mut self) -> Option<Duration> {
        let now = self.now();
        self.visitors.retain(|_, visitor| visitor.since + PATIENCE > now);
        self.visitors.values().map(|visitor| visitor.since + PATIENCE).min()
    }
}
