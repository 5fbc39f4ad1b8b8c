//! Sockets: a number, and behind it a listener or one end of a stream.
//!
//! The number is that of the descriptor on which the events of the socket's connection arrive, so no
//! file of the program's has it. [`table`] finds the socket of a number; [`poll`](poll::poll) waits for
//! several of them, and for ordinary descriptors among them.

mod listening;
mod options;
pub mod poll;
pub mod select;
pub mod table;

pub use options::{OptionLevel, SOL_RDMA};

use crate::error::{errno, of};
use crate::settings::Settings;
use crate::stream::{HowToReceive, Patience, Phase, Stream};
use converb::cm::{Event, EventChannel, EventKind, Identifier, PortSpace};
use converb::iba::Service;
use options::Choices;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::ioctl_fionbio;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A socket's family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A socket.
#[derive(Debug)]
pub struct Socket {
    family: Family,
    events: Arc<EventChannel>,
    identifier: Arc<Identifier>,
    is_nonblocking: AtomicBool,
    is_listening: AtomicBool,
    /// Its stream, since it has asked for one or come with one.
    stream: OnceLock<Arc<Stream>>,
    choices: Mutex<Choices>,
}

/// How a program sends or receives (the flags of send(2) and recv(2)).
#[derive(Clone, Copy, Debug, Default)]
pub struct Flags {
    /// `MSG_DONTWAIT`.
    pub nonblocking: bool,
    /// `MSG_PEEK`.
    pub peek: bool,
    /// `MSG_WAITALL`.
    pub all: bool,
}

