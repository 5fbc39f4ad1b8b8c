//! The one port of a device, as its network interface makes it.

use crate::gid::GidTable;
use crate::interfaces::Interface;
use converb_engine::iba::Mtu;

/// The state of a port (`enum ibv_port_state`; the values are the ABI's).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PortState {
    /// It carries nothing now.
    Down = 1,
    /// It carries packets.
    Active = 4,
}

/// The attributes of a port (`struct ibv_port_attr`), as far as they are not the same for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Whether it carries packets.
    pub state: PortState,
    /// The largest path MTU that fits into the interface's MTU.
    pub active_mtu: Mtu,
    /// Its GIDs.
    pub gids: GidTable,
    /// The MTU of the interface, in bytes.
    pub interface_mtu: u32,
    /// The speed of the link in megabits per second, as told or assumed.
    pub speed_megabits: u32,
    /// The code of the number of lanes (`active_width`).
    pub active_width: u8,
    /// The code of the speed of one lane (`active_speed`).
    pub active_speed: u8,
    /// The code of the physical state: 5 for a link that is up, 3 for one that is disabled.
    pub physical_state: u8,
}

/// What surrounds a payload at most: IPv6 40, UDP 8, BTH 12, XRCETH 4, AtomicETH 28, ICRC 4. Linux
/// reckons the same, so both ends of a link come to the same MTU.
const HEADER_BYTES_MAX: u32 = 96;

/// What a link that does not tell its speed is taken for (loopback: shared memory is faster).
const SPEED_UNKNOWN_MEGABITS: u32 = 100_000;

/// Speeds up to this many megabits per second, the code for the lanes (1: one, 2: four) and the
/// code for the speed of a lane (1: 2.5 Gb/s, 4: 10, 32: 25, 64: 50, 128: 100).
const SPEEDS: &[(u32, u8, u8)] = &[
    (2_500, 1, 1),
    (10_000, 1, 4),
    (25_000, 1, 32),
    (40_000, 2, 4),
    (50_000, 1, 64),
    (100_000, 2, 32),
    (200_000, 2, 64),
    (u32::MAX, 2, 128),
];

impl PortState {
    /// The state of the port that an interface makes.
    pub fn of(interface: &Interface) -> Self {
        if interface.is_up && interface.is_running { Self::Active } else { Self::Down }
    }
}

impl Port {
    /// The port of an interface in the state it has now, with its GIDs.
    pub fn of(interface: &Interface, gids: GidTable) -> Self {
        let state = PortState::of(interface);
        let speed_megabits = interface.speed_megabits().unwrap_or(SPEED_UNKNOWN_MEGABITS);
        let (active_width, active_speed) = width_and_speed(speed_megabits);
        Self {
            state,
            active_mtu: Mtu::that_fits(interface.mtu, HEADER_BYTES_MAX),
            gids,
            interface_mtu: interface.mtu,
            speed_megabits,
            active_width,
            active_speed,
            physical_state: if state == PortState::Active { 5 } else { 3 },
        }
    }
}

fn width_and_speed(megabits: u32) -> (u8, u8) {
    SPEEDS
        .iter()
        .find(|&&(limit, ..)| megabits <= limit)
        .map_or((2, 128), |&(_, width, speed)| (width, speed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_mtu_leaves_room_for_all_headers() {
        let mtu = |bytes| {
            let interface = Interface { mtu: bytes, ..Interface::for_tests("eth0", 2) };
            Port::of(&interface, GidTable::of(&interface)).active_mtu
        };
        assert_eq!(mtu(1500), Mtu::Bytes1024);
        assert_eq!(mtu(9000), Mtu::Bytes4096);
        assert_eq!(mtu(65536), Mtu::Bytes4096);
        assert_eq!(mtu(4096 + 96), Mtu::Bytes4096);
        assert_eq!(mtu(4096 + 95), Mtu::Bytes2048);
    }

    #[test]
    fn a_port_without_a_carrier_is_down() {
        let interface = Interface { is_running: false, ..Interface::for_tests("eth0", 2) };
        assert_eq!(PortState::of(&interface), PortState::Down);
        assert_eq!(PortState::of(&Interface::for_tests("eth0", 2)), PortState::Active);
    }

    #[test]
    fn common_speeds_have_their_usual_lanes() {
        assert_eq!(width_and_speed(1_000), (1, 1));
        assert_eq!(width_and_speed(10_000), (1, 4));
        assert_eq!(width_and_speed(25_000), (1, 32));
        assert_eq!(width_and_speed(100_000), (2, 32));
        assert_eq!(width_and_speed(400_000), (2, 128));
    }
}
