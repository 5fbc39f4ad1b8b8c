//! Posting the linked lists of work requests that `ibv_post_send` and `ibv_post_recv` take.
//!
//! Requests are handed on in batches, so that a list is transmitted together; everything is on the
//! stack, as posting must not allocate.

use crate::guard::{self, Errno};
use crate::layout::{ibv_recv_wr, ibv_send_wr};
use crate::send_requests::{self, INLINE};
use converb::iba::Service;
use converb::work::{Operation, Payload, ReceiveRequest, ScatterGather, SendFlags, SendRequest};
use converb::{DeviceAttributes, Error, QueuePair};
use core::ffi::c_int;

/// Requests handed on at a time.
const BATCH: usize = 32;
/// Scatter-gather entries of a batch; at least as many as one request may have.
const ENTRIES: usize = 64;

const _: () = assert!(ENTRIES >= DeviceAttributes::ALL.max_scatter_gather as usize);

const NO_ENTRY: ScatterGather = ScatterGather { address: 0, length: 0, lkey: 0 };
pub(crate) const NO_SEND: SendRequest<'static> = SendRequest {
    wr_id: 0,
    operation: Operation::Send,
    flags: SendFlags { fence: false, signaled: false, solicited: false },
    payload: Payload::Gather(&[]),
    destination: None,
};

/// Posts a list of send work requests; on an error, says which one was not taken.
///
/// # Safety
/// The list, and what its entries point to, are as verbs.h says.
pub(crate) unsafe fn post_sends(
    queue_pair: &QueuePair,
    mut next: *mut ibv_send_wr,
) -> Result<(), (*mut ibv_send_wr, Errno)> {
    while !next.is_null() {
        // SAFETY: the caller's promise.
        next = unsafe {
            // A list of one is what latency is measured with: it does without the large arrays.
            if (*next).next.is_null() {
                post_send_batch::<1, ENTRIES>(queue_pair, next)?
            } else {
                post_send_batch::<BATCH, ENTRIES>(queue_pair, next)?
            }
        };
    }
    Ok(())
}

/// Posts as many requests as a batch holds; returns the first that was not looked at.
unsafe fn post_send_batch<const REQUESTS: usize, const PIECES: usize>(
    queue_pair: &QueuePair,
    first: *mut ibv_send_wr,
) -> Result<*mut ibv_send_wr, (*mut ibv_send_wr, Errno)> {
    let mut entries = [NO_ENTRY; PIECES];
    let mut pieces: [&[u8]; PIECES] = [&[]; PIECES];
    let (mut free_entries, mut free_pieces) = (&mut entries[..], &mut pieces[..]);
    let mut requests = [NO_SEND; REQUESTS];
    let is_datagram = queue_pair.options().service == Service::UnreliableDatagram;
    let mut count = 0;
    let mut next = first;
    let mut failure = None;
    while count < REQUESTS && !next.is_null() {
        // SAFETY: the caller's promise.
        let work = unsafe { &*next };
        // SAFETY: the caller's promise.
        let given = unsafe { send_requests::entries(work.sg_list, work.num_sge) };
        // SAFETY: the caller's promise.
        let operation = unsafe { send_requests::operation(work) };
        // SAFETY: the caller's promise: only datagrams have a destination in the union.
        let destination =
            is_datagram.then(|| unsafe { send_requests::destination(work, queue_pair) });
        let (given, operation) = match (given, operation) {
            (Ok(given), Ok(operation)) if given.len() <= PIECES => (given, operation),
            _ => {
                failure = Some(Errno::INVALID);
                break;
            }
        };
        let payload = if work.send_flags & INLINE != 0 {
            if given.len() > free_pieces.len() {
                break;
            }
            let (mine, rest) = core::mem::take(&mut free_pieces).split_at_mut(given.len());
            free_pieces = rest;
            for (place, piece) in mine.iter_mut().zip(given) {
                // SAFETY: inline data is readable while it is posted.
                *place = unsafe { bytes(piece.addr, piece.length) };
            }
            Payload::Inline(mine)
        } else {
            if given.len() > free_entries.len() {
                break;
            }
            let (mine, rest) = core::mem::take(&mut free_entries).split_at_mut(given.len());
            free_entries = rest;
            for (place, piece) in mine.iter_mut().zip(given) {
                *place = send_requests::entry(piece);
            }
            Payload::Gather(mine)
        };
        requests[count] = SendRequest {
            wr_id: work.wr_id,
            operation,
            flags: send_requests::flags(work.send_flags),
            payload,
            destination: destination.flatten(),
        };
        count += 1;
        next = work.next;
    }
    match queue_pair.post_send(&requests[..count]) {
        // SAFETY: the caller's promise; the list has at least that many entries.
        Err((index, error)) => Err((unsafe { nth_send(first, index) }, errno(&error))),
        Ok(()) => match failure {
            Some(error) => Err((next, error)),
            None => Ok(next),
        },
    }
}

