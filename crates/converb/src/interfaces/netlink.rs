//! A socket to the kernel's routing netlink, for dumps of links, addresses and routes.

use super::attributes::Attributes;
use super::{half, word};
use converb_link::Kept;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// What to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dump {
    Links,
    Addresses,
    Routes,
    Neighbours,
}

impl Dump {
    /// The request's message type, the reply's, and the length of the fixed part of both.
    fn parameters(self) -> (u16, u16, usize) {
        match self {
            Self::Links => (libc::RTM_GETLINK, libc::RTM_NEWLINK, 16),
            Self::Addresses => (libc::RTM_GETADDR, libc::RTM_NEWADDR, 8),
            Self::Routes => (libc::RTM_GETROUTE, libc::RTM_NEWROUTE, ROUTE_BYTES),
            Self::Neighbours => (libc::RTM_GETNEIGH, libc::RTM_NEWNEIGH, 12),
        }
    }
}

/// An open rtnetlink socket.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: Kept,
    buffer: Vec<u8>,
    sequence: u32,
}

/// The kernel sends a dump in pieces of at most this many bytes.
const BUFFER_BYTES: usize = 64 * 1024;
/// The message header: length, type (2 bytes), flags (2 bytes), sequence number, port.
pub(super) const HEADER_BYTES: usize = 16;
/// The fixed part of a route: `struct rtmsg`.
pub(super) const ROUTE_BYTES: usize = 12;
/// How often a dump is begun again that changed while it was read.
const ATTEMPTS: usize = 8;

impl Socket {
    pub(crate) fn open() -> io::Result<Self> {
        let descriptor = Kept::new(open(SocketFlags::CLOEXEC)?);
        Ok(Self { descriptor, buffer: vec![0; BUFFER_BYTES], sequence: 0 })
    }

    /// Calls `each` with the fixed part and the attributes of each entry.
    pub(super) fn dump(
        &mut self,
        what: Dump,
        mut each: impl FnMut(&[u8], Attributes<'_>),
    ) -> io::Result<()> {
        for _ in 0..ATTEMPTS {
            let mut entries = Vec::new();
            if self.attempt(what, &mut entries)? {
                let (_, _, fixed) = what.parameters();
                for entry in &entries {
                    let attributes = entry.get(fixed.next_multiple_of(4)..).unwrap_or_default();
                    each(entry, Attributes(attributes));
                }
                return Ok(());
            }
        }
        Err(io::Error::other("the kernel's list changed every time it was read"))
    }

    /// Asks for one route: `request` is the fixed part and the attributes. Returns the reply.
    pub(super) fn route(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut entries = Vec::new();
        self.ask(libc::RTM_GETROUTE, libc::RTM_NEWROUTE, request, 0, &mut entries)?;
        entries.pop().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Whether the dump was consistent; else it has to be done again.
    fn attempt(&mut self, what: Dump, entries: &mut Vec<Vec<u8>>) -> io::Result<bool> {
        let (request, reply, fixed) = what.parameters();
        self.ask(request, reply, &vec![0; fixed], libc::NLM_F_DUMP, entries)
    }

    /// Sends a request and collects the replies to it: all of a dump, else one.
    fn ask(
        &mut self,
        request: u16,
        reply: u16,
        content: &[u8],
        flags: i32,
        entries: &mut Vec<Vec<u8>>,
    ) -> io::Result<bool> {
        self.sequence += 1;
        let is_dump = flags & libc::NLM_F_DUMP != 0;
        let flags = (libc::NLM_F_REQUEST | flags) as u16;
        let length = HEADER_BYTES + content.len();
        let mut message = Vec::with_capacity(length);
        message.extend_from_slice(&(length as u32).to_ne_bytes());
        message.extend_from_slice(&request.to_ne_bytes());
        message.extend_from_slice(&flags.to_ne_bytes());
        message.extend_from_slice(&self.sequence.to_ne_bytes());
        // Our port number, which the kernel knows.
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(content);
        let descriptor = descriptor(&self.descriptor)?;
        retry(|| rustix::net::send(descriptor, &message, SendFlags::empty()))?;

        let mut is_consistent = true;
        loop {
            let (length, _) = retry(|| {
                rustix::net::recv(descriptor, self.buffer.as_mut_slice(), RecvFlags::empty())
            })?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut rest = &self.buffer[..length];
            while let Some(length) = word(rest, 0) {
                let length = length as usize;
                let Some(body) = rest.get(HEADER_BYTES..length) else { break };
                let kind = half(rest, 4).unwrap_or_default();
                let flags = i32::from(half(rest, 6).unwrap_or_default());
                if word(rest, 8) == Some(self.sequence) {
                    is_consistent &= flags & libc::NLM_F_DUMP_INTR == 0;
                    match i32::from(kind) {
                        libc::NLMSG_DONE => return Ok(is_consistent),
                        libc::NLMSG_ERROR => {
                            let error = word(body, 0).unwrap_or_default() as i32;
                            return Err(io::Error::from_raw_os_error(-error));
                        }
                        _ if kind == reply => {
                            entries.push(body.to_vec());
                            if !is_dump {
                                return Ok(true);
                            }
                        }
                        _ => {}
                    }
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}

/// A socket to the kernel's routing netlink.
pub(super) fn open(flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
    // NETLINK_ROUTE is protocol 0.
    rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)
}

/// The descriptor in its place, which may be one that the program has closed.
pub(super) fn descriptor(kept: &Kept) -> io::Result<BorrowedFd<'_>> {
    kept.get().ok_or_else(|| Errno::BADF.into())
}

pub(super) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}
