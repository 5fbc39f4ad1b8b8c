//! A stream over a queue pair: from the request for a connection to its end.
//!
//! All that happens is found by whoever looks ([`absorb`](Stream::absorb)), under one lock that is
//! never held while somebody waits or copies. Writers and readers of one stream take turns among
//! themselves, so that their bytes stay together; a writer and a reader never wait for each other.

mod absorbing;
mod ending;
mod making;
mod mapping;
mod posting;
mod receiving;
mod sending;
mod waiting;

pub use ending::Direction;
pub use receiving::HowToReceive;
pub use waiting::Patience;

use crate::error::errno;
use crate::flow::{Receiving, Sending};
use crate::protocol::Greeting;
use crate::settings::Settings;
use converb::cm::{EventChannel, Identifier};
use converb::{CompletionChannel, CompletionQueue, MemoryRegion, ProtectionDomain, QueuePair};
use mapping::Mappings;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// One end of a stream.
pub struct Stream {
    queue_pair: Arc<QueuePair>,
    queue: Arc<CompletionQueue>,
    channel: Arc<CompletionChannel>,
    identifier: Arc<Identifier>,
    events: Arc<EventChannel>,
    /// Whether the event channel has something; set by who puts it there.
    has_events: Arc<AtomicBool>,
    domain: Arc<ProtectionDomain>,
    /// Where what is sent lies until it has arrived.
    send_buffer: Arc<MemoryRegion>,
    /// Where the peer writes data.
    receive_buffer: Arc<MemoryRegion>,
    /// Where the peer writes about its own buffers, and behind these its mappings.
    tables: Arc<MemoryRegion>,
    settings: Settings,
    flow: Mutex<Flow>,
    /// Something has been absorbed.
    changed: Condvar,
    /// The writers' turn, and the readers'.
    writing: Mutex<()>,
    reading: Mutex<()>,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// We have asked for it.
    Connecting,
    /// We have agreed, and the peer may not be ready yet.
    Accepting,
    /// It can carry data.
    Open,
    /// It has ended, as streams do.
    Closed,
    /// It has ended by a failure.
    Failed,
}

/// What the lock guards.
struct Flow {
    phase: Phase,
    /// Whether more data may come, and may be sent.
    can_read: bool,
    can_write: bool,
    /// Whether the program has ended its own sending.
    ended_here: bool,
    /// What the program has not been told of.
    error: Option<i32>,
    /// The peer's, as soon as it is known, and what may be sent to it.
    peer: Option<(Greeting, Sending)>,
    receiving: Receiving,
    /// The next entry in the peer's table of buffers that is ours to write.
    next_told: u32,
    /// The next entry in our own that the peer writes.
    next_offered: u32,
    /// Receives to be posted again.
    owed_receives: usize,
    /// Whether a thread waits for completions, and how many wait for that one.
    is_awaited: bool,
    sleepers: u32,
    mappings: Mappings,
}

impl Stream {
    fn lock(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readable when there may be something to absorb.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.channel.descriptor()
    }

    /// The connection's identifier.
    pub fn identifier(&self) -> &Arc<Identifier> {
        &self.identifier
    }

    /// What it was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How far it has come.
    pub fn phase(&self) -> Phase {
        let mut flow = self.lock();
        self.absorb(&mut flow);
        flow.phase
    }

    /// Takes the error that the program has not been told of (`SO_ERROR`), 0 without one.
    pub fn take_error(&self) -> i32 {
        let mut flow = self.lock();
        self.absorb(&mut flow);
        flow.error.take().unwrap_or(0)
    }

    /// What poll(2) says of it, of the wanted events.
    pub fn readiness(&self, wanted: i16) -> i16 {
        let mut flow = self.lock();
        self.absorb(&mut flow);
        flow.readiness(wanted)
    }

    /// The same, and has the descriptor become readable when that changes.
    pub fn readiness_armed(&self, wanted: i16) -> io::Result<i16> {
        let mut flow = self.lock();
        self.queue.arm(false).map_err(crate::error::of)?;
        self.absorb(&mut flow);
        Ok(flow.readiness(wanted))
    }

    /// Whether another thread waits for it, and may take what makes the descriptor readable.
    pub fn is_awaited(&self) -> bool {
        self.lock().is_awaited
    }

    /// The descriptor was seen readable, and what is there is about to be absorbed.
    pub fn clear_descriptor(&self) {
        self.channel.clear();
    }
}

impl Flow {
    fn readiness(&self, wanted: i16) -> i16 {
        let mut ready = 0;
        if self.is_settled() {
            if self.receiving.unread() > 0 || !self.can_read {
                ready |= libc::POLLIN | libc::POLLRDNORM;
            }
            if !self.can_write || self.has_room() {
                ready |= libc::POLLOUT | libc::POLLWRNORM;
            }
        }
        let always = match self.phase {
            Phase::Closed => libc::POLLHUP,
            Phase::Failed => libc::POLLERR | libc::POLLHUP,
            _ => 0,
        };
        ready & wanted | always
    }

    /// Whether it is known what has become of the request for a connection.
    fn is_settled(&self) -> bool {
        !matches!(self.phase, Phase::Connecting | Phase::Accepting)
    }

    fn has_room(&self) -> bool {
        self.phase == Phase::Open
            && self.peer.as_ref().is_some_and(|(_, sending)| sending.room() > 0)
    }

    fn sending(&mut self) -> Option<&mut Sending> {
        self.peer.as_mut().map(|(_, sending)| sending)
    }

    /// It ends with an error, unless it has ended.
    fn fail(&mut self, code: i32) {
        if !matches!(self.phase, Phase::Closed | Phase::Failed) {
            self.phase = Phase::Failed;
            self.error = Some(code);
            (self.can_read, self.can_write) = (false, false);
        }
    }

    /// It ends, unless it has.
    fn close(&mut self) {
        if self.phase != Phase::Failed {
            self.phase = Phase::Closed;
            (self.can_read, self.can_write) = (false, false);
        }
    }

    /// Why nothing can be sent any more.
    fn why_not_written(&mut self) -> io::Error {
        let usual = if self.ended_here { libc::EPIPE } else { libc::ECONNRESET };
        errno(self.error.take().unwrap_or(usual))
    }
}

impl core::fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Stream").field("phase", &self.lock().phase).finish_non_exhaustive()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.has_events.store(false, Ordering::Release);
        self.identifier.close();
    }
}
