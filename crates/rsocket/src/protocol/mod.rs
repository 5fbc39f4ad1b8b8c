//! What both ends of a stream say to each other: version 1 of the protocol of rdma-core's rsockets.
//!
//! When they connect, each tells the other in 40 bytes of private data where it takes data
//! ([`Greeting`]). From then on everything is an RDMA WRITE with four bytes of immediate data
//! ([`Message`]): application data goes into the peer's receive buffer, and what is to be known about
//! one's own buffers into tables in the peer's memory ([`Span`], [`Mapping`]).

mod greeting;
mod message;
mod place;

pub use greeting::{Greeting, InvalidGreeting, MAPPINGS_MAX, usual_mappings};
pub use message::{Control, MESSAGE_BYTES_MAX, Message};
pub use place::{Mapping, Order, Span};
