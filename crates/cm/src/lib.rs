//! InfiniBand management: connection management as state machines, without I/O.
//!
//! This crate owns the formats and the decisions of the general service interface: which
//! management datagram is for whom (`mad`), the messages that set up and tear down connections
//! (`message`), and from there the conversations that they are part of (IBA chapter 12). It never
//! owns a socket, a clock or a thread: it is given datagrams and the time, and gives back datagrams
//! and deadlines. The connection state machines are not here yet; what exists is what a datagram
//! says. Read `mad.rs` next, then `message/mod.rs`.

#![forbid(unsafe_code)]

pub mod mad;
pub mod message;
