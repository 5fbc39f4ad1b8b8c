//! A script of packets for a queue pair that is at work: RC, UC or UD, with memory and keys.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/engine/tests/conversation/mod.rs"]
mod conversation;
#[path = "../../crates/engine/tests/hostile/mod.rs"]
mod hostile;

fuzz_target!(|bytes: &[u8]| {
    let _ = hostile::play(bytes);
});
