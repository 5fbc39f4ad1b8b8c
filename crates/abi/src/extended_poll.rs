//! Polling through the functions in `struct ibv_cq_ex`: one completion at a time, read field by
//! field.

use crate::guard::{self, Errno};
use crate::layout::{ibv_cq_ex, ibv_poll_cq_attr, ibv_wc_tm_info};
use crate::objects::CompletionQueueObject;
use crate::polling;
use crate::program_lock::ProgramLock;
use converb::Completion;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint};

/// The completion between `ibv_start_poll` and `ibv_end_poll`, and the lock that these two are.
#[derive(Default)]
pub(crate) struct ExtendedPoll {
    lock: ProgramLock,
    current: UnsafeCell<Completion>,
}

impl ExtendedPoll {
    /// The current completion.
    ///
    /// # Safety
    /// Called between `start_poll` and `end_poll` by the thread that polls.
    unsafe fn current(&self) -> &Completion {
        // SAFETY: the caller's promise: the thread holds the lock.
        unsafe { &*self.current.get() }
    }
}

/// Puts the functions in their slots. Slots for what no completion of ours has stay empty:
/// `ibv_create_cq_ex` refuses to promise those fields.
pub(crate) fn fill(public: &mut ibv_cq_ex) {
    public.start_poll = Some(start_poll);
    public.next_poll = Some(next_poll);
    public.end_poll = Some(end_poll);
    public.read_opcode = Some(read_opcode);
    public.read_vendor_err = Some(read_vendor_err);
    public.read_byte_len = Some(read_byte_len);
    public.read_imm_data = Some(read_imm_data);
    public.read_qp_num = Some(read_qp_num);
    public.read_src_qp = Some(read_src_qp);
    public.read_wc_flags = Some(read_wc_flags);
    public.read_slid = Some(read_slid);
    public.read_sl = Some(read_sl);
    public.read_dlid_path_bits = Some(read_dlid_path_bits);
    public.read_tm_info = Some(read_tm_info);
}

unsafe extern "C" fn start_poll(queue: *mut ibv_cq_ex, options: *mut ibv_poll_cq_attr) -> c_int {
    guard::status(|| {
        // SAFETY: the program passes null or the options.
        if unsafe { options.as_ref() }.is_some_and(|options| options.comp_mask != 0) {
            return Err(Errno::INVALID);
        }
        // SAFETY: the queue is alive.
        let extended = unsafe { &CompletionQueueObject::from_pointer(queue).extended };
        extended.lock.lock();
        // SAFETY: the queue is alive and the lock is held.
        let result = unsafe { advance(queue) };
        if result.is_err() {
            // SAFETY: locked above.
            unsafe { extended.lock.unlock() };
        }
        result
    })
}

unsafe extern "C" fn next_poll(queue: *mut ibv_cq_ex) -> c_int {
    // SAFETY: the program is between start and end.
    guard::status(|| unsafe { advance(queue) })
}

unsafe extern "C" fn end_poll(queue: *mut ibv_cq_ex) {
    guard::value((), || {
        // SAFETY: the program is between start and end, so it holds the lock.
        unsafe { CompletionQueueObject::from_pointer(queue).extended.lock.unlock() };
    });
}

/// Fetches the next completion and shows its first fields; `ENOENT` if there is none.
///
/// # Safety
/// The queue is alive and its poll lock is held.
unsafe fn advance(queue: *mut ibv_cq_ex) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let object = unsafe { CompletionQueueObject::from_pointer(queue) };
    let mut completion = [Completion::default()];
    if object.queue().poll(&mut completion)? == 0 {
        return Err(Errno(libc::ENOENT));
    }
    let [completion] = completion;
    // SAFETY: the lock is held, and the queue is alive.
    unsafe {
        *object.extended.current.get() = completion;
        (*queue).status = completion.status as c_int;
        (*queue).wr_id = completion.wr_id;
    }
    Ok(())
}

/// Reads something from the current completion.
///
/// # Safety
/// The program is between start and end.
unsafe fn read<T: Default>(queue: *mut ibv_cq_ex, field: impl FnOnce(&Completion) -> T) -> T {
    guard::value(T::default(), || {
        // SAFETY: the caller's promise.
        field(unsafe { CompletionQueueObject::from_pointer(queue).extended.current() })
    })
}

unsafe extern "C" fn read_opcode(queue: *mut ibv_cq_ex) -> c_int {
    // SAFETY: the program is between start and end.
    unsafe { read(queue, |completion| completion.kind as c_int) }
}

unsafe extern "C" fn read_vendor_err(queue: *mut ibv_cq_ex) -> u32 {
    // SAFETY: the program is between start and end.
    unsafe { read(queue, |completion| completion.vendor_error) }
}

unsafe extern "C" fn read_byte_len(queue: *mut ibv_cq_ex) -> u32 {
    // SAFETY: the program is between start and end.
    unsafe { read(queue, |completion| completion.byte_length) }
}

unsafe extern "C" fn read_imm_data(queue: *mut ibv_cq_ex) -> u32 {
    // SAFETY: the program is between start and end.
    unsafe { read(queue, polling::immediate_or_key) }
}

unsafe extern "C" fn read_qp_num(queue: *mut ibv_cq_ex) -> u32 {
    // SAFETY: the program is between start and end.
    unsafe { read(queue, |completion| completion.qpn.value()) }
}

unsafe extern "C" fn read_src_qp(queue: *mut ibv_cq_ex) -> u32 {
    // SAFETY: the program is between start and end.
    unsafe { read(queue, |completion| completion.source_qpn.value()) }
}

unsafe extern "C" fn read_wc_flags(queue: *mut ibv_cq_ex) -> c_uint {
    // SAFETY: the program is between start and end.
    unsafe { read(queue, polling::flags) }
}

unsafe extern "C" fn read_slid(_queue: *mut ibv_cq_ex) -> u32 {
    0
}

unsafe extern "C" fn read_sl(queue: *mut ibv_cq_ex) -> u8 {
    // SAFETY: the program is between start and end.
    unsafe { read(queue, |completion| completion.service_level) }
}

unsafe extern "C" fn read_dlid_path_bits(_queue: *mut ibv_cq_ex) -> u8 {
    0
}

unsafe extern "C" fn read_tm_info(_queue: *mut ibv_cq_ex, info: *mut ibv_wc_tm_info) {
    // SAFETY: the program passes room for the structure.
    guard::value((), || unsafe { info.write(ibv_wc_tm_info { tag: 0, r#priv: 0 }) });
}
