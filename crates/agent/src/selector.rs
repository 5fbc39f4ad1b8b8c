//! The program with which the kernel picks a packet's socket by its destination queue pair.

/// One instruction of the classic Berkeley packet filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Jump distance if true.
    pub jt: u8,
    /// Jump distance if false.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// How many bits of a queue pair number count within its slot.
pub const QPN_BITS_IN_SLOT: u32 = 14;

/// The selector for a group of `count` sockets: the slot of the destination queue pair, or slot 0
/// if there is no such slot, for an index beyond the group makes the kernel choose by hash.
///
/// Offset 0 is the UDP payload's first byte, so the word at 4 is the base transport header's
/// destination queue pair under eight reserved bits (IBA 9.2.3). A datagram too short for the
/// load ends the program with 0, which is slot 0 too.
pub fn selector(count: u16) -> [Instruction; 6] {
    let step = |code, k| Instruction { code, jt: 0, jf: 0, k };
    [
        step(LOAD_WORD, 4),
        step(AND, 0x00ff_ffff),
        step(SHIFT_RIGHT, QPN_BITS_IN_SLOT),
        // A >= count: skip to the next instruction, "return 0"; else skip over it.
        Instruction { code: JUMP_GREATER_EQUAL, jt: 0, jf: 1, k: u32::from(count) },
        step(RETURN_VALUE, 0),
        step(RETURN_ACCUMULATOR, 0),
    ]
}

// From linux/bpf_common.h. LOAD_WORD is BPF_LD (0) | BPF_W (0) | BPF_ABS; the others are a class and
// an operation, with BPF_K (0) as the source.
const LOAD_WORD: u16 = 0x20;
const AND: u16 = 0x04 | 0x50;
const SHIFT_RIGHT: u16 = 0x04 | 0x70;
const JUMP_GREATER_EQUAL: u16 = 0x05 | 0x30;
const RETURN_VALUE: u16 = 0x06;
const RETURN_ACCUMULATOR: u16 = 0x06 | 0x10;
