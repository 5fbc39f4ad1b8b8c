//! Waiting for several sockets and ordinary descriptors at once (poll(2)).

use super::{Socket, table};
use crate::settings::Settings;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is to be waited for, and what came of it (`struct pollfd`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// A socket's number or an ordinary descriptor; below 0 for none.
    pub number: RawFd,
    /// The events that are wanted.
    pub events: i16,
    /// Those that are there.
    pub ready: i16,
}

/// What waits beside us for the same socket may take what would have woken us: so long at most.
const SHARED_WAIT: Duration = Duration::from_millis(10);

/// poll(2) itself: what a program's numbers mean is the caller's to know.
pub type Ordinary<'a> = dyn FnMut(&mut [Entry], Option<Duration>) -> io::Result<usize> + 'a;

/// Waits until something is there, for at most `timeout` where there is one; returns for how many
/// entries. `ordinary` waits for descriptors that are no sockets of ours.
///
/// # Errors
/// `EINTR`, and what poll(2) says of ordinary descriptors.
pub fn poll(
    entries: &mut [Entry],
    timeout: Option<Duration>,
    ordinary: &mut Ordinary<'_>,
) -> io::Result<usize> {
    let sockets: Vec<Option<Arc<Socket>>> =
        entries.iter().map(|entry| table::find(entry.number)).collect();
    if sockets.iter().all(Option::is_none) {
        return ordinary(entries, timeout);
    }
    let has_ordinary =
        entries.iter().zip(&sockets).any(|(entry, socket)| socket.is_none() && entry.number >= 0);
    let begin = Instant::now();
    let end = timeout.and_then(|timeout| begin.checked_add(timeout));
    let mut polling = Settings::usual().polling;
    loop {
        let is_last = end.is_some_and(|end| Instant::now() >= end);
        let sleeps = !is_last && begin.elapsed() >= polling;
        let mut ready = look(entries, &sockets, sleeps)?;
        if has_ordinary && (ready > 0 || is_last) {
            ready += look_at_ordinary(entries, &sockets, ordinary)?;
        }
        if ready > 0 || is_last {
            return Ok(ready);
        }
        if !sleeps {
            core::hint::spin_loop();
            continue;
        }
        polling = Duration::ZERO;
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        sleep(entries, &sockets, left, ordinary)?;
    }
}

/// What our own sockets are ready for; `arm` has their descriptors become readable when it changes.
fn look(entries: &mut [Entry], sockets: &[Option<Arc<Socket>>], arm: bool) -> io::Result<usize> {
    let mut ready = 0;
    for (entry, socket) in entries.iter_mut().zip(sockets) {
        entry.ready = match socket {
            Some(socket) => socket.readiness(entry.events, arm)?,
            None => 0,
        };
        ready += usize::from(entry.ready != 0);
    }
    Ok(ready)
}

/// The same for others, without waiting.
fn look_at_ordinary(
    entries: &mut [Entry],
    sockets: &[Option<Arc<Socket>>],
    ordinary: &mut Ordinary<'_>,
) -> io::Result<usize> {
    let mut theirs: Vec<Entry> = entries.iter().zip(sockets).map(only_ordinary).collect();
    let ready = ordinary(&mut theirs, Some(Duration::ZERO))?;
    for ((entry, theirs), _) in
        entries.iter_mut().zip(&theirs).zip(sockets).filter(|(_, socket)| socket.is_none())
    {
        entry.ready = theirs.ready;
    }
    Ok(ready)
}

fn only_ordinary((entry, socket): (&Entry, &Option<Arc<Socket>>)) -> Entry {
    if socket.is_some() { Entry { number: -1, events: 0, ready: 0 } } else { *entry }
}

/// Sleeps until something may have changed.
fn sleep(
    entries: &[Entry],
    sockets: &[Option<Arc<Socket>>],
    left: Option<Duration>,
    ordinary: &mut Ordinary<'_>,
) -> io::Result<()> {
    let is_shared = sockets.iter().flatten().any(|socket| socket.is_awaited());
    let left =
        if is_shared { Some(left.map_or(SHARED_WAIT, |left| left.min(SHARED_WAIT))) } else { left };
    let mut watched: Vec<Entry> = entries
        .iter()
        .zip(sockets)
        .map(|(entry, socket)| match socket {
            Some(socket) => Entry { number: socket.watched(), events: libc::POLLIN, ready: 0 },
            None => *entry,
        })
        .collect();
    ordinary(&mut watched, left)?;
    for (entry, socket) in watched.iter().zip(sockets) {
        if let Some(socket) = socket.as_ref().filter(|_| entry.ready != 0) {
            socket.woken();
        }
    }
    Ok(())
}

impl Socket {
    /// What it is ready for, of the wanted events.
    fn readiness(&self, wanted: i16, arm: bool) -> io::Result<i16> {
        if let Some(stream) = self.stream.get() {
            return if arm { stream.readiness_armed(wanted) } else { Ok(stream.readiness(wanted)) };
        }
        if !self.is_listening() {
            // As Linux has it for who has no peer.
            return Ok(libc::POLLOUT & wanted | libc::POLLHUP);
        }
        Ok(if self.has_requests()? { libc::POLLIN & wanted } else { 0 })
    }

    /// The descriptor that becomes readable when there is something.
    fn watched(&self) -> RawFd {
        match self.stream.get() {
            Some(stream) => stream.descriptor().as_raw_fd(),
            None => self.number(),
        }
    }

    /// That descriptor was readable.
    fn woken(&self) {
        if let Some(stream) = self.stream.get() {
            stream.clear_descriptor();
        }
    }

    fn is_awaited(&self) -> bool {
        self.stream.get().is_some_and(|stream| stream.is_awaited())
    }
}
