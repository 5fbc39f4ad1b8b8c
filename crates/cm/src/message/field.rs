//! Fields that are no whole numbers of a processor: three bytes, or a few bits of one.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A number of 24 bits, as the network writes it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct U24([u8; 3]);

impl U24 {
    /// The low 24 bits of `value`.
    pub(super) const fn new(value: u32) -> Self {
        let [_, high, middle, low] = value.to_be_bytes();
        Self([high, middle, low])
    }

    /// The number.
    pub(super) const fn get(self) -> u32 {
        let [high, middle, low] = self.0;
        u32::from_be_bytes([0, high, middle, low])
    }
}

/// The `width` bits of `byte` that begin at bit `from`, where the specification counts from the
/// top: bit 0 is the most significant.
pub(super) const fn bits(byte: u8, from: u32, width: u32) -> u8 {
    byte >> (8 - from - width) & mask(width)
}

/// A byte that has `value` at that place and zeros around it. What is beyond `width` is cut off.
pub(super) const fn place(value: u8, from: u32, width: u32) -> u8 {
    (value & mask(width)) << (8 - from - width)
}

const fn mask(width: u32) -> u8 {
    (1 << width) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_bytes_are_a_number() {
        assert_eq!(U24::new(0xff12_3456).0, [0x12, 0x34, 0x56]);
        assert_eq!(U24::new(0xff12_3456).get(), 0x12_3456);
    }

    #[test]
    fn bits_are_counted_from_the_top() {
        assert_eq!(bits(0b1010_0110, 0, 5), 0b10100);
        assert_eq!(bits(0b1010_0110, 5, 2), 0b11);
        assert_eq!(bits(0b1010_0110, 7, 1), 0);
        assert_eq!(place(0xff, 5, 2), 0b0000_0110);
        for (from, width) in [(0, 5), (4, 1), (5, 3), (0, 7)] {
            assert_eq!(bits(place(0xff, from, width), from, width), mask(width));
        }
    }
}