/// Posts a list of receives; on an error, says which one was not taken.
///
/// # Safety
/// The list is as verbs.h says.
pub(crate) unsafe fn post_receives(
    post: impl Fn(&[ReceiveRequest<'_>]) -> Result<(), (usize, Error)>,
    mut next: *mut ibv_recv_wr,
) -> Result<(), (*mut ibv_recv_wr, Errno)> {
    while !next.is_null() {
        // SAFETY: the caller's promise.
        next = unsafe { post_receive_batch(&post, next)? };
    }
    Ok(())
}

unsafe fn post_receive_batch(
    post: &impl Fn(&[ReceiveRequest<'_>]) -> Result<(), (usize, Error)>,
    first: *mut ibv_recv_wr,
) -> Result<*mut ibv_recv_wr, (*mut ibv_recv_wr, Errno)> {
    let mut entries = [NO_ENTRY; ENTRIES];
    let mut free_entries = &mut entries[..];
    let mut requests = [ReceiveRequest { wr_id: 0, scatter: &[] }; BATCH];
    let mut count = 0;
    let mut next = first;
    let mut failure = None;
    while count < BATCH && !next.is_null() {
        // SAFETY: the caller's promise.
        let work = unsafe { &*next };
        // SAFETY: the caller's promise.
        let given = match unsafe { send_requests::entries(work.sg_list, work.num_sge) } {
            Ok(given) if given.len() <= ENTRIES => given,
            _ => {
                failure = Some(Errno::INVALID);
                break;
            }
        };
        if given.len() > free_entries.len() {
            break;
        }
        let (mine, rest) = core::mem::take(&mut free_entries).split_at_mut(given.len());
        free_entries = rest;
        for (place, piece) in mine.iter_mut().zip(given) {
            *place = send_requests::entry(piece);
        }
        requests[count] = ReceiveRequest { wr_id: work.wr_id, scatter: mine };
        count += 1;
        next = work.next;
    }
    match post(&requests[..count]) {
        // SAFETY: the caller's promise; the list has at least that many entries.
        Err((index, error)) => Err((unsafe { nth_receive(first, index) }, errno(&error))),
        Ok(()) => match failure {
            Some(error) => Err((next, error)),
            None => Ok(next),
        },
    }
}

/// Posts a list as `post` does, and says in `refused` which request was not taken.
///
/// # Safety
/// `refused` is null or a place for a pointer.
pub(crate) unsafe fn report<T>(
    first: *mut T,
    refused: *mut *mut T,
    post: impl FnOnce() -> Result<(), (*mut T, Errno)>,
) -> c_int {
    let mut culprit = first;
    let status = guard::status(|| {
        post().map_err(|(work, error)| {
            culprit = work;
            error
        })
    });
    if status != 0 && !refused.is_null() {
        // SAFETY: the caller's promise.
        unsafe { refused.write(culprit) };
    }
    status
}

/// `ENOMEM` for inline data that is too long too: perftest's man page promises it.
pub(crate) fn errno(error: &Error) -> Errno {
    Errno(error.errno())
}

/// # Safety
/// `length` bytes at `address` are readable and stay the same while the slice is used.
pub(crate) unsafe fn bytes<'a>(address: u64, length: u32) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    let start = core::ptr::with_exposed_provenance(address as usize);
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(start, length as usize) }
}

unsafe fn nth_send(mut work: *mut ibv_send_wr, index: usize) -> *mut ibv_send_wr {
    for _ in 0..index {
        // SAFETY: the caller's promise.
        work = unsafe { (*work).next };
    }
    work
}

unsafe fn nth_receive(mut work: *mut ibv_recv_wr, index: usize) -> *mut ibv_recv_wr {
    for _ in 0..index {
        // SAFETY: the caller's promise.
        work = unsafe { (*work).next };
    }
    work
}
