//! select(2), on top of [`poll`](super::poll::poll).

use super::poll::{Entry, Ordinary, poll};
use crate::error::errno;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// A set of descriptors (`fd_set`), a bit for each.
pub type Set = [u64; 1024 / 64];

/// The sets of select(2); each may be missing.
#[derive(Debug, Default)]
pub struct Sets<'a> {
    /// Waiting to be read.
    pub read: Option<&'a mut Set>,
    /// Waiting to be written.
    pub write: Option<&'a mut Set>,
    /// Waiting for what is out of the ordinary.
    pub except: Option<&'a mut Set>,
}

const READ: i16 = libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND;
const READ_READY: i16 = READ | libc::POLLHUP | libc::POLLERR;
const WRITE: i16 = libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND;
const WRITE_READY: i16 = WRITE | libc::POLLERR;
const EXCEPT: i16 = libc::POLLPRI;

fn has(set: &Option<&mut Set>, number: usize) -> bool {
    set.as_ref().is_some_and(|set| set[number / 64] & 1 << (number % 64) != 0)
}

/// Waits for numbers below `count`; leaves in the sets those that are ready, and returns how many
/// they are, each counted once in each set.
///
/// # Errors
/// `EINVAL` for more numbers than sets have, `EBADF` for one that is no descriptor, and as for poll.
pub fn select(
    count: usize,
    sets: &mut Sets<'_>,
    timeout: Option<Duration>,
    ordinary: &mut Ordinary<'_>,
) -> io::Result<usize> {
    if count > size_of::<Set>() * 8 {
        return Err(errno(libc::EINVAL));
    }
    let mut entries = Vec::new();
    for number in 0..count {
        let wanted = |set, events| if has(set, number) { events } else { 0 };
        let events =
            wanted(&sets.read, READ) | wanted(&sets.write, WRITE) | wanted(&sets.except, EXCEPT);
        if events != 0 {
            entries.push(Entry { number: number as RawFd, events, ready: 0 });
        }
    }
    poll(&mut entries, timeout, ordinary)?;
    if entries.iter().any(|entry| entry.ready & libc::POLLNVAL != 0) {
        return Err(errno(libc::EBADF));
    }
    let all = [
        (&mut sets.read, READ, READ_READY),
        (&mut sets.write, WRITE, WRITE_READY),
        (&mut sets.except, EXCEPT, EXCEPT),
    ];
    let mut ready = 0;
    for (set, wanted, found) in all {
        let Some(set) = set else { continue };
        **set = Set::default();
        let chosen =
            entries.iter().filter(|entry| entry.events & wanted != 0 && entry.ready & found != 0);
        for entry in chosen {
            let number = entry.number as usize;
            set[number / 64] |= 1 << (number % 64);
            ready += 1;
        }
    }
    Ok(ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ready_stays_in_the_sets() {
        let mut read: Set = [0; 16];
        let mut write: Set = [0; 16];
        read[15] = 1 << 63 | 1 << 60;
        write[15] = 1 << 63;
        let mut sets = Sets { read: Some(&mut read), write: Some(&mut write), except: None };
        let ready = select(1024, &mut sets, None, &mut |entries, timeout| {
            assert_eq!(timeout, None);
            assert_eq!(entries.len(), 2);
            for entry in entries.iter_mut() {
                entry.ready = if entry.number == 1023 { libc::POLLOUT } else { libc::POLLHUP };
            }
            Ok(2)
        });
        assert_eq!(ready.unwrap(), 2);
        assert_eq!((read[15], write[15]), (1 << 60, 1 << 63));
        let too_many = select(1025, &mut Sets::default(), None, &mut |_, _| Ok(0));
        assert_eq!(too_many.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn a_number_that_is_no_descriptor_is_an_error() {
        let mut read: Set = [0; 16];
        read[0] = 1;
        let mut sets = Sets { read: Some(&mut read), ..Sets::default() };
        let bad = select(1, &mut sets, None, &mut |entries, _| {
            entries[0].ready = libc::POLLNVAL;
            Ok(1)
        });
        assert_eq!(bad.unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
