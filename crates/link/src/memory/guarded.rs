//! The instructions that touch the program's memory.
//!
//! They stand between two labels. When one of them faults, the signal handler (`handler.rs`) sets
//! `rax` to 1 and `rdx` to the address, and goes on at the label behind them, which returns. They
//! keep nothing on the stack and change no register that a callee must preserve, so that a return
//! is possible from each of them.
//!
//! A copy ascends. On the program's side it is aligned first, then moves 32 bytes at a time, then
//! the rest: so aligned pieces of 8 bytes are moved whole, and the last bytes last, as programs
//! expect that poll the end of a message. (`rep movsb` promises neither; an unaligned loop would
//! split the pieces that its stores meet in.)

use core::arch::global_asm;
use core::ffi::c_void;

/// What the routines return, in `rax` and `rdx`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Outcome {
    has_faulted: u64,
    /// The address at which it faulted, or the result of an atomic operation.
    value: u64,
}

impl Outcome {
    /// The value, or the address of the fault, which is 0 where the processor does not tell.
    pub(super) const fn result(self) -> Result<u64, u64> {
        if self.has_faulted == 0 { Ok(self.value) } else { Err(self.value) }
    }
}

/// Copies `length` bytes. `program_address` is the one of `to` and `from` that is the program's.
///
/// # Safety
/// One of `to` and `from` is valid for `length` bytes and not the program's; the other may be any
/// address. The handler is installed and SIGSEGV and SIGBUS are not blocked in this thread.
pub(super) unsafe fn copy(
    to: *mut c_void,
    from: *const c_void,
    length: usize,
    program_address: u64,
) -> Outcome {
    let head = (program_address.wrapping_neg() & 31) as usize;
    // SAFETY: the caller's promise; what faults in there returns with an outcome.
    unsafe {
        if is_x86_feature_detected!("avx") {
            converb_guarded_copy_avx(to, from, length, head)
        } else {
            converb_guarded_copy_sse(to, from, length, head)
        }
    }
}

/// Compares and swaps the 8 bytes at `address`.
///
/// # Safety
/// The handler is installed and SIGSEGV and SIGBUS are not blocked in this thread.
pub(super) unsafe fn compare_and_swap(address: u64, compare: u64, swap: u64) -> Outcome {
    // SAFETY: the caller's promise; what faults in there returns with an outcome.
    unsafe { converb_guarded_compare_and_swap(address, compare, swap) }
}

/// Adds to the 8 bytes at `address`.
///
/// # Safety
/// The handler is installed and SIGSEGV and SIGBUS are not blocked in this thread.
pub(super) unsafe fn fetch_and_add(address: u64, add: u64) -> Outcome {
    // SAFETY: the caller's promise; what faults in there returns with an outcome.
    unsafe { converb_guarded_fetch_and_add(address, add) }
}

/// Whether `instruction` is one of those that touch the program's memory.
pub(super) fn contains(instruction: u64) -> bool {
    let start = (&raw const converb_guarded_start) as u64;
    let end = (&raw const converb_guarded_end) as u64;
    (start..end).contains(&instruction)
}

/// Where a faulting routine goes on.
pub(super) fn landing() -> u64 {
    (&raw const converb_guarded_fault) as u64
}

/// The instructions of a copy: `rdi` to, `rsi` from, `rdx` bytes, `rcx` bytes up to the next
/// address on the program's side that 32 divides.
macro_rules! copy_routine {
    ($name:literal, $move_128:literal, $move_32:literal, $end:literal) => {
        concat!(
            ".p2align 6\n",
            ".type ",
            $name,
            ",@function\n",
            ".hidden ",
            $name,
            "\n",
            ".globl ",
            $name,
            "\n",
            $name,
            ":\n",
            "cmp rdx, 64\n",
            "jb 20f\n",
            // Up to an address that 32 divides. The bits of rcx are the pieces that are missing.
            "test cl, 1\n",
            "jz 11f\n",
            "movzx eax, byte ptr [rsi]\n",
            "mov [rdi], al\n",
            "inc rsi\n",
            "inc rdi\n",
            "11: test cl, 2\n",
            "jz 12f\n",
            "movzx eax, word ptr [rsi]\n",
            "mov [rdi], ax\n",
            "add rsi, 2\n",
            "add rdi, 2\n",
            "12: test cl, 4\n",
            "jz 13f\n",
            "mov eax, [rsi]\n",
            "mov [rdi], eax\n",
            "add rsi, 4\n",
            "add rdi, 4\n",
            "13: test cl, 8\n",
            "jz 14f\n",
            "mov rax, [rsi]\n",
            "mov [rdi], rax\n",
            "add rsi, 8\n",
            "add rdi, 8\n",
            "14: test cl, 16\n",
            "jz 15f\n",
            "movups xmm0, [rsi]\n",
            "movups [rdi], xmm0\n",
            "add rsi, 16\n",
            "add rdi, 16\n",
            "15: sub rdx, rcx\n",
            "sub rdx, 128\n",
            "jb 17f\n",
            ".p2align 4\n",
            "16:\n",
            $move_128,
            "sub rsi, -128\n",
            "sub rdi, -128\n",
            "sub rdx, 128\n",
            "jae 16b\n",
            "17: add rdx, 128\n",
            "18: cmp rdx, 32\n",
            "jb 19f\n",
            $move_32,
            "add rsi, 32\n",
            "add rdi, 32\n",
            "sub rdx, 32\n",
            "jmp 18b\n",
            "19:\n",
            $end,
            "test dl, 16\n",
            "jz 31f\n",
            "movups xmm0, [rsi]\n",
            "movups [rdi], xmm0\n",
            "add rsi, 16\n",
            "add rdi, 16\n",
            "31: test dl, 8\n",
            "jz 32f\n",
            "mov rax, [rsi]\n",
            "mov [rdi], rax\n",
            "add rsi, 8\n",
            "add rdi, 8\n",
            "32: test dl, 4\n",
            "jz 33f\n",
            "mov eax, [rsi]\n",
            "mov [rdi], eax\n",
            "add rsi, 4\n",
            "add rdi, 4\n",
            "33: test dl, 2\n",
            "jz 34f\n",
            "movzx eax, word ptr [rsi]\n",
            "mov [rdi], ax\n",
            "add rsi, 2\n",
            "add rdi, 2\n",
            "34: test dl, 1\n",
            "jz 35f\n",
            "movzx eax, byte ptr [rsi]\n",
            "mov [rdi], al\n",
            "35: xor eax, eax\n",
            "ret\n",
            // Below 64 bytes: up to an address that 8 divides, then eight at a time.
            "20: and ecx, 7\n",
            "cmp rdx, rcx\n",
            "jb 32b\n",
            "test cl, 1\n",
            "jz 21f\n",
            "movzx eax, byte ptr [rsi]\n",
            "mov [rdi], al\n",
            "inc rsi\n",
            "inc rdi\n",
            "21: test cl, 2\n",
            "jz 22f\n",
            "movzx eax, word ptr [rsi]\n",
            "mov [rdi], ax\n",
            "add rsi, 2\n",
            "add rdi, 2\n",
            "22: test cl, 4\n",
            "jz 23f\n",
            "mov eax, [rsi]\n",
            "mov [rdi], eax\n",
            "add rsi, 4\n",
            "add rdi, 4\n",
            "23: sub rdx, rcx\n",
            "24: cmp rdx, 8\n",
            "jb 32b\n",
            "mov rax, [rsi]\n",
            "mov [rdi], rax\n",
            "add rsi, 8\n",
            "add rdi, 8\n",
            "sub rdx, 8\n",
            "jmp 24b\n",
            ".size ",
            $name,
            ", . - ",
            $name,
            "\n",
        )
    };
}

