//! A path between two ports, as the messages that propose one describe it.

use converb_wire::{Gid, Lid};
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::field::{bits, place};

/// A path, seen from the sender of the message: "local" is the sender's port.
///
/// An alternate path that does not exist is all zero, which is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path {
    /// The sender's port in its subnet. On Ethernet the permissive identifier, 0xffff.
    pub local_lid: Lid,
    /// The receiver's port in its subnet.
    pub remote_lid: Lid,
    /// The sender's port.
    pub local_gid: Gid,
    /// The receiver's port.
    pub remote_gid: Gid,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// The code of the rate that packets may have, 6 bits.
    pub packet_rate: u8,
    /// The traffic class.
    pub traffic_class: u8,
    /// Over how many routers packets may go.
    pub hop_limit: u8,
    /// The service level, 4 bits.
    pub service_level: u8,
    /// Whether both ports are in one subnet, so that packets need no global route header.
    pub subnet_local: bool,
    /// How long the sender waits for an acknowledgement: 5 bits, the code of
    /// [`ack_timeout`](converb_wire::ack_timeout).
    pub local_ack_timeout: u8,
}

/// 44 bytes of a message. REQ and LAP put the same fields into the same bytes, but for the six
/// after the GIDs.
///
/// ```text
///          +---------------------------------------+-----------+-----------+
///     REQ  |              flow label               | reserved  |   rate    |
///          +---------------+---------------+-------+-----------+-----------+
///          | traffic class |   hop limit   |  SL   ...
///          +---------------+---------------+
///
///          +---------------------------------------+-------+---------------+
///     LAP  |              flow label               | rsv   | traffic class |
///          +---------------+---+-----------+-------+-------+---------------+
///          |   hop limit   |rsv|   rate    |  SL   ...
///          +---------------+---+-----------+
/// ```
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Layout {
    local_lid: U16,
    remote_lid: U16,
    local_gid: [u8; 16],
    remote_gid: [u8; 16],
    flow_label_and_last: U32,
    limits: [u8; 2],
    level_and_subnet: u8,
    ack_timeout: u8,
}

const _: () = assert!(size_of::<Layout>() == 44);

impl Path {
    /// As a REQ has it (IBA 12.6.5).
    pub(super) fn in_request(wire: &Layout) -> Self {
        let [traffic_class, hop_limit] = wire.limits;
        let packet_rate = (wire.flow_label_and_last.get() & 0x3f) as u8;
        Self { packet_rate, traffic_class, hop_limit, ..Self::common(wire) }
    }

    /// As a LAP has it (IBA 12.8.1).
    pub(super) fn in_load(wire: &Layout) -> Self {
        let [hop_limit, rate] = wire.limits;
        let traffic_class = (wire.flow_label_and_last.get() & 0xff) as u8;
        Self { packet_rate: bits(rate, 2, 6), traffic_class, hop_limit, ..Self::common(wire) }
    }

    /// For a REQ.
    pub(super) fn to_request(self) -> Layout {
        let last = self.packet_rate & 0x3f;
        self.layout(last, [self.traffic_class, self.hop_limit])
    }

    /// For a LAP.
    pub(super) fn to_load(self) -> Layout {
        self.layout(self.traffic_class, [self.hop_limit, place(self.packet_rate, 2, 6)])
    }

    /// The fields that have one place.
    fn common(wire: &Layout) -> Self {
        Self {
            local_lid: Lid(wire.local_lid.get()),
            remote_lid: Lid(wire.remote_lid.get()),
            local_gid: Gid(wire.local_gid),
            remote_gid: Gid(wire.remote_gid),
            flow_label: wire.flow_label_and_last.get() >> 12,
            service_level: bits(wire.level_and_subnet, 0, 4),
            subnet_local: bits(wire.level_and_subnet, 4, 1) != 0,
            local_ack_timeout: bits(wire.ack_timeout, 0, 5),
            ..Self::default()
        }
    }

    fn layout(self, last: u8, limits: [u8; 2]) -> Layout {
        let subnet_local = place(self.subnet_local.into(), 4, 1);
        Layout {
            local_lid: U16::new(self.local_lid.0),
            remote_lid: U16::new(self.remote_lid.0),
            local_gid: self.local_gid.0,
            remote_gid: self.remote_gid.0,
            flow_label_and_last: U32::new(self.flow_label << 12 | u32::from(last)),
            limits,
            level_and_subnet: place(self.service_level, 0, 4) | subnet_local,
            ack_timeout: place(self.local_ack_timeout, 0, 5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: Path = Path {
        local_lid: Lid(0x0102),
        remote_lid: Lid(0x0304),
        local_gid: Gid([0x11; 16]),
        remote_gid: Gid([0x22; 16]),
        flow_label: 0xabcde,
        packet_rate: 0x25,
        traffic_class: 0x33,
        hop_limit: 0x44,
        service_level: 0x9,
        subnet_local: true,
        local_ack_timeout: 0x13,
    };

    #[test]
    fn the_two_messages_put_the_six_bytes_after_the_gids_differently() {
        let request = PATH.to_request();
        assert_eq!(request.as_bytes()[..4], [1, 2, 3, 4]);
        assert_eq!(request.as_bytes()[36..], [0xab, 0xcd, 0xe0, 0x25, 0x33, 0x44, 0x98, 0x98]);
        assert_eq!(Path::in_request(&request), PATH);

        let load = PATH.to_load();
        assert_eq!(load.as_bytes()[..36], request.as_bytes()[..36]);
        assert_eq!(load.as_bytes()[36..], [0xab, 0xcd, 0xe0, 0x33, 0x44, 0x25, 0x98, 0x98]);
        assert_eq!(Path::in_load(&load), PATH);
    }

    #[test]
    fn a_path_that_is_not_there_is_all_zero() {
        assert_eq!(Path::default().to_request().as_bytes(), [0; 44]);
        assert_eq!(Path::default().to_load().as_bytes(), [0; 44]);
    }
}
