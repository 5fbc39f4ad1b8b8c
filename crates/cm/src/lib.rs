//! InfiniBand management: connection management as state machines, without I/O.
//!
//! This crate owns the formats and the decisions of the general service interface: which
//! management datagram is for whom (`mad`), the messages that set up and tear down connections
//! (`message`), the conversations that they are part of (`connection`, IBA chapter 12), and all those
//! of a process (`manager`). It never owns a socket, a clock or a thread: it is given datagrams and
//! the time, and gives back datagrams and deadlines. Read `mad.rs` next,
//! then `message/mod.rs`, then `connection/mod.rs`, which draws a connection's life.

#![forbid(unsafe_code)]

pub mod connection;
mod exchange;
pub mod mad;
pub mod manager;
pub mod message;
pub mod packet;
pub mod planted;
