//! Packet formats: what RDMA looks like on the wire, and nothing else.
//!
//! Owns the headers of the InfiniBand transport (BTH and its extensions), of the networks below it
//! (Ethernet, IPv4, IPv6, UDP, GRH, LRH), the opcodes, and the invariant CRC.
//!
//! Never does I/O, never keeps state, never allocates per packet, and never panics on bytes from
//! outside: what is read comes back as a small value that is always valid, or as an error.
//!
//! Read next: `numbers.rs` (the types of the numbers), `bth.rs` (what every header file looks
//! like), `opcode_table.rs` (what packets there are), `packet.rs` (a whole packet), `icrc.rs`.

pub mod credit;
pub mod timeout;

mod aeth;
mod atomic;
mod bth;
mod deth;
mod feth;
mod immdt;
mod numbers;
mod opcode;
mod opcode_table;
mod packet;
mod reth;
mod xrceth;

pub use aeth::{Aeth, NakCode, Syndrome};
pub use atomic::{AtomicAckEth, AtomicEth};
pub use bth::Bth;
pub use deth::{Deth, Rdeth};
pub use feth::Feth;
pub use immdt::{Ieth, ImmDt};
pub use numbers::{Psn, Qpn, Rkey};
pub use opcode::{Opcode, OpcodeInfo, OpcodeKind, Position, Transport};
pub use packet::{Packet, ParseError};
pub use reth::Reth;
pub use timeout::{ack_timeout, rnr_timer};
pub use xrceth::XrcEth;
