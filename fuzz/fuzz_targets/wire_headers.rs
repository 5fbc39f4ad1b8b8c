//! Bytes as a frame: Ethernet, VLAN, IPv4 or IPv6 and UDP or GRH, the transport, the CRC; then the
//! same bytes as an InfiniBand packet.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wire/tests/walk/mod.rs"]
mod walk;

fuzz_target!(|bytes: &[u8]| {
    let _ = walk::frame(bytes);
    let _ = walk::infiniband(bytes);
});
