//! Connecting two queue pairs whose owners can tell each other a line of text.

use crate::error::Error;
use crate::gid::Gid;
use crate::path::PathOptions;
use crate::queue_pair::QueuePair;
use converb_engine::iba::{AttributeMask, Attributes, State};
use converb_engine::memory::Access;
use converb_wire::{Psn, Qpn};
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// What a peer has to know of a queue pair to connect to it. As text it is one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The GID of its port.
    pub gid: Gid,
    /// Its number.
    pub qpn: Qpn,
    /// The sequence number of the first packet that it will send.
    pub psn: Psn,
}

/// How a connection behaves when packets are lost or the peer is slow: what most programs use.
const TIMEOUT: u8 = 14;
const RETRY_COUNT: u8 = 7;
const RNR_RETRY_FOR_EVER: u8 = 7;
const MIN_RNR_TIMER: u8 = 12;

impl QueuePair {
    /// What the peer has to know, if packets are to come from and go to the GID at `gid_index`.
    ///
    /// # Errors
    /// `Invalid` or `Empty` for an index without a GID.
    pub fn endpoint(&self, gid_index: usize) -> Result<Endpoint, Error> {
        let gid = self.domain().context().gid(crate::PORT.into(), gid_index)?;
        // A first number that cannot be guessed keeps strangers' packets out.
        Ok(Endpoint { gid, qpn: self.qpn(), psn: self.first_psn() })
    }

    /// Goes from RESET to RTS, connected to a peer that does the same with our
    /// [`endpoint`](Self::endpoint) for the same `gid_index`. `access` is what the peer may do.
    ///
    /// # Errors
    /// As for [`modify`](Self::modify), or `Invalid` for GIDs that do not fit each other.
    pub fn connect(&self, gid_index: usize, peer: &Endpoint, access: Access) -> Result<(), Error> {
        let context = self.domain().context();
        let path = context.path(&PathOptions {
            local_index: gid_index,
            remote: peer.gid,
            traffic_class: 0,
            hop_limit: 0,
            flow_label: 0,
            service_level: 0,
        })?;
        let reads = crate::DeviceAttributes::ALL.max_reads;
        let mut attributes = Attributes {
            state: State::Init,
            port: crate::PORT,
            access,
            path: Some(path),
            path_mtu: context.device().port().active_mtu,
            destination: peer.qpn,
            receive_psn: peer.psn,
            send_psn: self.first_psn(),
            max_reads: reads,
            max_destination_reads: reads,
            min_rnr_timer: MIN_RNR_TIMER,
            timeout: TIMEOUT,
            retry_count: RETRY_COUNT,
            rnr_retry: RNR_RETRY_FOR_EVER,
            ..Attributes::default()
        };
        let masks = [
            (
                State::Init,
                &[
                    AttributeMask::PARTITION_KEY_INDEX,
                    AttributeMask::PORT,
                    AttributeMask::ACCESS_FLAGS,
                ][..],
            ),
            (
                State::ReadyToReceive,
                &[
                    AttributeMask::PATH,
                    AttributeMask::PATH_MTU,
                    AttributeMask::DESTINATION,
                    AttributeMask::RECEIVE_PSN,
                    AttributeMask::MAX_DESTINATION_READS,
                    AttributeMask::MIN_RNR_TIMER,
                ][..],
            ),
            (
                State::ReadyToSend,
                &[
                    AttributeMask::TIMEOUT,
                    AttributeMask::RETRY_COUNT,
                    AttributeMask::RNR_RETRY,
                    AttributeMask::SEND_PSN,
                    AttributeMask::MAX_READS,
                ][..],
            ),
        ];
        for (state, parts) in masks {
            attributes.state = state;
            let mask = parts.iter().fold(AttributeMask::STATE, |mask, &part| mask.with(part));
            self.modify(&attributes, mask)?;
        }
        Ok(())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (gid, qpn, psn) = (self.gid.ip(), self.qpn.value(), self.psn.value());
        write!(formatter, "{gid} {qpn} {psn}")
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self, Error> {
        let bad = || Error::Invalid("an endpoint is a GID and two numbers below 2^24");
        let mut words = line.split_whitespace();
        let gid: Ipv6Addr = words.next().and_then(|word| word.parse().ok()).ok_or_else(bad)?;
        let mut number = || {
            let number = words.next().and_then(|word| word.parse::<u32>().ok());
            number.filter(|&number| number < 1 << 24).ok_or_else(bad)
        };
        Ok(Self { gid: Gid(gid.octets()), qpn: Qpn::new(number()?), psn: Psn::new(number()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_survives_being_text() {
        let endpoint = Endpoint {
            gid: Gid::from("10.0.0.1".parse::<std::net::IpAddr>().unwrap()),
            qpn: Qpn::new(0x12345),
            psn: Psn::new(0xff_fffe),
        };
        assert_eq!(endpoint.to_string().parse::<Endpoint>().unwrap(), endpoint);
        assert!("::1 5".parse::<Endpoint>().is_err());
        assert!("::1 5 99999999".parse::<Endpoint>().is_err());
    }
}
