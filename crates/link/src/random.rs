//! Numbers that nobody can guess.

use rustix::rand::{GetRandomFlags, getrandom};

/// A number from the kernel's generator. Each call asks the kernel: numbers kept in memory would
/// come out a second time in a forked child, and keys and first PSNs are not needed often.
pub(crate) fn random() -> u64 {
    let mut bytes = [0u8; 8];
    loop {
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            // Up to 256 bytes come whole.
            Ok(_) => return u64::from_ne_bytes(bytes),
            Err(rustix::io::Errno::INTR) => (),
            Err(error) => panic!("getrandom(2) is in every Linux since 3.17, but: {error}"),
        }
    }
}
