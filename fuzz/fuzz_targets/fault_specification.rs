//! Text as what `--fault` takes: parsed, or refused with words that can be printed.

#![no_main]

use converb_link::Faults;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    match text.parse::<Faults>() {
        Ok(faults) => assert!(faults.send.delay.is_none_or(|delay| delay.least <= delay.most)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
