//! What the kernel tells about interfaces unasked: links and addresses that come, change and go.

use super::netlink::{self, HEADER_BYTES, retry};
use super::{half, word};
use converb_link::Kept;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SocketFlags};
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};

/// A subscription to changes of links and addresses.
#[derive(Debug)]
pub(crate) struct Changes {
    descriptor: Kept,
}

/// What may have changed since the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Something about the interfaces with these numbers, in the order of the messages.
    Of(Vec<u32>),
    /// Messages were lost, or could not be read whole: anything.
    Unknown,
}

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR` and `RTMGRP_IPV6_IFADDR`.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// Room for the messages of one datagram. All that counts is in front; what is cut off is noticed.
const BUFFER_BYTES: usize = 16 * 1024;

impl Changes {
    /// Subscribes: whatever changes from now on is told.
    pub(crate) fn subscribe() -> io::Result<Self> {
        Ok(Self { descriptor: Kept::new(Self::open()?) })
    }

    /// The same again, after the program has closed the descriptor. What happened in between is
    /// not told.
    pub(crate) fn subscribe_again(&self) -> io::Result<()> {
        let new = Self::open()?;
        // Whatever the number is now, it is not ours to close.
        let _ = self.descriptor.take().map(IntoRawFd::into_raw_fd);
        self.descriptor.set(new);
        Ok(())
    }

    fn open() -> io::Result<OwnedFd> {
        let descriptor = netlink::open(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        // The kernel picks the number of the socket.
        rustix::net::bind(&descriptor, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(descriptor)
    }

    /// Waits until there is news, or until the time is over; tells what it is.
    ///
    /// # Errors
    /// The program has closed the descriptor.
    pub(crate) fn wait(&self, limit: Option<&Timespec>) -> io::Result<News> {
        let descriptor = netlink::descriptor(&self.descriptor)?;
        let mut descriptors = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        retry(|| poll(&mut descriptors, limit))?;
        if descriptors[0].revents().contains(PollFlags::NVAL) {
            return Err(rustix::io::Errno::BADF.into());
        }
        let mut buffer = [0; BUFFER_BYTES];
        let mut numbers = Vec::new();
        loop {
            // The length is the datagram's own, however much of it fits.
            let received =
                retry(|| rustix::net::recv(descriptor, &mut buffer[..], RecvFlags::TRUNC));
            match received {
                Ok((_, length)) if length <= buffer.len() => {
                    concerned(&buffer[..length], &mut numbers);
                }
                Ok(_) => return Ok(News::Unknown),
                Err(error) => {
                    return match error.raw_os_error() {
                        Some(libc::EAGAIN) => Ok(News::Of(numbers)),
                        Some(libc::EBADF | libc::ENOTSOCK) => Err(error),
                        // ENOBUFS: more came than the kernel keeps; it goes on telling.
                        _ => Ok(News::Unknown),
                    };
                }
            }
        }
    }

    /// Closes the descriptor in a fork child, which would take messages from its parent.
    pub(crate) fn abandon_in_child(&self) {
        self.descriptor.clear();
    }
}

/// Adds the numbers of the interfaces that messages are about. Bytes that are no message end it.
fn concerned(mut messages: &[u8], numbers: &mut Vec<u32>) {
    // `struct ifinfomsg` and `struct ifaddrmsg` both have the number behind four bytes.
    const NUMBER_OFFSET: usize = HEADER_BYTES + 4;
    while let (Some(length), Some(kind)) = (word(messages, 0), half(messages, 4)) {
        let length = length as usize;
        let Some(message) = messages.get(..length).filter(|_| length >= HEADER_BYTES) else {
            return;
        };
        let is_ours = matches!(
            kind,
            libc::RTM_NEWLINK | libc::RTM_DELLINK | libc::RTM_NEWADDR | libc::RTM_DELADDR
        );
        if let (true, Some(number)) = (is_ours, word(message, NUMBER_OFFSET)) {
            numbers.push(number);
        }
        let Some(rest) = messages.get(length.next_multiple_of(4)..) else { return };
        messages = rest;
    }
}

impl News {
    /// Whether they may be about the interface with this number.
    pub(crate) fn concern(&self, number: u32) -> bool {
        match self {
            Self::Of(numbers) => numbers.contains(&number),
            Self::Unknown => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, number: u32) -> Vec<u8> {
        let mut bytes = 36u32.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.resize(HEADER_BYTES + 4, 0);
        bytes.extend_from_slice(&number.to_ne_bytes());
        bytes.resize(36, 0);
        bytes
    }

    fn numbers(messages: &[u8]) -> Vec<u32> {
        let mut found = Vec::new();
        concerned(messages, &mut found);
        found
    }

    #[test]
    fn every_message_of_a_datagram_is_looked_at() {
        let mut all = message(libc::RTM_NEWLINK, 7);
        all.extend(message(libc::RTM_NEWNEIGH, 8));
        all.extend(message(libc::RTM_DELADDR, 9));
        assert_eq!(numbers(&all), [7, 9]);
    }

    #[test]
    fn a_length_that_is_no_multiple_of_four_is_padded() {
        let mut odd = message(libc::RTM_NEWADDR, 3);
        odd[0] = 34;
        odd.extend(message(libc::RTM_NEWADDR, 4));
        assert_eq!(numbers(&odd), [3, 4]);
    }

    #[test]
    fn bytes_that_are_no_message_end_the_list() {
        let good = message(libc::RTM_NEWLINK, 7);
        // Cut anywhere, and with any length: never more than what is there, never for ever.
        for end in 0..good.len() {
            assert!(numbers(&good[..end]).is_empty(), "cut at {end}");
        }
        for length in (0..80).chain([u32::MAX, u32::MAX - 3, 1 << 31]) {
            let mut bad = good.clone();
            bad[..4].copy_from_slice(&length.to_ne_bytes());
            let expected: &[u32] = if (24..=36).contains(&length) { &[7] } else { &[] };
            assert_eq!(numbers(&bad), expected, "length {length}");
        }
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        let mut state = 1u64;
        for round in 0..20_000 {
            let bytes: Vec<u8> = (0..round % 97)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // Small values make lengths that fit.
                    (state >> 60) as u8
                })
                .collect();
            assert!(numbers(&bytes).len() <= bytes.len() / HEADER_BYTES);
        }
    }

    #[test]
    fn news_of_everything_concern_every_interface() {
        assert!(News::Unknown.concern(5));
        assert!(News::Of(vec![4, 5]).concern(5));
        assert!(!News::Of(vec![4]).concern(5));
    }

    #[test]
    fn without_news_the_wait_ends() {
        let changes = Changes::subscribe().unwrap();
        let soon = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Another test's interfaces may change meanwhile, in the same namespace.
        assert!(changes.wait(Some(&soon)).is_ok());
        changes.abandon_in_child();
        assert_eq!(changes.wait(Some(&soon)).unwrap_err().raw_os_error(), Some(libc::EBADF));
        changes.subscribe_again().unwrap();
        assert!(changes.wait(Some(&soon)).is_ok());
    }
}
