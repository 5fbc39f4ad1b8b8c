//! Sockets over RDMA: what librdmacm calls rsockets.
//!
//! This crate owns streams that look like TCP's and move their bytes by RDMA WRITE: the protocol
//! between both ends (`protocol/`) and its counting (`flow/`), which do no I/O and are rdma-core's, so
//! that the other end may be the original; a stream over a queue pair (`stream/`); and sockets with
//! numbers, options and poll (`socket/`). It never exports a C symbol, and keeps no thread before a
//! socket asks for keep-alive. No program reaches it yet, and its streams have
//! not met a peer: what is proved is the protocol, against what rdma-core sent. Read `protocol/mod.rs` next, then `flow/mod.rs` and `stream/mod.rs`.

#![forbid(unsafe_code)]

mod error;
pub mod flow;
pub mod protocol;
mod settings;
pub mod socket;
mod stream;

pub use settings::Settings;
pub use stream::{Direction, HowToReceive, Patience, Phase, Stream};
