//! Who is told of requests: a service, and the addresses at which it is served.

use crate::message::ServiceId;
use converb_engine::Address;

/// A listener, and how many of its connections wait for a decision.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) listener: Listener,
    pub(super) waiting: usize,
}

/// Who is to be told of REQs.
#[derive(Clone, Copy, Debug)]
pub struct Listener {
    /// For this service.
    pub service_id: ServiceId,
    /// To which of our addresses.
    pub place: Place,
    /// How many may wait for the program's decision; what comes then is dropped, and comes again.
    pub backlog: usize,
}

/// At which addresses somebody listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At all.
    All,
    /// At all that are IPv4.
    Ipv4,
    /// At all that are IPv6.
    Ipv6,
    /// At this one.
    One(Address),
}

impl Place {
    pub(super) fn takes(self, address: Address) -> bool {
        let is_ipv4 = match address {
            Address::Udp { ip, .. } => ip.to_ipv4_mapped().is_some(),
            Address::Ethernet(_) | Address::Lid(_) => return self == Self::All,
        };
        match self {
            Self::All => true,
            Self::Ipv4 => is_ipv4,
            Self::Ipv6 => !is_ipv4,
            Self::One(one) => one == address,
        }
    }
}
