//! Bytes as a transport packet: parsed, each header written again, compared.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wire/tests/walk/mod.rs"]
mod walk;

fuzz_target!(|bytes: &[u8]| {
    let _ = walk::packet(bytes);
});
