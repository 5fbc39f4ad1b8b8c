//! Little-endian fields of a message: appended by a writer, taken off by a checked reader.

use core::fmt;
use core::net::Ipv6Addr;

/// The bytes are not a message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a message of the agent's protocol")
    }
}

impl std::error::Error for Malformed {}

/// A short name as messages and counter pages carry it: at most `N` bytes, filled up with zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<const N: usize>([u8; N]);

impl<const N: usize> Name<N> {
    /// The first `N` bytes of `text`, shortened at a character's boundary.
    pub fn new(text: &str) -> Self {
        let mut length = text.len().min(N);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        let mut bytes = [0; N];
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self(bytes)
    }

    /// The name in `bytes`, which another process wrote: it ends at the first zero, and what is
    /// not printable ASCII becomes a question mark.
    pub fn from_bytes(bytes: [u8; N]) -> Self {
        let mut clean = [0; N];
        for (to, from) in clean.iter_mut().zip(bytes) {
            match from {
                0 => break,
                b' '..=b'~' => *to = from,
                _ => *to = b'?',
            }
        }
        Self(clean)
    }

    /// The bytes, with the zeros.
    pub fn bytes(&self) -> &[u8; N] {
        &self.0
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(N);
        core::str::from_utf8(&self.0[..end]).unwrap_or("?")
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.0.first().is_none_or(|&byte| byte == 0)
    }
}

impl<const N: usize> Default for Name<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> fmt::Debug for Name<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

/// Takes fields off the front of a message.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*array)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn name<const N: usize>(&mut self) -> Result<Name<N>, Malformed> {
        Ok(Name::from_bytes(self.array()?))
    }

    /// How many of something follow, at most `max`.
    pub fn count(&mut self, max: usize) -> Result<usize, Malformed> {
        let count = usize::from(self.u16()?);
        if count > max { Err(Malformed) } else { Ok(count) }
    }

    /// An IP address and a scope.
    pub fn address(&mut self) -> Result<(Ipv6Addr, u32), Malformed> {
        Ok((Ipv6Addr::from(self.array::<16>()?), self.u32()?))
    }

    /// A count and as many bytes, at most `max`.
    pub fn bytes(&mut self, max: usize) -> Result<Vec<u8>, Malformed> {
        let count = self.count(max)?;
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes.to_vec())
    }

    /// A count and as many slot numbers, at most `max`.
    pub fn slots(&mut self, max: usize) -> Result<Vec<u16>, Malformed> {
        let count = self.count(max)?;
        (0..count).map(|_| self.u16()).collect()
    }
}

/// Appends fields to a message.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub fn finish(self) -> Vec<u8> {
        debug_assert!(self.bytes.len() <= super::MESSAGE_MAX);
        self.bytes
    }

    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn array(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn address(&mut self, ip: Ipv6Addr, scope: u32) {
        self.array(&ip.octets());
        self.u32(scope);
    }

    pub fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn name<const N: usize>(&mut self, name: &Name<N>) {
        self.bytes.extend_from_slice(name.bytes());
    }

    /// A count and as many bytes; those beyond `max` are left out.
    pub fn bytes(&mut self, bytes: &[u8], max: usize) {
        let bytes = &bytes[..bytes.len().min(max)];
        self.u16(bytes.len() as u16);
        self.bytes.extend_from_slice(bytes);
    }

    /// A count and as many slot numbers; those beyond `max` are left out.
    pub fn slots(&mut self, slots: &[u16], max: usize) {
        let slots = &slots[..slots.len().min(max)];
        self.u16(slots.len() as u16);
        for &slot in slots {
            self.u16(slot);
        }
    }
}
