//! InfiniBand management: connection management as state machines, without I/O.
//!
//! This crate owns the formats and the decisions of the general service interface: which
//! management datagram is for whom (`mad`), and from there the conversations that set up and tear
//! down connections (IBA chapter 12). It never owns a socket, a clock or a thread: it is given
//! datagrams and the time, and gives back datagrams and deadlines. The connection state machines
//! are not here yet; what exists is the dispatcher's view of a datagram. Read `mad.rs` next.

pub mod mad;
