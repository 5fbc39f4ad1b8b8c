//! The numbers of the transport, each a type of its own, and the only place where they wrap.

use core::fmt;

/// A packet sequence number, 24 bits, compared modulo 2^24 (IBA 9.7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    const MASK: u32 = 0x00ff_ffff;

    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & Self::MASK)
    }

    /// The value, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The number `count` packets later.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// The number `count` packets earlier.
    #[must_use]
    pub const fn minus(self, count: u32) -> Self {
        Self::new(self.0.wrapping_sub(count))
    }

    /// How many packets this is after `earlier`, modulo 2^24. Use it only where it is known that
    /// `self` is not before `earlier`.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & Self::MASK
    }

    /// Whether this comes before `other`: less than half the number space lies between them.
    pub const fn is_before(self, other: Self) -> bool {
        let distance = other.since(self);
        distance != 0 && distance < 0x0080_0000
    }

    /// Whether this lies in the `length` numbers that begin with `start`.
    pub const fn is_within(self, start: Self, length: u32) -> bool {
        self.since(start) < length
    }
}

/// A queue pair number, 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Qpn(u32);

impl Qpn {
    /// The multicast queue pair number.
    pub const MULTICAST: Self = Self(0x00ff_ffff);
    /// The general service interface, where connection management happens.
    pub const GSI: Self = Self(1);

    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & 0x00ff_ffff)
    }

    /// The value, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }
}

/// A key by which a peer names our memory, or we name the peer's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rkey(pub u32);

impl fmt::Display for Psn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#08x}", self.0)
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap_at_24_bits() {
        let last = Psn::new(0x00ff_ffff);
        assert_eq!(last.plus(1), Psn::new(0));
        assert_eq!(Psn::new(0).minus(1), last);
        assert_eq!(Psn::new(3).since(last), 4);
        assert!(last.is_before(Psn::new(0)));
        assert!(!Psn::new(0).is_before(last));
        assert!(!last.is_before(last));
        assert!(Psn::new(1).is_within(last, 3));
        assert!(!Psn::new(2).is_within(last, 3));
    }
}
