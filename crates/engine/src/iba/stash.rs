//! Requests that came before their turn, kept until the missing one arrives.

use converb_wire::Psn;

/// Packets ahead of the expected one, in the order of their sequence numbers. Memory is taken
/// only when packets really are out of order.
#[derive(Debug, Default)]
pub struct Stash {
    packets: Vec<(Psn, Box<[u8]>)>,
    bytes: usize,
}

/// No more packets than this wait.
const PACKETS_MAX: usize = 1024;
/// No more bytes than this wait, per queue pair.
const BYTES_MAX: usize = 4 << 20;

impl Stash {
    /// Keeps a packet that is ahead of `expected`. False if it is there already or there is no
    /// room for it.
    pub fn keep(&mut self, expected: Psn, psn: Psn, bytes: &[u8]) -> bool {
        if self.packets.len() >= PACKETS_MAX || self.bytes + bytes.len() > BYTES_MAX {
            return false;
        }
        let distance = psn.since(expected);
        match self.packets.binary_search_by_key(&distance, |(psn, _)| psn.since(expected)) {
            Ok(_) => false,
            Err(place) => {
                self.packets.insert(place, (psn, bytes.into()));
                self.bytes += bytes.len();
                true
            }
        }
    }

    /// Takes the packet `expected` if it waits, and forgets what is behind it.
    pub fn take(&mut self, expected: Psn) -> Option<Box<[u8]>> {
        let stale = self.packets.iter().take_while(|(psn, _)| psn.is_before(expected)).count();
        for (_, bytes) in self.packets.drain(..stale) {
            self.bytes -= bytes.len();
        }
        if self.packets.first()?.0 != expected {
            return None;
        }
        let (_, bytes) = self.packets.remove(0);
        self.bytes -= bytes.len();
        Some(bytes)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_out_in_order_across_the_wrap() {
        let expected = Psn::new(0x00ff_ffff);
        let mut stash = Stash::default();
        assert!(stash.keep(expected, expected.plus(2), b"two"));
        assert!(stash.keep(expected, expected.plus(1), b"one"));
        assert!(!stash.keep(expected, expected.plus(1), b"again"));
        assert!(stash.take(expected).is_none());
        assert_eq!(stash.take(expected.plus(1)).as_deref(), Some(&b"one"[..]));
        assert_eq!(stash.take(expected.plus(2)).as_deref(), Some(&b"two"[..]));
        assert!(stash.is_empty());
    }

    #[test]
    fn what_arrived_otherwise_meanwhile_is_forgotten() {
        let expected = Psn::new(10);
        let mut stash = Stash::default();
        stash.keep(expected, Psn::new(11), b"one");
        stash.keep(expected, Psn::new(13), b"three");
        assert_eq!(stash.take(Psn::new(13)).as_deref(), Some(&b"three"[..]));
        assert!(stash.is_empty());
        assert_eq!(stash.bytes, 0);
    }

    #[test]
    fn there_is_a_limit() {
        let mut stash = Stash::default();
        for psn in 1..=PACKETS_MAX as u32 {
            assert!(stash.keep(Psn::new(0), Psn::new(psn), b"x"));
        }
        assert!(!stash.keep(Psn::new(0), Psn::new(5000), b"x"));
    }
}
