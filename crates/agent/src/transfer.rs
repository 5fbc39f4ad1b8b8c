//! One message with descriptors over a unix socket, and back.

use core::mem::MaybeUninit;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::protocol::{DESCRIPTORS_MAX, MESSAGE_MAX};

/// What one receive call brought.
pub struct Received {
    /// How many bytes of the buffer are filled; 0 if the other side hung up.
    pub length: usize,
    /// The descriptors that came along, close-on-exec.
    pub descriptors: Vec<OwnedFd>,
    /// Whether bytes or descriptors were lost on the way: the message cannot be trusted.
    pub truncated: bool,
}

/// Sends `message` and `descriptors` as one message, without waiting and without a signal.
/// `Errno::AGAIN` says that the other side does not read.
pub fn send(
    socket: impl AsFd,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    assert!(descriptors.len() <= DESCRIPTORS_MAX, "callers split into batches");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(fits, "the space is for as many descriptors as a message may have");
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent =
        retry_on_intr(|| sendmsg(socket.as_fd(), &[IoSlice::new(message)], &mut control, flags))?;
    if sent == message.len() { Ok(()) } else { Err(Errno::MSGSIZE) }
}

/// Receives one message into `buffer` without waiting. `Errno::AGAIN` says that there is none.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> Result<Received, Errno> {
    receive_with(socket, buffer, RecvFlags::DONTWAIT)
}

/// Like [`receive`], with other flags; descriptors are always close-on-exec.
pub fn receive_with(
    socket: impl AsFd,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> Result<Received, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let result = retry_on_intr(|| {
        let mut slices = [IoSliceMut::new(buffer)];
        recvmsg(socket.as_fd(), &mut slices, &mut control, flags | RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let lost = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
    Ok(Received { length: result.bytes, descriptors, truncated: result.flags.intersects(lost) })
}

/// A buffer that holds any message.
pub fn buffer() -> Box<[u8]> {
    vec![0; MESSAGE_MAX].into_boxed_slice()
}
