//! Greetings: the private data of the request for a connection, and of the reply to it.

use super::place::{Order, Span};

const VERSION: u8 = 1;
/// The sender's tables are in network byte order.
const IS_BIG_ENDIAN: u8 = 1;
/// A table of mappings follows the one of buffers.
const HAS_MAPPINGS: u8 = 2;
/// Below this a number of mappings is what it says; above, the lower bits are to be multiplied.
const SCALED: u8 = 1 << 7;
/// Most entries of a table of mappings.
pub const MAPPINGS_MAX: u32 = ((SCALED - 1) as u32) << 8;

/// What an end says of itself before a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// In which byte order its tables are.
    pub order: Order,
    /// How many messages with data may be sent to it before it grants more.
    pub credits: u16,
    /// How many entries its table of mappings has, behind that of buffers; of more than 128 a
    /// multiple of 256.
    pub mappings: u32,
    /// Its table of buffers, whose length counts entries.
    pub buffers: Span,
    /// The first buffer: what the table's first entry holds.
    pub first: Span,
}

/// Private data that is no greeting, or one of a version that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidGreeting;

impl Greeting {
    /// How many bytes it takes.
    pub const BYTES: usize = 8 + 2 * Span::BYTES;

    /// As it goes over the wire, in network byte order.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let is_big = if self.order == Order::Big { IS_BIG_ENDIAN } else { 0 };
        bytes[0] = VERSION;
        bytes[1] = HAS_MAPPINGS | is_big;
        bytes[2..4].copy_from_slice(&self.credits.to_be_bytes());
        bytes[7] = scaled(self.mappings);
        bytes[8..24].copy_from_slice(&self.buffers.to_bytes(Order::Big));
        bytes[24..].copy_from_slice(&self.first.to_bytes(Order::Big));
        bytes
    }

    /// What stands in private data, which may be longer.
    ///
    /// # Errors
    /// For less than 40 bytes, another version than 1, or a table without entries.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidGreeting> {
        let bytes: &[u8; Self::BYTES] = bytes.first_chunk().ok_or(InvalidGreeting)?;
        let span = |from: usize| {
            let bytes = bytes[from..].first_chunk().expect("a greeting ends with two spans");
            Span::from_bytes(bytes, Order::Big)
        };
        let greeting = Self {
            order: if bytes[1] & IS_BIG_ENDIAN == 0 { Order::Little } else { Order::Big },
            credits: u16::from_be_bytes([bytes[2], bytes[3]]),
            mappings: if bytes[1] & HAS_MAPPINGS == 0 { 0 } else { value(bytes[7]) },
            buffers: span(8),
            first: span(24),
        };
        let is_good = bytes[0] == VERSION && greeting.buffers.length > 0;
        if is_good { Ok(greeting) } else { Err(InvalidGreeting) }
    }

    /// The place of an entry in the table of buffers.
    pub fn buffer_entry(&self, index: u32) -> u64 {
        self.buffers.address.wrapping_add(u64::from(index) * Span::BYTES as u64)
    }

    /// The place of an entry in the table of mappings.
    pub fn mapping_entry(&self, index: u32) -> u64 {
        let table = self.buffer_entry(self.buffers.length);
        table.wrapping_add(u64::from(index) * super::Mapping::BYTES as u64)
    }
}

/// The number of mappings that a greeting can say nearest to `wanted`, and not above.
pub fn usual_mappings(wanted: u32) -> u32 {
    value(scaled(wanted.min(MAPPINGS_MAX)))
}

fn scaled(mappings: u32) -> u8 {
    match u8::try_from(mappings) {
        Ok(few @ ..=SCALED) => few,
        _ => SCALED | (mappings >> 8).min(u32::from(SCALED - 1)) as u8,
    }
}

fn value(scaled: u8) -> u32 {
    if scaled <= SCALED { scaled.into() } else { u32::from(scaled & !SCALED) << 8 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What rstream's client over rxe says.
    const CAPTURED: [u8; 40] = [
        1, 2, 1, 0x80, 0, 0, 0, 0, 0, 0, 0x56, 0x36, 0xc2, 0x18, 0xf0, 0, 0, 0, 0x11, 0x57, 0, 0,
        0, 2, 0, 0, 0x7f, 0x17, 0x11, 0x8b, 0xc0, 0, 0, 0, 0x12, 0x64, 0, 8, 0, 0,
    ];

    #[test]
    fn what_linux_says_is_read_and_said_again() {
        let greeting = Greeting::from_bytes(&CAPTURED).expect("a greeting");
        let expected = Greeting {
            order: Order::Little,
            credits: 0x180,
            mappings: 0,
            buffers: Span { address: 0x5636_c218_f000, key: 0x1157, length: 2 },
            first: Span { address: 0x7f17_118b_c000, key: 0x1264, length: 0x8_0000 },
        };
        assert_eq!(greeting, expected);
        assert_eq!(greeting.to_bytes(), CAPTURED);
        // Both are in the capture: the second entry, where the second half was told.
        assert_eq!(greeting.buffer_entry(1), 0x5636_c218_f010);
        assert_eq!(greeting.mapping_entry(1), 0x5636_c218_f000 + 32 + 24);
    }

    #[test]
    fn what_is_no_greeting_is_refused() {
        assert_eq!(Greeting::from_bytes(&CAPTURED[..39]), Err(InvalidGreeting));
        assert_eq!(Greeting::from_bytes(&[0; 56]), Err(InvalidGreeting));
        let mut other = CAPTURED;
        other[0] = 2;
        assert_eq!(Greeting::from_bytes(&other), Err(InvalidGreeting));
        let mut without_table = CAPTURED;
        without_table[23] = 0;
        assert_eq!(Greeting::from_bytes(&without_table), Err(InvalidGreeting));
    }

    #[test]
    fn numbers_of_mappings_are_rounded_down_to_what_can_be_said() {
        for (wanted, said) in
            [(0, 0), (1, 1), (128, 128), (256, 256), (511, 256), (1 << 20, 32_512)]
        {
            assert_eq!(usual_mappings(wanted), said, "{wanted}");
        }
    }

    proptest! {
        #[test]
        fn greetings_survive_the_wire(
            is_big: bool, credits: u16, mappings in 0..=MAPPINGS_MAX, entries in 1u32..,
            address: u64, key: u32, length: u32,
        ) {
            let greeting = Greeting {
                order: if is_big { Order::Big } else { Order::Little },
                credits,
                mappings: usual_mappings(mappings),
                buffers: Span { address, key, length: entries },
                first: Span { address: !address, key: !key, length },
            };
            let mut private_data = greeting.to_bytes().to_vec();
            private_data.extend([0; 16]);
            prop_assert_eq!(Greeting::from_bytes(&private_data), Ok(greeting));
        }

        #[test]
        fn any_bytes_are_a_greeting_or_none(bytes: Vec<u8>) {
            let _ = Greeting::from_bytes(&bytes);
        }
    }
}
