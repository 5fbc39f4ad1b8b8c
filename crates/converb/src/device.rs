//! RDMA devices: one for each network interface that is up.

use crate::error::Error;
use crate::gid::GidTable;
use crate::guid;
use crate::interfaces::Interface;
use crate::port::{Port, PortState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An RDMA device.
#[derive(Debug)]
pub struct Device {
    name: String,
    ordinal: u32,
    node_guid: u64,
    interface_index: u32,
    known: Mutex<Known>,
}

/// What the kernel said last.
#[derive(Debug)]
struct Known {
    /// When it was asked.
    asked: Instant,
    interface: Interface,
    gids: GidTable,
    /// Whether the interface is there. One that has vanished does not come back.
    exists: bool,
}

/// What a device looks like at one moment, as far as programs are told of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) exists: bool,
    pub(crate) state: PortState,
    pub(crate) gids: GidTable,
}

/// The environment variable that replaces the names of devices (`converb run --device-name`).
pub const NAME_VARIABLE: &str = "CONVERB_DEVICE_NAME";

/// What begins the name of a device, before that of its interface.
const NAME_PREFIX: &str = "roce_";

/// For how long an answer of the kernel is good: programs read GID tables entry by entry.
const FRESHNESS: Duration = Duration::from_millis(20);

impl Device {
    /// The devices of this network namespace: that of the default route's interface first, then by
    /// interface number, loopback last.
    ///
    /// # Errors
    /// When the kernel does not list its interfaces.
    pub fn list() -> Result<Vec<Arc<Self>>, Error> {
        let pattern = std::env::var(NAME_VARIABLE).ok().filter(|pattern| !pattern.is_empty());
        let now = Instant::now();
        let interfaces = Interface::all().map_err(Error::system("list the network interfaces"))?;
        let devices = with_devices(interfaces).into_iter().enumerate();
        Ok(devices
            .map(|(position, interface)| {
                let ordinal = position as u32;
                Arc::new(Self {
                    name: name(pattern.as_deref(), ordinal, &interface.name),
                    ordinal,
                    node_guid: guid::of(&interface),
                    interface_index: interface.index,
                    known: Mutex::new(Known {
                        asked: now,
                        gids: GidTable::of(&interface),
                        interface,
                        exists: true,
                    }),
                })
            })
            .collect())
    }

    /// Its name, such as `roce_eth0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its place in the list that it came from, from 0.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// The kernel's number of its interface, above 0.
    pub fn interface_index(&self) -> u32 {
        self.interface_index
    }

    /// Its node GUID, in host order.
    pub fn node_guid(&self) -> u64 {
        self.node_guid
    }

    /// Whether both were listed of one interface, under one name.
    pub fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.interface_index == other.interface_index
    }

    /// Its interface as it is now. One that has vanished is down and has no addresses.
    pub fn interface(&self) -> Interface {
        self.now().interface.clone()
    }

    /// Its port as it is now.
    pub fn port(&self) -> Port {
        let known = self.now();
        let (interface, gids) = (known.interface.clone(), known.gids.clone());
        drop(known);
        Port::of(&interface, gids)
    }

    /// The GID table of its port as it is now.
    pub fn gids(&self) -> GidTable {
        self.now().gids.clone()
    }

    /// Takes note of interfaces that were listed at a moment, unless it knows newer ones.
    pub(crate) fn learn(&self, asked: Instant, all: &[Interface]) {
        let mut known = self.lock();
        if asked >= known.asked {
            known.learn(asked, all, self.interface_index);
        }
    }

    /// What it knows, however old.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let known = self.lock();
        Snapshot {
            exists: known.exists,
            state: PortState::of(&known.interface),
            gids: known.gids.clone(),
        }
    }

    /// What it knows, asking the kernel again if that is old.
    fn now(&self) -> MutexGuard<'_, Known> {
        let mut known = self.lock();
        if known.asked.elapsed() > FRESHNESS {
            let asked = Instant::now();
            // A failure to list is no news about the interface.
            match Interface::all() {
                Ok(all) => known.learn(asked, &all, self.interface_index),
                Err(_) => known.asked = asked,
            }
        }
        known
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn learn(&mut self, asked: Instant, all: &[Interface], index: u32) {
        self.asked = asked;
        match all.iter().find(|found| found.index == index) {
            Some(found) => self.interface.clone_from(found),
            None => {
                self.exists = false;
                self.interface.is_up = false;
                self.interface.is_running = false;
                self.interface.addresses.clear();
            }
        }
        self.gids = self.gids.updated(&self.interface);
    }
}

/// Those interfaces that have a device, in the order of devices. An interface that belongs to a
/// bridge or bond is only a part of that one's device, unless it has addresses of its own (as the
/// members of a VRF have).
fn with_devices(mut interfaces: Vec<Interface>) -> Vec<Interface> {
    interfaces.retain(|interface| {
        let has_address = interface.addresses.iter().any(
            |address| !matches!(address, std::net::IpAddr::V6(v6) if v6.is_unicast_link_local()),
        );
        interface.is_up && (has_address || !interface.has_master)
    });
    interfaces.sort_by_key(|interface| {
        (interface.is_loopback, !interface.has_default_route, interface.index)
    });
    interfaces
}

/// The name of a device. A pattern that ends in a digit names the first device and counts on; one
/// that ends in `_` is a prefix before the interface's name; to another the ordinal is appended.
fn name(pattern: Option<&str>, ordinal: u32, interface: &str) -> String {
    let Some(pattern) = pattern else { return format!("{NAME_PREFIX}{interface}") };
    if pattern.ends_with('_') {
        return format!("{pattern}{interface}");
    }
    let stem = pattern.trim_end_matches(|character: char| character.is_ascii_digit());
    let first: u32 = pattern[stem.len()..].parse().unwrap_or(0);
    format!("{stem}{}", first.saturating_add(ordinal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_comes_first_and_loopback_last() {
        let interface = |name: &str, index| Interface::for_tests(name, index);
        let order: Vec<String> = with_devices(vec![
            Interface { is_loopback: true, ..interface("lo", 1) },
            interface("eth0", 2),
            Interface { has_default_route: true, ..interface("eth1", 3) },
            Interface { is_up: false, ..interface("eth2", 4) },
            Interface { has_master: true, ..interface("veth1", 5) },
            interface("eth3", 6),
        ])
        .into_iter()
        .map(|interface| interface.name)
        .collect();
        assert_eq!(order, ["eth1", "eth0", "eth3", "lo"]);
    }

    #[test]
    fn names_follow_the_pattern() {
        assert_eq!(name(None, 1, "eth0"), "roce_eth0");
        assert_eq!(name(Some("mlx5_0"), 1, "eth0"), "mlx5_1");
        assert_eq!(name(Some("mlx5_"), 1, "eth0"), "mlx5_eth0");
        assert_eq!(name(Some("rxe"), 1, "eth0"), "rxe1");
    }

    #[test]
    fn loopback_has_a_device_with_its_gids() {
        let devices = Device::list().unwrap();
        let last = devices.last().unwrap();
        assert_eq!(last.interface().name, "lo");
        assert!(last.gids().entries().any(|(_, gid)| gid.ip().to_string() == "::ffff:127.0.0.1"));
    }
}