global_asm!(
    ".pushsection .text.converb_guarded,\"ax\",@progbits",
    ".p2align 6",
    ".hidden converb_guarded_start",
    ".globl converb_guarded_start",
    "converb_guarded_start:",
    copy_routine!(
        "converb_guarded_copy_avx",
        "vmovups ymm0, [rsi]\nvmovups ymm1, [rsi + 32]\n
         vmovups ymm2, [rsi + 64]\nvmovups ymm3, [rsi + 96]\n
         vmovups [rdi], ymm0\nvmovups [rdi + 32], ymm1\n
         vmovups [rdi + 64], ymm2\nvmovups [rdi + 96], ymm3\n",
        "vmovups ymm0, [rsi]\nvmovups [rdi], ymm0\n",
        "vzeroupper\n"
    ),
    copy_routine!(
        "converb_guarded_copy_sse",
        "movups xmm0, [rsi]\nmovups xmm1, [rsi + 16]\n
         movups xmm2, [rsi + 32]\nmovups xmm3, [rsi + 48]\n
         movups xmm4, [rsi + 64]\nmovups xmm5, [rsi + 80]\n
         movups xmm6, [rsi + 96]\nmovups xmm7, [rsi + 112]\n
         movups [rdi], xmm0\nmovups [rdi + 16], xmm1\n
         movups [rdi + 32], xmm2\nmovups [rdi + 48], xmm3\n
         movups [rdi + 64], xmm4\nmovups [rdi + 80], xmm5\n
         movups [rdi + 96], xmm6\nmovups [rdi + 112], xmm7\n",
        "movups xmm0, [rsi]\nmovups xmm1, [rsi + 16]\n
         movups [rdi], xmm0\nmovups [rdi + 16], xmm1\n",
        ""
    ),
    // rdi address, rsi expected, rdx wanted.
    ".p2align 4",
    ".hidden converb_guarded_compare_and_swap",
    ".globl converb_guarded_compare_and_swap",
    ".type converb_guarded_compare_and_swap,@function",
    "converb_guarded_compare_and_swap:",
    "mov rax, rsi",
    "lock cmpxchg [rdi], rdx",
    "mov rdx, rax",
    "xor eax, eax",
    "ret",
    // rdi address, rsi summand.
    ".p2align 4",
    ".hidden converb_guarded_fetch_and_add",
    ".globl converb_guarded_fetch_and_add",
    ".type converb_guarded_fetch_and_add,@function",
    "converb_guarded_fetch_and_add:",
    "mov rdx, rsi",
    "lock xadd [rdi], rdx",
    "xor eax, eax",
    "ret",
    ".hidden converb_guarded_end",
    ".globl converb_guarded_end",
    "converb_guarded_end:",
    // Where the handler sends a faulting routine, with rax and rdx set.
    ".hidden converb_guarded_fault",
    ".globl converb_guarded_fault",
    "converb_guarded_fault:",
    // The upper halves of the vector registers may be in use still: that is slow for others until
    // the next copy ends, not wrong, and faults are rare.
    "ret",
    ".popsection",
);

unsafe extern "C" {
    static converb_guarded_start: u8;
    static converb_guarded_end: u8;
    static converb_guarded_fault: u8;
    fn converb_guarded_copy_avx(
        to: *mut c_void,
        from: *const c_void,
        length: usize,
        head: usize,
    ) -> Outcome;
    fn converb_guarded_copy_sse(
        to: *mut c_void,
        from: *const c_void,
        length: usize,
        head: usize,
    ) -> Outcome;
    fn converb_guarded_compare_and_swap(address: u64, compare: u64, swap: u64) -> Outcome;
    fn converb_guarded_fetch_and_add(address: u64, add: u64) -> Outcome;
}
