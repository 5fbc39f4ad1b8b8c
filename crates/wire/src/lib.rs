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

#![forbid(unsafe_code)]

pub mod credit;
pub mod icrc;
pub mod timeout;

mod aeth;
mod atomic;
mod bth;
mod deth;
mod ethernet;
mod feth;
mod grh;
mod immdt;
mod ipv4;
mod ipv6;
mod lrh;
mod numbers;
mod opcode;
mod opcode_table;
mod packet;
mod reth;
mod udp;
mod xrceth;

pub use aeth::{Aeth, NakCode, Syndrome};
pub use atomic::{AtomicAckEth, AtomicEth};
pub use bth::Bth;
pub use deth::{Deth, Rdeth};
pub use ethernet::{EtherType, Ethernet, Mac, Vlan};
pub use feth::Feth;
pub use grh::{Gid, Grh};
pub use immdt::{Ieth, ImmDt};
pub use ipv4::{IpProtocol, Ipv4, Ipv4Options};
pub use ipv6::Ipv6;
pub use lrh::{Lid, LinkNextHeader, Lrh};
pub use numbers::{Psn, Qpn, Rkey};
pub use opcode::{Opcode, OpcodeInfo, OpcodeKind, Position, Transport};
pub use packet::{Packet, ParseError};
pub use reth::Reth;
pub use timeout::{ack_timeout, rnr_timer};
pub use udp::{ROCE_V2_PORT, Udp};
pub use xrceth::XrcEth;
