//! The blocks of a pcapng file (draft-ietf-opsawg-pcapng), little-endian.

/// A packet to be written down.
pub(crate) struct Record<'a> {
    /// When, in nanoseconds since 1970.
    pub(crate) time: u64,
    pub(crate) direction: Direction,
    /// IP and UDP headers.
    pub(crate) headers: &'a [u8],
    /// The payload of the datagram: BTH to invariant CRC.
    pub(crate) payload: &'a [u8],
    /// What is to be said of it, if anything.
    pub(crate) comment: Option<&'static str>,
}

/// Which way a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To us.
    Received,
    /// From us.
    Sent,
}

/// What each process writes before its first packet: a section, and the one interface in it. All
/// processes write the same, so that their packets may come in any order: a packet's interface is
/// that of the last section before it.
pub(crate) fn write_preamble(into: &mut Vec<u8>) {
    block(into, SECTION_HEADER, |into| {
        into.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        into.extend(1u16.to_le_bytes());
        into.extend(0u16.to_le_bytes());
        into.extend(UNKNOWN_LENGTH.to_le_bytes());
        option(into, USER_APPLICATION, concat!("Converb ", env!("CARGO_PKG_VERSION")).as_bytes());
        end_of_options(into);
    });
    block(into, INTERFACE_DESCRIPTION, |into| {
        into.extend(LINK_TYPE_RAW.to_le_bytes());
        into.extend(0u16.to_le_bytes());
        into.extend(NO_LIMIT.to_le_bytes());
        option(into, INTERFACE_NAME, b"converb");
        option(into, TIME_RESOLUTION, &[NANOSECONDS]);
        end_of_options(into);
    });
}

/// Writes a packet.
pub(crate) fn write_packet(into: &mut Vec<u8>, record: &Record<'_>) {
    let bytes = (record.headers.len() + record.payload.len()) as u32;
    block(into, ENHANCED_PACKET, |into| {
        into.extend(0u32.to_le_bytes());
        into.extend(((record.time >> 32) as u32).to_le_bytes());
        into.extend((record.time as u32).to_le_bytes());
        into.extend(bytes.to_le_bytes());
        into.extend(bytes.to_le_bytes());
        into.extend(record.headers);
        into.extend(record.payload);
        pad(into, bytes as usize);
        if let Some(comment) = record.comment {
            option(into, COMMENT, comment.as_bytes());
        }
        let direction: u32 = match record.direction {
            Direction::Received => 1,
            Direction::Sent => 2,
        };
        option(into, PACKET_FLAGS, &direction.to_le_bytes());
        end_of_options(into);
    });
}

/// A block: its type, its length, what `body` writes, its length once more.
fn block(into: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = into.len();
    into.extend(kind.to_le_bytes());
    into.extend(0u32.to_le_bytes());
    body(into);
    let length = (into.len() - start + 4) as u32;
    into.extend(length.to_le_bytes());
    into[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
}

fn option(into: &mut Vec<u8>, code: u16, value: &[u8]) {
    into.extend(code.to_le_bytes());
    into.extend((value.len() as u16).to_le_bytes());
    into.extend(value);
    pad(into, value.len());
}

fn end_of_options(into: &mut Vec<u8>) {
    into.extend([0; 4]);
}

/// Fills up to 32 bits.
fn pad(into: &mut Vec<u8>, length: usize) {
    into.extend(&[0; 3][..length.wrapping_neg() % 4]);
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const UNKNOWN_LENGTH: u64 = u64::MAX;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// LINKTYPE_RAW: each packet begins with its IPv4 or IPv6 header.
const LINK_TYPE_RAW: u16 = 101;
const NO_LIMIT: u32 = 0;
const COMMENT: u16 = 1;
const PACKET_FLAGS: u16 = 2;
const INTERFACE_NAME: u16 = 2;
const USER_APPLICATION: u16 = 4;
const TIME_RESOLUTION: u16 = 9;
const NANOSECONDS: u8 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    /// The types of the blocks, each with as many bytes as it says twice.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let (kind, length) = (word(0), word(4) as usize);
            assert_eq!(length % 4, 0);
            assert_eq!(word(length - 4) as usize, length);
            found.push((kind, &bytes[8..length - 4]));
            bytes = &bytes[length..];
        }
        found
    }

    #[test]
    fn blocks_say_their_length() {
        let mut bytes = Vec::new();
        write_preamble(&mut bytes);
        for length in 0..5 {
            let record = Record {
                time: 0x0102_0304_0506_0708,
                direction: Direction::Sent,
                headers: &[1; 28],
                payload: &vec![2; length],
                comment: (length == 3).then_some("why"),
            };
            write_packet(&mut bytes, &record);
        }
        let blocks = blocks(&bytes);
        let kinds: Vec<_> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [SECTION_HEADER, INTERFACE_DESCRIPTION, 6, 6, 6, 6, 6]);
        let packet = blocks[5].1;
        assert_eq!(&packet[4..20], [4, 3, 2, 1, 8, 7, 6, 5, 31, 0, 0, 0, 31, 0, 0, 0]);
        assert_eq!(&packet[20 + 32..], b"\x01\0\x03\0why\0\x02\0\x04\0\x02\0\0\0\0\0\0\0");
    }
}
