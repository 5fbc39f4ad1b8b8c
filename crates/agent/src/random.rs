//! Numbers that nobody else has.

use rustix::rand::{GetRandomFlags, getrandom};

/// A number from the kernel's generator. Never waits: very early after boot, when there is no
/// randomness, any number will do.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    let _ = getrandom(&mut bytes, GetRandomFlags::NONBLOCK);
    u64::from_ne_bytes(bytes)
}
