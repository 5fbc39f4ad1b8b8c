//! What stands before a carried datagram.
//!
//! ```text
//!   0        16            32      36          40        44         48     50     51     52
//!   | source | destination | scope | interface | segment | overflow | port | TC   | hops |
//!   52        53      54         64
//!   | version | flags | reserved | the datagram, or super-packet ...
//! ```
//!
//! Both sides run on one machine, so numbers are in its own byte order. The reader trusts nothing:
//! the agent that wrote it belongs to another user.

use crate::socket::{
    Arrival, Endpoint, Entries, hop_limit_of, local_address, overflow_count, parse_name,
    segment_bytes, traffic_class_of,
};
use core::net::Ipv6Addr;

/// The length of an envelope.
pub(crate) const ENVELOPE_BYTES: usize = 64;

/// What the kernel tells of a datagram besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// Who sent it.
    pub(crate) source: Endpoint,
    /// The address that it was sent to, and the interface that it came by.
    pub(crate) destination: (Ipv6Addr, u32),
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
    /// The size of the segments of a super-packet.
    pub(crate) segment_bytes: Option<usize>,
    /// How many datagrams the socket has lost for lack of room, if any.
    pub(crate) overflows: Option<u32>,
}

const VERSION: u8 = 1;
const HAS_OVERFLOWS: u8 = 1;

impl Envelope {
    /// What came with a datagram at a slot's socket; `None` without the addresses.
    pub(crate) fn of(arrival: &Arrival) -> Option<Self> {
        let mut envelope = Self {
            source: parse_name(arrival.name())?,
            destination: (Ipv6Addr::UNSPECIFIED, 0),
            traffic_class: 0,
            hop_limit: 0,
            segment_bytes: None,
            overflows: None,
        };
        for (level, kind, data) in Entries::new(arrival.control()) {
            if let Some(found) = local_address(level, kind, data) {
                envelope.destination = found;
            } else if let Some(found) = segment_bytes(level, kind, data) {
                envelope.segment_bytes = Some(found);
            } else if let Some(found) = traffic_class_of(level, kind, data) {
                envelope.traffic_class = found;
            } else if let Some(found) = hop_limit_of(level, kind, data) {
                envelope.hop_limit = found;
            } else if let Some(count) = overflow_count(level, kind, data) {
                envelope.overflows = Some(count);
            }
        }
        (!arrival.is_truncated && !envelope.destination.0.is_unspecified()).then_some(envelope)
    }

    /// The bytes.
    pub(crate) fn emit(&self) -> [u8; ENVELOPE_BYTES] {
        let mut bytes = [0; ENVELOPE_BYTES];
        let (ip, interface) = self.destination;
        bytes[0..16].copy_from_slice(&self.source.ip.octets());
        bytes[16..32].copy_from_slice(&ip.octets());
        bytes[32..36].copy_from_slice(&self.source.scope.to_ne_bytes());
        bytes[36..40].copy_from_slice(&interface.to_ne_bytes());
        let segment = self.segment_bytes.unwrap_or(0) as u32;
        bytes[40..44].copy_from_slice(&segment.to_ne_bytes());
        bytes[44..48].copy_from_slice(&self.overflows.unwrap_or(0).to_ne_bytes());
        bytes[48..50].copy_from_slice(&self.source.port.to_ne_bytes());
        bytes[50] = self.traffic_class;
        bytes[51] = self.hop_limit;
        bytes[52] = VERSION;
        bytes[53] = if self.overflows.is_some() { HAS_OVERFLOWS } else { 0 };
        bytes
    }

    /// The envelope in `bytes`; `None` if it is none of ours.
    pub(crate) fn parse(bytes: &[u8; ENVELOPE_BYTES]) -> Option<Self> {
        let word = |at: usize| {
            let word: [u8; 4] = *bytes[at..].first_chunk().expect("within the envelope");
            u32::from_ne_bytes(word)
        };
        let address = |at: usize| {
            let octets: [u8; 16] = *bytes[at..].first_chunk().expect("within the envelope");
            Ipv6Addr::from(octets)
        };
        if bytes[52] != VERSION {
            return None;
        }
        let port = u16::from_ne_bytes([bytes[48], bytes[49]]);
        Some(Self {
            source: Endpoint { ip: address(0), scope: word(32), port },
            destination: (address(16), word(36)),
            traffic_class: bytes[50],
            hop_limit: bytes[51],
            segment_bytes: usize::try_from(word(40)).ok().filter(|&bytes| bytes > 0),
            overflows: (bytes[53] & HAS_OVERFLOWS != 0).then(|| word(44)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_come_back_as_they_were_and_others_are_none() {
        let envelope = Envelope {
            source: Endpoint { ip: "fe80::1".parse().expect("an address"), scope: 3, port: 50000 },
            destination: ("fe80::2".parse().expect("an address"), 7),
            traffic_class: 9,
            hop_limit: 64,
            segment_bytes: Some(4096),
            overflows: Some(0),
        };
        let plain = Envelope { segment_bytes: None, overflows: None, ..envelope };
        for envelope in [envelope, plain] {
            let mut bytes = envelope.emit();
            assert_eq!(Envelope::parse(&bytes), Some(envelope));
            bytes[52] = 2;
            assert_eq!(Envelope::parse(&bytes), None);
        }
        assert_eq!(Envelope::parse(&[0; ENVELOPE_BYTES]), None);
    }
}
