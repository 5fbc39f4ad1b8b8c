//! What is known of each destination: which socket serves which of its slots, and whether the
//! kernel cuts up what is sent there.

use super::sender::SENDERS_MAX;
use converb_engine::Address;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How packets get to a slot of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The socket that they leave from.
    pub(crate) sender: usize,
    /// Whether the kernel refused to cut up sends to this destination.
    pub(crate) is_plain: bool,
}

#[derive(Default)]
struct Destination {
    /// The slots in the order in which they were first sent to.
    slots: Vec<u16>,
    is_plain: bool,
}

/// All destinations.
#[derive(Default)]
pub(crate) struct Destinations {
    known: Mutex<BTreeMap<Address, Destination>>,
}

impl Destinations {
    /// The route to `slot` of `remote`.
    ///
    /// The k-th slot of a destination is reached from socket k, because a receiver coalesces what
    /// has the same addresses and ports and gives the whole to the slot of the first packet.
    pub(crate) fn route(&self, remote: Address, slot: u16) -> Route {
        let unremembered = Route { sender: usize::from(slot) % SENDERS_MAX, is_plain: false };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= DESTINATIONS_MAX && !known.contains_key(&remote) {
            return unremembered;
        }
        let destination = known.entry(remote).or_default();
        let is_plain = destination.is_plain;
        let sender = match destination.slots.iter().position(|known| *known == slot) {
            Some(index) => index,
            None if destination.slots.len() < SENDERS_MAX => {
                destination.slots.push(slot);
                destination.slots.len() - 1
            }
            None => unremembered.sender,
        };
        Route { sender, is_plain }
    }

    /// Remembers that the kernel refused to cut up what was sent to `remote`. Returns whether
    /// that was news.
    pub(crate) fn refused_segmentation(&self, remote: Address) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get_mut(&remote) {
            Some(destination) => !core::mem::replace(&mut destination.is_plain, true),
            None => false,
        }
    }
}

/// Beyond so many, destinations are served without remembering anything of them.
const DESTINATIONS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;

    fn address(number: u128) -> Address {
        Address::Udp { ip: Ipv6Addr::from(number), scope: 0 }
    }

    #[test]
    fn each_slot_of_a_destination_has_its_own_socket_while_they_last() {
        let destinations = Destinations::default();
        for slot in 0..64 {
            let route = destinations.route(address(1), 1000 - slot);
            assert_eq!(route.sender, usize::from(slot));
        }
        assert_eq!(destinations.route(address(1), 998).sender, 2, "and keeps it");
        assert_eq!(destinations.route(address(1), 5).sender, 5 % SENDERS_MAX);
        assert_eq!(destinations.route(address(2), 5).sender, 0, "each destination by itself");
    }

    #[test]
    fn a_refusal_is_remembered_once_and_for_one_destination() {
        let destinations = Destinations::default();
        destinations.route(address(1), 0);
        destinations.route(address(2), 0);
        assert!(destinations.refused_segmentation(address(1)));
        assert!(!destinations.refused_segmentation(address(1)));
        assert!(destinations.route(address(1), 7).is_plain);
        assert!(!destinations.route(address(2), 7).is_plain);
    }

    #[test]
    fn the_table_is_bounded() {
        let destinations = Destinations::default();
        for number in 0..DESTINATIONS_MAX as u128 + 10 {
            destinations.route(address(number), 1);
        }
        let beyond = address(DESTINATIONS_MAX as u128 + 5);
        assert_eq!(destinations.route(beyond, 3).sender, 3);
        assert!(!destinations.refused_segmentation(beyond));
    }
}
