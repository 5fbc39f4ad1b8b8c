//! The memory of the program we live in.

mod program;

pub use program::ProgramMemory;
