//! The names of a process's connections.

/// How many low bits of a communication ID are the process's own. The others are the number of its
/// slot, by which a host tells whose message it is.
pub const IDENTIFIER_BITS: u32 = 22;

/// Gives communication IDs, each again only after all others.
#[derive(Debug)]
pub struct Identifiers {
    slot: u16,
    next: u32,
}

impl Identifiers {
    /// For the process with that slot; `random` says where to begin, so that what is meant for an
    /// earlier owner of the slot meets no connection.
    pub fn new(slot: u16, random: u32) -> Self {
        Self { slot, next: random & Self::MASK }
    }

    const MASK: u32 = (1 << IDENTIFIER_BITS) - 1;

    /// One that `is_used` does not know; `None` if it knows all.
    pub fn take(&mut self, is_used: impl Fn(u32) -> bool) -> Option<u32> {
        for _ in 0..=Self::MASK {
            let id = u32::from(self.slot) << IDENTIFIER_BITS | self.next;
            self.next = (self.next + 1) & Self::MASK;
            // 0 stands for none.
            if id != 0 && !is_used(id) {
                return Some(id);
            }
        }
        None
    }
}

/// The slot whose process has given the communication ID.
pub const fn slot_of(id: u32) -> u16 {
    (id >> IDENTIFIER_BITS) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_name_the_slot_and_repeat_last() {
        let mut identifiers = Identifiers::new(1022, u32::MAX);
        let first = identifiers.take(|_| false).unwrap();
        assert_eq!((slot_of(first), first & Identifiers::MASK), (1022, Identifiers::MASK));
        let second = identifiers.take(|_| false).unwrap();
        assert_eq!((slot_of(second), second & Identifiers::MASK), (1022, 0));
        let used = [second + 1, second + 2];
        assert_eq!(identifiers.take(|id| used.contains(&id)), Some(second + 3));
        assert_eq!(Identifiers::new(0, 0).take(|id| id != 5), Some(5));
        assert_eq!(Identifiers::new(7, 3).take(|_| true), None);
    }
}
