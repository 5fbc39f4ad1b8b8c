//! The calls that move datagrams: sendmsg, sendmmsg, recvmsg, recvmmsg. None of them blocks.

use super::name::{NAME_BYTES, SocketName};
use super::option::last_error;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The most messages of one call in either direction.
pub(crate) const MESSAGES_MAX: usize = 32;

/// Messages to send with one call.
pub(crate) struct SendBatch<'a> {
    headers: [MaybeUninit<libc::mmsghdr>; MESSAGES_MAX],
    parts: [MaybeUninit<libc::iovec>; MESSAGES_MAX],
    count: usize,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> SendBatch<'a> {
    /// No messages.
    pub(crate) const fn new() -> Self {
        Self {
            headers: [const { MaybeUninit::uninit() }; MESSAGES_MAX],
            parts: [const { MaybeUninit::uninit() }; MESSAGES_MAX],
            count: 0,
            borrowed: PhantomData,
        }
    }

    /// Appends a message, unless there are [`MESSAGES_MAX`] already: then returns false.
    pub(crate) fn push(
        &mut self,
        name: &'a SocketName,
        control: &'a [u8],
        bytes: &'a [u8],
    ) -> bool {
        if self.count == MESSAGES_MAX {
            return false;
        }
        self.parts[self.count].write(libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        });
        // SAFETY: all-zero bytes are a message header without name, parts and control.
        let mut header: libc::mmsghdr = unsafe { core::mem::zeroed() };
        header.msg_hdr.msg_name = name.bytes().as_ptr().cast_mut().cast();
        header.msg_hdr.msg_namelen = name.bytes().len() as libc::socklen_t;
        header.msg_hdr.msg_iovlen = 1;
        if !control.is_empty() {
            header.msg_hdr.msg_control = control.as_ptr().cast_mut().cast();
            header.msg_hdr.msg_controllen = control.len();
        }
        self.headers[self.count].write(header);
        self.count += 1;
        true
    }

    /// Sends the messages, without blocking; returns how many went. An error means that not even
    /// the first one did.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        assert!(self.count > 0, "there is something to send");
        for (header, part) in self.headers[..self.count].iter_mut().zip(&mut self.parts) {
            // SAFETY: `push` has written the first `count` headers. Only now do they point at
            // their parts, because this batch may have moved before.
            unsafe { header.assume_init_mut() }.msg_hdr.msg_iov = part.as_mut_ptr();
        }
        let descriptor = socket.as_raw_fd();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let headers = self.headers.as_mut_ptr().cast::<libc::mmsghdr>();
        loop {
            let result = if self.count == 1 {
                // SAFETY: one header, written above, whose pointers borrow for 'a or are ours;
                // the kernel only reads through them.
                unsafe {
                    let header = &raw const (*headers).msg_hdr;
                    libc::syscall(libc::SYS_sendmsg, descriptor, header, flags).min(1)
                }
            } else {
                // SAFETY: `count` headers, written above, as for one. The kernel writes their
                // `msg_len`.
                unsafe { libc::syscall(libc::SYS_sendmmsg, descriptor, headers, self.count, flags) }
            };
            match result {
                // A datagram of no bytes counts as sent, too.
                0 if self.count == 1 => return Ok(1),
                0.. => return Ok(result as usize),
                _ => match last_error() {
                    Errno::INTR => (),
                    error => return Err(error),
                },
            }
        }
    }
}

/// What came with a datagram (or a super-packet of several) besides its bytes.
#[repr(C, align(8))]
pub(crate) struct Arrival {
    control: [u8; CONTROL_BYTES],
    name: [u8; NAME_BYTES],
    name_bytes: u32,
    control_bytes: u32,
    /// How many bytes came.
    pub(crate) bytes: u32,
    /// Whether the datagram or what came with it was cut off.
    pub(crate) is_truncated: bool,
    /// Whether this is no message, but the end of a connection.
    pub(crate) is_ended: bool,
}

/// Five entries: destination, traffic class, hop limit, segment size, overflow count; for
/// IPv4 on a dual-stack socket the destination could come twice.
const CONTROL_BYTES: usize = 224;

impl Arrival {
    /// Nothing.
    pub(crate) const fn new() -> Self {
        Self {
            control: [0; CONTROL_BYTES],
            name: [0; NAME_BYTES],
            name_bytes: 0,
            control_bytes: 0,
            bytes: 0,
            is_truncated: false,
            is_ended: false,
        }
    }

