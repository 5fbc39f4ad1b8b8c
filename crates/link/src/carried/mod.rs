//! Datagrams that the agent carries to a process that may not have its slot's socket.
//!
//! A slot's socket is power over the whole group of slots, so programs of another user than the
//! agent's get none. The agent receives for them ([`Carrier`]) and hands each datagram, or
//! super-packet, over by one end of a pair of SOCK_SEQPACKET sockets, behind an envelope
//! (`envelope.rs`) that says what the kernel told the agent of it. Everything else, the invariant
//! CRC first, is the receiving process's business, as if it had received by itself.

mod carrier;
mod envelope;
#[cfg(any(test, fuzzing))]
pub mod hostile;

pub use carrier::{Carried, Carrier, Space};
pub(crate) use envelope::{ENVELOPE_BYTES, Envelope};
