//! Building send work requests through the functions in `struct ibv_qp_ex`: perftest's way.
//!
//! Between `ibv_wr_start` and `ibv_wr_complete` requests are only recorded, in memory that is used
//! again and again; completing posts them. A mistake in between is remembered and makes completing
//! fail as a whole.

use crate::guard::{self, Errno};
use crate::layout::{ibv_ah, ibv_data_buf, ibv_qp_ex, ibv_sge};
use crate::objects::QueuePairObject;
use crate::posting;
use crate::program_lock::ProgramLock;
use crate::send_requests;
use converb::work::{
    DatagramDestination, Operation, Payload, RemoteAddress, ScatterGather, SendFlags,
};
use converb::{Error, QueuePair, Rkey};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ops::Range;

/// The requests of a queue pair that are being built, and the lock that start and complete are.
#[derive(Default)]
pub(crate) struct Builder {
    lock: ProgramLock,
    draft: UnsafeCell<Draft>,
}

/// What was recorded since start.
#[derive(Default)]
struct Draft {
    works: Vec<Work>,
    entries: Vec<ScatterGather>,
    inline: Vec<u8>,
    mistake: Option<Errno>,
}

struct Work {
    wr_id: u64,
    operation: Operation,
    flags: SendFlags,
    data: Data,
    destination: Option<DatagramDestination>,
}

/// Where the bytes of a request are, in the draft's memory.
enum Data {
    Entries(Range<usize>),
    Inline(Range<usize>),
}

/// Requests posted at a time.
const BATCH: usize = 32;

impl Draft {
    fn clear(&mut self) {
        self.works.clear();
        self.entries.clear();
        self.inline.clear();
        self.mistake = None;
    }

    fn add_entries(&mut self, entries: impl Iterator<Item = ScatterGather>) {
        let start = self.entries.len();
        self.entries.extend(entries);
        let data = Data::Entries(start..self.entries.len());
        self.set_data(data);
    }

    fn add_inline(&mut self, piece: &[u8], is_first: bool) {
        let start = match self.works.last() {
            Some(Work { data: Data::Inline(range), .. }) if !is_first => range.start,
            _ => self.inline.len(),
        };
        self.inline.extend_from_slice(piece);
        let data = Data::Inline(start..self.inline.len());
        self.set_data(data);
    }

    fn set_data(&mut self, data: Data) {
        match self.works.last_mut() {
            Some(work) => work.data = data,
            None => self.mistake = Some(Errno::INVALID),
        }
    }

    /// Posts everything; on an error nothing of the batch in which it was.
    fn post(&self, queue_pair: &QueuePair) -> Result<(), Errno> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        // What can never fit is refused before anything is posted.
        if self.works.len() > queue_pair.options().capacities.sends as usize {
            return Err(Errno(libc::ENOMEM));
        }
        let post = match self.works.len() {
            0 => return Ok(()),
            1 => Self::post_batch::<1>,
            _ => Self::post_batch::<BATCH>,
        };
        self.works
            .chunks(BATCH)
            .try_for_each(|works| post(self, queue_pair, works))
            .map_err(|error| posting::errno(&error))
    }

    fn post_batch<const SIZE: usize>(
        &self,
        queue_pair: &QueuePair,
        works: &[Work],
    ) -> Result<(), Error> {
        let mut pieces: [&[u8]; SIZE] = [&[]; SIZE];
        for (place, work) in pieces.iter_mut().zip(works) {
            if let Data::Inline(range) = &work.data {
                *place = &self.inline[range.clone()];
            }
        }
        let mut requests = [posting::NO_SEND; SIZE];
        for ((request, work), piece) in requests.iter_mut().zip(works).zip(&pieces) {
            request.wr_id = work.wr_id;
            request.operation = work.operation;
            request.flags = work.flags;
            request.destination = work.destination;
            request.payload = match &work.data {
                Data::Entries(range) => Payload::Gather(&self.entries[range.clone()]),
                Data::Inline(_) => Payload::Inline(core::slice::from_ref(piece)),
            };
        }
        queue_pair.post_send(&requests[..works.len()]).map_err(|(_, error)| error)
    }
}

