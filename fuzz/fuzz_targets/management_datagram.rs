//! Bytes as a management datagram: parsed, written again, and given to whom it is for.

#![no_main]

use converb_cm::mad::{Header, MAD_SIZE, dispatch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(header) = Header::parse(bytes) else { return };
    let mut again = [0; MAD_SIZE];
    header.emit(&mut again);
    assert_eq!(Header::parse(&again), Some(header));
    let _ = dispatch(&header);
});
