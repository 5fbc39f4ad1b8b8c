//! What the network tells about a packet besides its bytes.

use crate::address::Address;

/// Where a packet came from and how.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Who sent it.
    pub source: Address,
    /// Which of our addresses, or which multicast group, it was sent to.
    pub local: Address,
    /// The IP traffic class.
    pub traffic_class: u8,
    /// The IP time to live, 0 if unknown.
    pub hop_limit: u8,
}