/// Puts the functions in their slots. What is not there records a mistake.
pub(crate) fn fill(public: &mut ibv_qp_ex) {
    public.wr_atomic_cmp_swp = Some(atomic_cmp_swp);
    public.wr_atomic_fetch_add = Some(atomic_fetch_add);
    public.wr_local_inv = Some(local_inv);
    public.wr_rdma_read = Some(rdma_read);
    public.wr_rdma_write = Some(rdma_write);
    public.wr_rdma_write_imm = Some(rdma_write_imm);
    public.wr_send = Some(send);
    public.wr_send_imm = Some(send_imm);
    public.wr_send_inv = Some(send_inv);
    public.wr_set_ud_addr = Some(set_ud_addr);
    public.wr_set_xrc_srqn = Some(set_xrc_srqn);
    public.wr_set_inline_data = Some(set_inline_data);
    public.wr_set_inline_data_list = Some(set_inline_data_list);
    public.wr_set_sge = Some(set_sge);
    public.wr_set_sge_list = Some(set_sge_list);
    public.wr_start = Some(start);
    public.wr_complete = Some(complete);
    public.wr_abort = Some(abort);
}

unsafe extern "C" fn start(queue_pair: *mut ibv_qp_ex) {
    guard::value((), || {
        // SAFETY: the queue pair is alive.
        let builder = unsafe { &QueuePairObject::from_pointer(queue_pair).builder };
        builder.lock.lock();
        // SAFETY: the lock is held.
        unsafe { (*builder.draft.get()).clear() };
    });
}

unsafe extern "C" fn complete(queue_pair: *mut ibv_qp_ex) -> c_int {
    guard::status(|| {
        // SAFETY: the queue pair is alive.
        let object = unsafe { QueuePairObject::from_pointer(queue_pair) };
        // SAFETY: the program is between start and complete, so it holds the lock.
        unsafe {
            let result = (*object.builder.draft.get()).post(object.queue_pair());
            object.builder.lock.unlock();
            result
        }
    })
}

unsafe extern "C" fn abort(queue_pair: *mut ibv_qp_ex) {
    guard::value((), || {
        // SAFETY: the program is between start and complete, so it holds the lock.
        unsafe {
            let builder = &QueuePairObject::from_pointer(queue_pair).builder;
            // Nothing of it is posted, even if the program goes on without another start.
            (*builder.draft.get()).clear();
            builder.lock.unlock();
        }
    });
}

/// Changes the draft.
///
/// # Safety
/// The program is between start and complete.
unsafe fn draft(queue_pair: *mut ibv_qp_ex, change: impl FnOnce(&mut Draft)) {
    guard::value((), || {
        // SAFETY: the caller's promise: the thread holds the lock.
        change(unsafe { &mut *QueuePairObject::from_pointer(queue_pair).builder.draft.get() });
    });
}

/// Begins a request, with the number and flags that the program has put into the structure.
///
/// # Safety
/// The program is between start and complete.
unsafe fn begin(queue_pair: *mut ibv_qp_ex, operation: Operation) {
    // SAFETY: the queue pair is alive.
    let (wr_id, flags) = unsafe { ((*queue_pair).wr_id, (*queue_pair).wr_flags) };
    // SAFETY: the caller's promise.
    unsafe {
        draft(queue_pair, |draft| {
            draft.works.push(Work {
                wr_id,
                operation,
                flags: send_requests::flags(flags),
                data: Data::Entries(0..0),
                destination: None,
            });
        });
    }
}

/// # Safety
/// The program is between start and complete.
unsafe fn mistake(queue_pair: *mut ibv_qp_ex, error: Errno) {
    // SAFETY: the caller's promise.
    unsafe { draft(queue_pair, |draft| draft.mistake = draft.mistake.or(Some(error))) };
}

fn remote(rkey: u32, address: u64) -> RemoteAddress {
    RemoteAddress { address, rkey: Rkey(rkey) }
}

unsafe extern "C" fn send(queue_pair: *mut ibv_qp_ex) {
    // SAFETY: the program is between start and complete.
    unsafe { begin(queue_pair, Operation::Send) };
}

unsafe extern "C" fn send_imm(queue_pair: *mut ibv_qp_ex, immediate: u32) {
    // SAFETY: the program is between start and complete.
    unsafe { begin(queue_pair, Operation::SendWithImmediate(u32::from_be(immediate))) };
}

unsafe extern "C" fn send_inv(queue_pair: *mut ibv_qp_ex, key: u32) {
    // SAFETY: the program is between start and complete.
    unsafe { begin(queue_pair, Operation::SendWithInvalidate(Rkey(key))) };
}

unsafe extern "C" fn rdma_write(queue_pair: *mut ibv_qp_ex, rkey: u32, address: u64) {
    // SAFETY: the program is between start and complete.
    unsafe { begin(queue_pair, Operation::Write(remote(rkey, address))) };
}

