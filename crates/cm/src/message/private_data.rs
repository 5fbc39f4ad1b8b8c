//! What a consumer puts into a message: private data, and the information that explains a refusal.

use core::fmt;

/// A message's private data, which connection management carries without looking into it.
///
/// Nothing on the wire says how much of it is used: a receiver always gets all `LIMIT` bytes, and
/// what the sender left unused is zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PrivateData<const LIMIT: usize>([u8; LIMIT]);

/// The additional information of a REJ, an APR or a SIDR_REP: up to 72 bytes whose meaning depends
/// on the reason or status that they explain. Their number is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AdditionalInformation {
    /// Zero beyond `length`, so that equal information is equal.
    bytes: [u8; Self::LIMIT],
    /// At most `LIMIT`.
    length: u8,
}

/// There are more bytes than the message has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// How many there are.
    pub length: usize,
    /// How many fit.
    pub limit: usize,
}

impl<const LIMIT: usize> PrivateData<LIMIT> {
    /// How many bytes fit.
    pub const LIMIT: usize = LIMIT;
    /// Nothing but zeros.
    pub const EMPTY: Self = Self([0; LIMIT]);

    /// `bytes`, and zeros up to the limit.
    ///
    /// # Errors
    /// There are more than `LIMIT` bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, TooLong> {
        Self::of_parts(&[], bytes)
    }

    /// `head`, then `bytes`, then zeros up to the limit. What does not fit is counted against the
    /// room that `head` leaves.
    pub(super) fn of_parts(head: &[u8], bytes: &[u8]) -> Result<Self, TooLong> {
        let mut all = [0; LIMIT];
        let limit = LIMIT.saturating_sub(head.len());
        let too_long = TooLong { length: bytes.len(), limit };
        let (front, back) = all.split_at_mut_checked(head.len()).ok_or(too_long)?;
        front.copy_from_slice(head);
        back.get_mut(..bytes.len()).ok_or(too_long)?.copy_from_slice(bytes);
        Ok(Self(all))
    }

    /// All bytes, with the zeros at their end.
    pub const fn as_bytes(&self) -> &[u8; LIMIT] {
        &self.0
    }
}

impl AdditionalInformation {
    /// How many bytes fit.
    pub const LIMIT: usize = 72;
    /// No information.
    pub const EMPTY: Self = Self { bytes: [0; Self::LIMIT], length: 0 };

    /// Information of these bytes.
    ///
    /// # Errors
    /// There are more than 72.
    pub fn new(bytes: &[u8]) -> Result<Self, TooLong> {
        if bytes.len() > Self::LIMIT {
            return Err(TooLong { length: bytes.len(), limit: Self::LIMIT });
        }
        let mut information = Self { length: bytes.len() as u8, ..Self::EMPTY };
        information.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(information)
    }

    /// What a peer sent. A length beyond the field's end is taken for all of the field: a message
    /// that ends a connection is worth more than the exactness of what explains it.
    pub(super) fn received(field: &[u8; Self::LIMIT], length: u8) -> Self {
        let used = field.get(..usize::from(length)).unwrap_or(field);
        Self::new(used).expect("a part of the field is no longer than the field")
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The whole field, with zeros behind the information.
    pub(super) const fn field(&self) -> [u8; Self::LIMIT] {
        self.bytes
    }

    /// How many bytes there are.
    pub(super) const fn length(&self) -> u8 {
        self.length
    }
}

impl<const LIMIT: usize> From<[u8; LIMIT]> for PrivateData<LIMIT> {
    fn from(bytes: [u8; LIMIT]) -> Self {
        Self(bytes)
    }
}

impl<const LIMIT: usize> Default for PrivateData<LIMIT> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Default for AdditionalInformation {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Hexadecimal digits, without the zero bytes at the end.
impl<const LIMIT: usize> fmt::Debug for PrivateData<LIMIT> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        write_digits(formatter, &self.0[..used])
    }
}

/// Hexadecimal digits.
impl fmt::Debug for AdditionalInformation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_digits(formatter, self.as_bytes())
    }
}

fn write_digits(formatter: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    if bytes.is_empty() {
        return formatter.write_str("none");
    }
    bytes.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
}

impl fmt::Display for TooLong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes do not fit: there is room for {}", self.length, self.limit)
    }
}

impl core::error::Error for TooLong {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_is_filled_up_with_zeros() {
        let data = PrivateData::<4>::new(&[1, 2]).expect("2 bytes fit into 4");
        assert_eq!(data.as_bytes(), &[1, 2, 0, 0]);
        assert_eq!(format!("{data:?}"), "0102");
        assert_eq!(PrivateData::<4>::new(&[]), Ok(PrivateData::EMPTY));
        assert_eq!(format!("{:?}", PrivateData::<4>::EMPTY), "none");
    }

    #[test]
    fn what_does_not_fit_is_an_error_that_says_the_limit() {
        assert!(PrivateData::<4>::new(&[1; 4]).is_ok());
        assert_eq!(PrivateData::<4>::new(&[1; 5]), Err(TooLong { length: 5, limit: 4 }));
        assert_eq!(
            PrivateData::<4>::of_parts(&[1; 3], &[2; 2]),
            Err(TooLong { length: 2, limit: 1 })
        );
        assert_eq!(PrivateData::<4>::of_parts(&[1; 5], &[]), Err(TooLong { length: 0, limit: 0 }));
        assert!(AdditionalInformation::new(&[1; 72]).is_ok());
        assert_eq!(AdditionalInformation::new(&[1; 73]), Err(TooLong { length: 73, limit: 72 }));
    }

    #[test]
    fn information_ends_where_its_length_or_its_field_does() {
        let field = [7; AdditionalInformation::LIMIT];
        let information = AdditionalInformation::received(&field, 3);
        assert_eq!(information, AdditionalInformation::new(&[7; 3]).expect("3 bytes fit"));
        assert_eq!(AdditionalInformation::received(&field, 73).as_bytes(), field);
        assert_eq!(AdditionalInformation::received(&field, 0), AdditionalInformation::EMPTY);
    }
}
