//! Netlink attributes: length, type, value, padded to four bytes.

use super::half;

/// Iterates over the attributes in a netlink message. Ends at the first that does not fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        /// The high bits of a type say "nested" and "network byte order".
        const TYPE_MASK: u16 = 0x3fff;
        let length = usize::from(half(self.0, 0)?);
        let kind = half(self.0, 2)? & TYPE_MASK;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}