unsafe extern "C" fn rdma_write_imm(
    queue_pair: *mut ibv_qp_ex,
    rkey: u32,
    address: u64,
    immediate: u32,
) {
    let operation = Operation::WriteWithImmediate(remote(rkey, address), u32::from_be(immediate));
    // SAFETY: the program is between start and complete.
    unsafe { begin(queue_pair, operation) };
}

unsafe extern "C" fn rdma_read(queue_pair: *mut ibv_qp_ex, rkey: u32, address: u64) {
    // SAFETY: the program is between start and complete.
    unsafe { begin(queue_pair, Operation::Read(remote(rkey, address))) };
}

unsafe extern "C" fn atomic_cmp_swp(
    queue_pair: *mut ibv_qp_ex,
    rkey: u32,
    address: u64,
    compare: u64,
    swap: u64,
) {
    let operation = Operation::CompareAndSwap { remote: remote(rkey, address), compare, swap };
    // SAFETY: the program is between start and complete.
    unsafe { begin(queue_pair, operation) };
}

unsafe extern "C" fn atomic_fetch_add(
    queue_pair: *mut ibv_qp_ex,
    rkey: u32,
    address: u64,
    add: u64,
) {
    // SAFETY: the program is between start and complete.
    unsafe {
        begin(queue_pair, Operation::FetchAndAdd { remote: remote(rkey, address), add });
    }
}

unsafe extern "C" fn local_inv(queue_pair: *mut ibv_qp_ex, _key: u32) {
    // SAFETY: the program is between start and complete.
    unsafe { mistake(queue_pair, Errno::NOT_SUPPORTED) };
}

unsafe extern "C" fn set_ud_addr(
    queue_pair: *mut ibv_qp_ex,
    handle: *mut ibv_ah,
    qpn: u32,
    queue_key: u32,
) {
    // SAFETY: the handle is alive, and the program is between start and complete.
    unsafe {
        let object = QueuePairObject::from_pointer(queue_pair);
        let destination =
            send_requests::datagram_destination(handle, object.queue_pair(), qpn, queue_key);
        draft(queue_pair, |draft| match draft.works.last_mut() {
            Some(work) => work.destination = destination,
            None => draft.mistake = Some(Errno::INVALID),
        });
    }
}

unsafe extern "C" fn set_xrc_srqn(_queue_pair: *mut ibv_qp_ex, _number: u32) {
    // The services that are there have no use for it.
}

unsafe extern "C" fn set_sge(queue_pair: *mut ibv_qp_ex, lkey: u32, address: u64, length: u32) {
    let entry = ScatterGather { address, length, lkey };
    // SAFETY: the program is between start and complete.
    unsafe { draft(queue_pair, |draft| draft.add_entries(core::iter::once(entry))) };
}

unsafe extern "C" fn set_sge_list(queue_pair: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    // SAFETY: the program passes `count` entries and is between start and complete.
    unsafe {
        let Ok(entries) = send_requests::entries(list, c_int::try_from(count).unwrap_or(-1)) else {
            return mistake(queue_pair, Errno::INVALID);
        };
        draft(queue_pair, |draft| draft.add_entries(entries.iter().map(send_requests::entry)));
    }
}

unsafe extern "C" fn set_inline_data(
    queue_pair: *mut ibv_qp_ex,
    address: *mut c_void,
    length: usize,
) {
    // SAFETY: the program passes readable bytes and is between start and complete.
    unsafe { add_inline(queue_pair, address, length, true) };
}

unsafe extern "C" fn set_inline_data_list(
    queue_pair: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_data_buf,
) {
    if count == 0 {
        // SAFETY: the program is between start and complete.
        return unsafe { draft(queue_pair, |draft| draft.add_inline(&[], true)) };
    }
    for position in 0..count {
        // SAFETY: the program passes `count` buffers, and is between start and complete.
        unsafe {
            let buffer = &*list.add(position);
            add_inline(queue_pair, buffer.addr, buffer.length, position == 0);
        }
    }
}

/// # Safety
/// `length` bytes at `address` are readable; the program is between start and complete.
unsafe fn add_inline(
    queue_pair: *mut ibv_qp_ex,
    address: *mut c_void,
    length: usize,
    is_first: bool,
) {
    let Ok(length) = u32::try_from(length) else {
        // SAFETY: the caller's promise.
        return unsafe { mistake(queue_pair, Errno::INVALID) };
    };
    // SAFETY: the caller's promise.
    unsafe {
        let piece = posting::bytes(address.expose_provenance() as u64, length);
        draft(queue_pair, |draft| draft.add_inline(piece, is_first));
    }
}
