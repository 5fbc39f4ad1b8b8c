//! Holds the tree to its own rules.
//!
//! This crate owns the checks that read the source as text: sizes of files and functions, the
//! directions between crates, heads of crates, calls that the crates without I/O must not make,
//! leftover notes, orphaned files, what the preloaded library is made of. It never compiles or
//! runs what it reads. Each check is a function from a tree to findings, and proves on a planted
//! tree that it finds something. Read `tree.rs` next, then any check; `tests/tree.rs` applies
//! them all to this repository.

mod directions;
mod heads;
mod leftovers;
mod orphans;
mod preload;
mod sans_io;
mod scripts;
mod sizes;
mod source;
mod tree;
mod workplace;

pub use directions::{DIRECTIONS, direction_findings};
pub use heads::head_findings;
pub use leftovers::leftover_findings;
pub use orphans::orphan_findings;
pub use preload::preload_findings;
pub use sans_io::sans_io_findings;
pub use scripts::script_findings;
pub use sizes::{file_findings, function_findings};
pub use source::Source;
pub use tree::{Entry, Tree};
pub use workplace::workplace_findings;

/// What a check found, one line for a person: the file, the line if it has one, what is wrong.
pub type Findings = Vec<String>;
