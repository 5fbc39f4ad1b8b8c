//! A script of what hostile writers do to the ring of a process that reads it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = converb_link::play_hostile_ring(bytes);
});
