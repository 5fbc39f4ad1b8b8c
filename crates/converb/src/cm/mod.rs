//! Connections by address (rdma_cm(7)): programs name their peers by IP address and port, and queue
//! pairs are connected by messages between the communication managers of both hosts.
//!
//! An [`Identifier`] is one end of a connection, a listener, or who speaks by datagrams; what happens
//! to it arrives in an [`EventChannel`]. What a program may do when, and what it is told, follows
//! librdmacm's man pages; what the hosts say to each other is `converb-cm`'s. `switchboard.rs` joins
//! the two; `address.rs` finds the device behind an address; `transition.rs` is how a queue pair
//! follows its connection.

mod active;
mod address;
mod channel;
mod datagram;
mod ending;
mod event;
mod identifier;
mod news;
mod passive;
mod ports;
mod switchboard;
mod transition;

/// What two adapters of one vendor agree on beyond the specification.
pub use converb_cm::message::EnhancedConnection;

pub use channel::EventChannel;
pub use event::{ConnectionParameters, DatagramParameters, Event, EventKind, Parameters};
pub use identifier::{Identifier, PortSpace, Setting};
pub(crate) use switchboard::Switchboard;
