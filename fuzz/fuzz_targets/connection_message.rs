//! Bytes as a message of connection management: what parses survives being written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cm/tests/survival/mod.rs"]
mod survival;

fuzz_target!(|bytes: &[u8]| {
    if let Some(mad) = bytes.first_chunk() {
        let _ = survival::message(mad);
    }
});
