//! Places in memory, as they stand in the tables that both ends write for each other, in the byte
//! order of the table's owner.

/// A byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Least significant byte first.
    Little,
    /// Most significant byte first, as on the network.
    Big,
}

impl Order {
    /// This machine's.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    fn of_u64(self, value: u64) -> [u8; 8] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    fn of_u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }
}

/// Memory that the other end may write to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Its first address.
    pub address: u64,
    /// Its key.
    pub key: u32,
    /// How long it is: in bytes, or in entries where it is a table. An entry of 0 bytes is free.
    pub length: u32,
}

impl Span {
    /// How many bytes it takes.
    pub const BYTES: usize = 16;

    /// As it stands in a table, or in a greeting.
    pub fn to_bytes(self, order: Order) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&order.of_u64(self.address));
        bytes[8..12].copy_from_slice(&order.of_u32(self.key));
        bytes[12..].copy_from_slice(&order.of_u32(self.length));
        bytes
    }

    /// What stands there.
    pub fn from_bytes(bytes: &[u8; Self::BYTES], order: Order) -> Self {
        let (address, rest) = bytes.split_first_chunk().expect("16 bytes begin with 8");
        let (key, rest) = rest.split_first_chunk().expect("8 bytes begin with 4");
        let length = rest.first_chunk().expect("and end with 4");
        Self { address: order.u64(*address), key: order.u32(*key), length: order.u32(*length) }
    }
}

/// Memory of a program that the other end may write to by offset (riomap).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The offset of its first byte.
    pub offset: u64,
    /// Where it is.
    pub span: Span,
}

impl Mapping {
    /// How many bytes it takes in a table.
    pub const BYTES: usize = 8 + Span::BYTES;

    /// As it stands in a table.
    pub fn to_bytes(self, order: Order) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&order.of_u64(self.offset));
        bytes[8..].copy_from_slice(&self.span.to_bytes(order));
        bytes
    }

    /// What stands there.
    pub fn from_bytes(bytes: &[u8; Self::BYTES], order: Order) -> Self {
        let (offset, span) = bytes.split_first_chunk().expect("24 bytes begin with 8");
        let span = span.first_chunk().expect("and end with 16");
        Self { offset: order.u64(*offset), span: Span::from_bytes(span, order) }
    }

    /// Where an offset is in the peer's memory, and how many bytes follow there; `None` outside.
    pub fn find(&self, offset: u64) -> Option<Span> {
        let inside = offset.checked_sub(self.offset)?;
        let left = u64::from(self.span.length).checked_sub(inside).filter(|&left| left > 0)?;
        let address = self.span.address.checked_add(inside)?;
        Some(Span { address, length: left as u32, ..self.span })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_linux_writes_is_read() {
        // The second half of a receive buffer, from rstream over rxe.
        let bytes = [0x00, 0xc0, 0x93, 0x11, 0x17, 0x7f, 0, 0, 0x64, 0x12, 0, 0, 0, 0, 0x08, 0];
        let span = Span::from_bytes(&bytes, Order::Little);
        assert_eq!(span, Span { address: 0x7f17_1193_c000, key: 0x1264, length: 0x8_0000 });
        assert_eq!(span.to_bytes(Order::Little), bytes);
    }

    #[test]
    fn offsets_are_found_inside_only() {
        let span = Span { address: 1000, key: 1, length: 10 };
        let mapping = Mapping { offset: 50, span };
        assert_eq!(mapping.find(49), None);
        assert_eq!(mapping.find(50), Some(span));
        assert_eq!(mapping.find(59), Some(Span { address: 1009, key: 1, length: 1 }));
        assert_eq!(mapping.find(60), None);
        assert_eq!(mapping.find(u64::MAX), None);
        assert_eq!(Mapping::default().find(0), None);
    }

    proptest! {
        #[test]
        fn places_survive_both_byte_orders(offset: u64, address: u64, key: u32, length: u32) {
            let mapping = Mapping { offset, span: Span { address, key, length } };
            for order in [Order::Little, Order::Big] {
                prop_assert_eq!(Mapping::from_bytes(&mapping.to_bytes(order), order), mapping);
            }
        }
    }
}
