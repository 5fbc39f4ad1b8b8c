//! Messages from an agent of another user to a process whose datagrams it carries.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = converb_link::play_hostile_agent(bytes);
});
