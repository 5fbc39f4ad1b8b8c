//! Bytes as a message to the agent, as the agent parses it, and as one from it, as members do.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = converb_agent::read_hostile_message(bytes);
});