    /// The sender's name, as the kernel wrote it.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name[..NAME_BYTES.min(self.name_bytes as usize)]
    }

    /// The ancillary data, as the kernel wrote it.
    pub(crate) fn control(&self) -> &[u8] {
        &self.control[..CONTROL_BYTES.min(self.control_bytes as usize)]
    }
}

/// Receives as many messages as there are and `arrivals` holds, without blocking, each into its
/// own `buffer_bytes` of `buffers`. Returns how many came.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    buffers: &mut [u8],
    buffer_bytes: usize,
    arrivals: &mut [Arrival],
) -> Result<usize, Errno> {
    receive_split(socket, buffers, buffer_bytes, arrivals, 0)
}

/// The same, where the first `front` bytes of each message go to where ancillary data goes, and
/// there is none: for messages that begin with what the kernel does not tell.
pub(crate) fn receive_split(
    socket: BorrowedFd<'_>,
    buffers: &mut [u8],
    buffer_bytes: usize,
    arrivals: &mut [Arrival],
    front: usize,
) -> Result<usize, Errno> {
    let count = arrivals.len();
    assert!(count > 0 && count <= MESSAGES_MAX && count * buffer_bytes <= buffers.len());
    assert!(front <= CONTROL_BYTES);
    let mut headers: [MaybeUninit<libc::mmsghdr>; MESSAGES_MAX] =
        [const { MaybeUninit::uninit() }; MESSAGES_MAX];
    let mut parts: [MaybeUninit<[libc::iovec; 2]>; MESSAGES_MAX] =
        [const { MaybeUninit::uninit() }; MESSAGES_MAX];
    let buffers = buffers.chunks_exact_mut(buffer_bytes);
    for (((arrival, buffer), header), part) in
        arrivals.iter_mut().zip(buffers).zip(&mut headers).zip(&mut parts)
    {
        let part = part.write([
            libc::iovec { iov_base: arrival.control.as_mut_ptr().cast(), iov_len: front },
            libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() },
        ]);
        // SAFETY: all-zero bytes are a message header without name, parts and control.
        let header = header.write(unsafe { core::mem::zeroed() });
        header.msg_hdr.msg_iov = part.as_mut_ptr();
        header.msg_hdr.msg_iovlen = 2;
        if front == 0 {
            header.msg_hdr.msg_iov = &raw mut part[1];
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = arrival.name.as_mut_ptr().cast();
            header.msg_hdr.msg_namelen = NAME_BYTES as libc::socklen_t;
            header.msg_hdr.msg_control = arrival.control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL_BYTES;
        }
    }
    let descriptor = socket.as_raw_fd();
    let flags = libc::MSG_DONTWAIT;
    let first = headers.as_mut_ptr().cast::<libc::mmsghdr>();
    let received = loop {
        let result = if count == 1 {
            // SAFETY: the header was written above; it points into `arrivals` and `buffers`,
            // which are borrowed mutably and as long as it says.
            unsafe {
                let header = &raw mut (*first).msg_hdr;
                let result = libc::syscall(libc::SYS_recvmsg, descriptor, header, flags);
                (*first).msg_len = result.max(0) as u32;
                result.min(1)
            }
        } else {
            // SAFETY: `count` headers were written above, each as for one message; without a
            // time limit.
            unsafe {
                let no_limit = core::ptr::null_mut::<libc::timespec>();
                libc::syscall(libc::SYS_recvmmsg, descriptor, first, count, flags, no_limit)
            }
        };
        match result {
            0 if count == 1 => break 1,
            0.. => break result as usize,
            _ => match last_error() {
                Errno::INTR => (),
                error => return Err(error),
            },
        }
    };
    for (arrival, header) in arrivals.iter_mut().zip(&headers[..received]) {
        // SAFETY: at most `count` messages were received, and so many headers were written.
        let header = unsafe { header.assume_init_ref() };
        arrival.name_bytes = header.msg_hdr.msg_namelen;
        arrival.control_bytes = header.msg_hdr.msg_controllen.max(front) as u32;
        arrival.bytes = header.msg_len.saturating_sub(front as u32);
        arrival.is_ended = front > 0 && header.msg_len == 0;
        arrival.is_truncated = header.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    }
    Ok(received)
}
