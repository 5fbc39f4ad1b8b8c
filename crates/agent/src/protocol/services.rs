//! Services and what is asked of them, as messages carry them.

use core::net::Ipv6Addr;

use converb_cm::mad::MAD_SIZE;
use converb_cm::message::ServiceId;
use converb_engine::{Address, AddressVector};

use super::fields::{Malformed, Reader, Writer};
use crate::services::{At, Service};

/// A management datagram for a member, and how it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagementDatagram {
    /// Who sent it.
    pub source: Address,
    /// Which of the host's addresses it was sent to.
    pub local: Address,
    /// The IP traffic class.
    pub traffic_class: u8,
    /// The IP time to live, 0 if it is not known.
    pub hop_limit: u8,
    /// The datagram.
    pub mad: Box<[u8; MAD_SIZE]>,
}

/// What became of a member's wish to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It serves, and this is the service with its port.
    As(ServiceId),
    /// Another one has it.
    InUse,
    /// It has as many as it may.
    TooMany,
}

const IS_LISTENING: u8 = 1;
const IS_SHARED: u8 = 2;
const IS_ONE: u8 = 4;
const V4: u8 = 8;
const V6: u8 = 16;

impl Service {
    pub(super) fn write(&self, writer: &mut Writer) {
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        let (ip, scope, at) = match self.at {
            At::All { v4, v6 } => (Ipv6Addr::UNSPECIFIED, 0, flag(v4, V4) | flag(v6, V6)),
            At::One { ip, scope } => (ip, scope, IS_ONE),
        };
        writer.u64(self.id.0);
        writer.u8(flag(self.is_listening, IS_LISTENING) | flag(self.is_shared, IS_SHARED) | at);
        writer.address(ip, scope);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (id, flags) = (ServiceId(reader.u64()?), reader.u8()?);
        let (ip, scope) = reader.address()?;
        let has = |bit| flags & bit != 0;
        let at =
            if has(IS_ONE) { At::One { ip, scope } } else { At::All { v4: has(V4), v6: has(V6) } };
        Ok(Self { id, at, is_listening: has(IS_LISTENING), is_shared: has(IS_SHARED) })
    }
}

impl Served {
    pub(super) fn write(self, writer: &mut Writer) {
        let (code, id) = match self {
            Self::As(id) => (0, id.0),
            Self::InUse => (1, 0),
            Self::TooMany => (2, 0),
        };
        writer.u8(code);
        writer.u64(id);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (code, id) = (reader.u8()?, ServiceId(reader.u64()?));
        match code {
            0 => Ok(Self::As(id)),
            1 => Ok(Self::InUse),
            2 => Ok(Self::TooMany),
            _ => Err(Malformed),
        }
    }
}

impl ManagementDatagram {
    /// The way to the other end, `source`, with this time to live (0: the usual one).
    pub fn way_to_source(&self, hop_limit: u8) -> AddressVector {
        AddressVector {
            local: self.local,
            remote: self.source,
            traffic_class: self.traffic_class,
            hop_limit,
            flow_label: 0,
            service_level: 0,
        }
    }

    /// One that is told from others by a number.
    #[cfg(test)]
    pub(crate) fn numbered(number: u8) -> Self {
        Self {
            source: Address::Lid(1),
            local: Address::Lid(2),
            traffic_class: 0,
            hop_limit: 0,
            mad: Box::new([number; MAD_SIZE]),
        }
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        for address in [self.source, self.local] {
            let (ip, scope) = match address {
                Address::Udp { ip, scope } => (ip, scope),
                // Only UDP comes by the agent.
                Address::Ethernet(_) | Address::Lid(_) => (Ipv6Addr::UNSPECIFIED, 0),
            };
            writer.address(ip, scope);
        }
        writer.u8(self.traffic_class);
        writer.u8(self.hop_limit);
        writer.array(&*self.mad);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut address = || {
            let (ip, scope) = reader.address()?;
            Ok(Address::Udp { ip, scope })
        };
        Ok(Self {
            source: address()?,
            local: address()?,
            traffic_class: reader.u8()?,
            hop_limit: reader.u8()?,
            mad: Box::new(reader.array()?),
        })
    }
}
