//! GUIDs: the 64-bit name of a device, unique in the world if its MAC address is.

use crate::interfaces::Interface;
use std::os::unix::fs::MetadataExt;

/// The GUID of a device: the EUI-64 of its MAC address, as NICs have it. An interface without a
/// MAC address (loopback, tunnels) gets one that is made up, but always the same as long as its
/// network namespace lives, and another in every other namespace.
pub(crate) fn of(interface: &Interface) -> u64 {
    let mac = interface.mac.unwrap_or_else(|| made_up_mac(&namespace(), &interface.name));
    eui64(mac)
}

/// IEEE: the middle is `ff:fe`, and the bit that says "administered locally" is inverted.
fn eui64([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([a ^ 0x02, b, c, 0xff, 0xfe, d, e, f])
}

/// A locally administered MAC address that depends on the text alone.
fn made_up_mac(namespace: &str, name: &str) -> [u8; 6] {
    // FNV-1a: the standard library's hasher is seeded at random.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in namespace.bytes().chain(name.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let [a, b, c, d, e, ..] = hash.to_be_bytes();
    [0x02, a, b, c, d, e]
}

/// What names this network namespace: the kernel's boot and the namespace's inode in it.
fn namespace() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let inode = std::fs::metadata("/proc/self/ns/net").map_or(0, |metadata| metadata.ino());
    format!("{}/{inode}/", boot.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_address_becomes_an_eui64() {
        let interface = Interface {
            mac: Some([0x52, 0x54, 0x00, 0x12, 0x34, 0x56]),
            ..Interface::for_tests("eth0", 2)
        };
        assert_eq!(of(&interface), 0x5054_00ff_fe12_3456);
    }

    #[test]
    fn an_interface_without_a_mac_address_keeps_its_guid() {
        let lo = Interface::for_tests("lo", 1);
        assert_eq!(of(&lo), of(&lo));
        assert_ne!(made_up_mac("boot/1/", "lo"), made_up_mac("boot/2/", "lo"));
        assert_ne!(of(&lo), of(&Interface::for_tests("tun0", 2)));
    }
}
