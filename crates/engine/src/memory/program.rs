//! The program's memory, which changes under us and may vanish: never a slice, only moves.

/// The memory is not there (unmapped, read-only for a write, or beyond a truncated file's end).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first address that could not be reached, as exactly as the mover knows.
    pub address: u64,
}

/// Moves bytes from and to memory of the program. Addresses are virtual addresses of the process
/// (in the simulator: of a virtual one). Never panics and never crashes, whatever the address.
pub trait Memory {
    /// Copies out of the program's memory. On a fault the contents of `into` are unspecified.
    ///
    /// # Errors
    /// When any byte cannot be read.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault>;

    /// Copies into the program's memory; aligned pieces of 8 bytes are stored whole.
    ///
    /// # Errors
    /// When any byte cannot be written; bytes before it may have been.
    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault>;

    /// Atomically stores `swap` in the 8 bytes at `address` (aligned, host order) if they are
    /// `compare`; returns what they were.
    ///
    /// # Errors
    /// When the memory cannot be written.
    fn compare_and_swap(&self, address: u64, compare: u64, swap: u64) -> Result<u64, Fault>;

    /// Atomically adds to the 8 bytes at `address` (aligned, host order); returns what they were.
    ///
    /// # Errors
    /// When the memory cannot be written.
    fn fetch_and_add(&self, address: u64, add: u64) -> Result<u64, Fault>;
}
