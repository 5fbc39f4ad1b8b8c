//! What an end of a stream may send, and what it has received: numbers, without I/O.
//!
//! Data needs three things: room in our own send buffer, where it lies until the peer has it; room in
//! the receive buffer that the peer has named; and a credit, for each message takes one of the peer's
//! receives. [`Sending`] counts these. [`Receiving`] counts the other side of it, and when the peer is
//! to be told of more. A few work requests are kept for what is said about the stream itself.

mod receiving;
mod sending;

pub use receiving::{Grant, Receiving, Violation};
pub use sending::{Reserved, Sending};

/// How many messages about the stream itself may be on their way.
pub const CONTROL_REQUESTS: u32 = 4;

/// Up to two pieces of a ring of bytes, in order; the second one is empty where one is enough.
pub type Pieces = [core::ops::Range<usize>; 2];

/// Where `length` bytes from `position` on lie in a ring of `size`.
fn pieces(position: usize, length: usize, size: usize) -> Pieces {
    let first = length.min(size - position);
    [position..position + first, 0..length - first]
}