impl Socket {
    /// A new socket for streams.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(family: Family, nonblocking: bool) -> io::Result<Arc<Self>> {
        let events = channel()?;
        let identifier = Identifier::new(&events, PortSpace::Tcp, Service::ReliableConnection);
        Ok(Self::of(family, events, identifier, Choices::usual(), nonblocking))
    }

    fn of(
        family: Family,
        events: Arc<EventChannel>,
        identifier: Arc<Identifier>,
        choices: Choices,
        nonblocking: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            family,
            events,
            identifier,
            is_nonblocking: AtomicBool::new(nonblocking),
            is_listening: AtomicBool::new(false),
            stream: OnceLock::new(),
            choices: Mutex::new(choices),
        })
    }

    /// Its number.
    pub fn number(&self) -> RawFd {
        self.events.descriptor().as_raw_fd()
    }

    /// Its family.
    pub fn family(&self) -> Family {
        self.family
    }

    fn choices(&self) -> MutexGuard<'_, Choices> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether calls do not wait (`O_NONBLOCK`).
    pub fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Ordering::Relaxed)
    }

    /// Changes that.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.is_nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// Takes an address (bind(2)).
    ///
    /// # Errors
    /// `EADDRINUSE`, `EADDRNOTAVAIL` if no device has it, `EINVAL` if the socket has one.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        self.identifier.bind(address).map_err(|error| match error.errno() {
            libc::ENODEV => errno(libc::EADDRNOTAVAIL),
            code => errno(code),
        })
    }

    /// Asks for a stream (connect(2)).
    ///
    /// # Errors
    /// `EINPROGRESS` where it does not wait, `ECONNREFUSED`, `ETIMEDOUT`, `ENETUNREACH`, `EISCONN`,
    /// `EALREADY`, `EINVAL` for a listener.
    pub fn connect(&self, address: SocketAddr) -> io::Result<()> {
        if self.is_listening.load(Ordering::Acquire) {
            return Err(errno(libc::EINVAL));
        }
        if let Some(stream) = self.stream.get() {
            return match stream.phase() {
                Phase::Connecting if self.is_nonblocking() => Err(errno(libc::EALREADY)),
                Phase::Connecting => stream.wait_settled(Patience::Endless),
                Phase::Failed => stream.wait_settled(Patience::None),
                _ => Err(errno(libc::EISCONN)),
            };
        }
        self.identifier.resolve_address(None, address).map_err(of)?;
        self.expect(EventKind::AddressResolved)?;
        self.identifier.resolve_route().map_err(of)?;
        self.expect(EventKind::RouteResolved)?;
        let settings = self.choices().settings.clone();
        let stream = Stream::connect(&self.identifier, &self.events, settings)?;
        if self.stream.set(Arc::clone(&stream)).is_err() {
            return Err(errno(libc::EALREADY));
        }
        match stream.wait_settled(self.patience(false)) {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                Err(errno(libc::EINPROGRESS))
            }
            settled => settled,
        }
    }

    /// Takes the event that follows at once from what was asked.
    fn expect(&self, kind: EventKind) -> io::Result<()> {
        match self.events.next(|_| ()).map_err(of)?.follow() {
            Event { kind: found, .. } if found == kind => Ok(()),
            Event { status, .. } if status < 0 => Err(errno(-status)),
            _ => Err(errno(libc::EHOSTUNREACH)),
        }
    }

    /// Its stream.
    ///
    /// # Errors
    /// `ENOTCONN` without one.
    pub fn stream(&self) -> io::Result<&Arc<Stream>> {
        self.stream.get().ok_or_else(|| errno(libc::ENOTCONN))
    }

    fn patience(&self, nonblocking: bool) -> Patience {
        if nonblocking || self.is_nonblocking() { Patience::None } else { Patience::Endless }
    }

    /// Sends (send(2)).
    ///
    /// # Errors
    /// `ENOTCONN`, and as for [`Stream::send`].
    pub fn send(&self, data: &[IoSlice<'_>], flags: Flags) -> io::Result<usize> {
        self.stream()?.send(data, self.patience(flags.nonblocking))
    }

    /// Receives (recv(2)).
    ///
    /// # Errors
    /// `ENOTCONN`, and as for [`Stream::receive`].
    pub fn receive(&self, into: &mut [IoSliceMut<'_>], flags: Flags) -> io::Result<usize> {
        let patience = self.patience(flags.nonblocking);
        self.stream()?.receive(into, HowToReceive { patience, peek: flags.peek, all: flags.all })
    }

    /// Writes into the peer's mapped memory (riowrite).
    ///
    /// # Errors
    /// `ENOTCONN`, and as for [`Stream::write_mapped`].
    pub fn write_mapped(&self, data: &[u8], offset: u64, flags: Flags) -> io::Result<usize> {
        self.stream()?.write_mapped(data, offset, self.patience(flags.nonblocking))
    }

    /// Its own address (getsockname(2)); all zeros before it has one.
    pub fn local(&self) -> SocketAddr {
        self.identifier.local().unwrap_or(match self.family {
            Family::V4 => (Ipv4Addr::UNSPECIFIED, 0).into(),
            Family::V6 => (Ipv6Addr::UNSPECIFIED, 0).into(),
        })
    }

    /// Its peer's (getpeername(2)).
    ///
    /// # Errors
    /// `ENOTCONN` without one.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.stream()?;
        self.identifier.peer().ok_or_else(|| errno(libc::ENOTCONN))
    }

    /// Ends it; nobody uses it afterwards.
    pub fn close(&self) {
        let linger = self.choices().linger;
        match self.stream.get() {
            Some(stream) => stream.close(linger),
            None => self.identifier.close(),
        }
    }

    fn settings(&self) -> Settings {
        match self.stream.get() {
            Some(stream) => stream.settings().clone(),
            None => self.choices().settings.clone(),
        }
    }

    /// Whether its event channel has something.
    fn has_requests(&self) -> io::Result<bool> {
        let events = self.events.descriptor();
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut watched = [PollFd::new(&events, PollFlags::IN)];
        Ok(rustix::event::poll(&mut watched, Some(&none))? > 0)
    }

    /// Waits until its event channel has something.
    fn wait_for_events(&self) -> io::Result<()> {
        let events = self.events.descriptor();
        rustix::event::poll(&mut [PollFd::new(&events, PollFlags::IN)], None)?;
        Ok(())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Closed before, or given up half made.
        self.identifier.close();
    }
}

/// A channel of which nothing is read with waiting.
fn channel() -> io::Result<Arc<EventChannel>> {
    let events = EventChannel::new().map_err(of)?;
    ioctl_fionbio(events.descriptor(), true)?;
    Ok(events)
}
