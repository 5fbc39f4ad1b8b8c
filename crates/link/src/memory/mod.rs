//! The memory of the program we live in, which may change under us and vanish.
//!
//! Memory that the program has unmapped, protected, or whose file was truncated must end an
//! operation with an error and never the process. `guarded.rs` has the instructions that touch
//! it; `handler.rs` recognises their faults by the program counter and makes them return;
//! `trust.rs` finds out whether that would work now, in this thread; where it would not,
//! `by_kernel.rs` asks the kernel to copy, which is slower. `program.rs` puts them together.

mod by_kernel;
#[cfg(target_arch = "x86_64")]
mod guarded;
#[cfg(target_arch = "x86_64")]
mod handler;
mod program;
#[cfg(target_arch = "x86_64")]
mod trust;

pub use program::ProgramMemory;
