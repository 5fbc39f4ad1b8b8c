//! Ancillary data of a message, written and read as bytes.
//!
//! An entry is a header (length as `size_t`, level and type as `int`), its data, and padding to
//! eight bytes (`cmsg(3)` on 64-bit Linux).

const HEADER_BYTES: usize = 16;
const ALIGNMENT: usize = 8;
const CAPACITY: usize = 128;

const _: () = assert!(size_of::<usize>() == 8, "ancillary data is laid out for 64-bit Linux");

/// Ancillary data to send: room for one entry of each kind that this crate sends.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Control {
    bytes: [u8; CAPACITY],
    length: usize,
}

impl Control {
    /// No entries.
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; CAPACITY], length: 0 }
    }

    /// Appends an entry.
    pub(crate) fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let entry = HEADER_BYTES + data.len();
        let end = self.length + entry.next_multiple_of(ALIGNMENT);
        assert!(end <= CAPACITY, "one entry of each kind fits");
        let into = &mut self.bytes[self.length..end];
        into[0..8].copy_from_slice(&entry.to_ne_bytes());
        into[8..12].copy_from_slice(&level.to_ne_bytes());
        into[12..16].copy_from_slice(&kind.to_ne_bytes());
        into[16..entry].copy_from_slice(data);
        self.length = end;
    }

    /// The bytes of the entries.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// How many bytes the entries take.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// Takes back the entries that were appended since the data was `length` bytes long.
    pub(crate) fn truncate(&mut self, length: usize) {
        assert!(length <= self.length);
        self.length = length;
    }
}

/// Reads entries: level, type and data of each. Stops at the first malformed one.
pub(crate) struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    /// The entries in what the kernel wrote.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (i32, i32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest;
        let length = usize::from_ne_bytes(rest.get(0..8)?.try_into().ok()?);
        let level = i32::from_ne_bytes(rest.get(8..12)?.try_into().ok()?);
        let kind = i32::from_ne_bytes(rest.get(12..16)?.try_into().ok()?);
        let data = rest.get(HEADER_BYTES..length)?;
        let next = length.next_multiple_of(ALIGNMENT);
        self.rest = rest.get(next..).unwrap_or(&[]);
        Some((level, kind, data))
    }
}

/// The value of an entry that holds an `int`, or the single byte that IPv4 uses for some.
pub(crate) fn integer(data: &[u8]) -> Option<i32> {
    match data {
        [byte] => Some(i32::from(*byte)),
        _ => Some(i32::from_ne_bytes(data.get(0..4)?.try_into().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_as_they_were_pushed() {
        let mut control = Control::new();
        control.push(1, 2, &[3]);
        let short = control.length();
        control.push(4, 5, &[6; 20]);
        let read: Vec<_> = Entries::new(control.bytes()).collect();
        assert_eq!(read, [(1, 2, &[3u8][..]), (4, 5, &[6u8; 20][..])]);
        control.truncate(short);
        assert_eq!(Entries::new(control.bytes()).count(), 1);
    }

    #[test]
    fn malformed_entries_end_the_list() {
        let mut control = Control::new();
        control.push(1, 2, &[3; 8]);
        for length in [0usize, 15, 1000, usize::MAX] {
            let mut bytes = control.bytes().to_vec();
            bytes[0..8].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(Entries::new(&bytes).count(), 0, "length {length}");
        }
        assert_eq!(Entries::new(&control.bytes()[..17]).count(), 0);
    }
}
