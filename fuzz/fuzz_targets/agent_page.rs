//! Bytes as what a member shares with the agent, counters and failures, and as what an agent
//! leaves to its successor.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = converb_agent::read_hostile_page(bytes);
});
