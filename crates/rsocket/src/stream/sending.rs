//! Sending data.

use super::posting::{fill, mapping_entry, remote};
use super::{Patience, Phase, Stream};
use crate::flow::Reserved;
use crate::protocol::{MESSAGE_BYTES_MAX, Message};
use converb::work::{Operation, Payload};
use std::io::{self, IoSlice};
use std::sync::PoisonError;

/// The first message of a write is short, so that the peer and the network begin; then they double.
const MESSAGE_FIRST: usize = 16 << 10;
const MESSAGE_LAST: usize = 128 << 10;
const _: () = assert!(MESSAGE_LAST <= MESSAGE_BYTES_MAX as usize);
/// No setting lets more bytes into a work request itself.
const INLINE_MAX: usize = 1024;

impl Stream {
    /// Sends `data`; returns how many bytes were taken, which is all of them with endless patience
    /// unless the stream ends.
    ///
    /// # Errors
    /// `EAGAIN`, `EPIPE` after our own shutdown, `ECONNRESET` after the peer's end, or why it failed.
    pub fn send(&self, data: &[IoSlice<'_>], patience: Patience) -> io::Result<usize> {
        let total: usize = data.iter().map(|slice| slice.len()).sum();
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if total == 0 {
            return Ok(0);
        }
        self.announce_mappings(patience)?;
        let mut cursor = Cursor { data, skip: 0 };
        let (mut done, mut most) = (0, MESSAGE_FIRST);
        while done < total {
            let wanted = most.min(total - done);
            let reserved = self.wait_until(patience, |flow| {
                if !flow.can_write {
                    return Some(Err(flow.why_not_written()));
                }
                if !flow.has_room() {
                    return None;
                }
                let sending = flow.sending()?;
                Some(Ok(sending.reserve(wanted.min(sending.room()))))
            });
            match reserved.and_then(|reserved| self.send_message(&reserved, &mut cursor)) {
                Ok(bytes) => done += bytes,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
            most = (2 * most).min(MESSAGE_LAST);
        }
        Ok(done)
    }

    fn send_message(&self, reserved: &Reserved, cursor: &mut Cursor<'_>) -> io::Result<usize> {
        let bytes = reserved.to.length;
        let message = Message::Data(bytes).to_immediate();
        let operation = Operation::WriteWithImmediate(remote(&reserved.to), message);
        self.put(operation, &reserved.from, bytes as usize, cursor)?;
        Ok(bytes as usize)
    }

    /// Posts bytes, which lie in the work request or in the send buffer.
    pub(super) fn put(
        &self,
        operation: Operation,
        from: &crate::flow::Pieces,
        bytes: usize,
        cursor: &mut Cursor<'_>,
    ) -> io::Result<()> {
        if bytes <= self.settings.inline_bytes.min(INLINE_MAX) {
            let mut inline = [0; INLINE_MAX];
            let mut at = 0;
            cursor.take(bytes, &mut |part| {
                inline[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            });
            return self.post_data(operation, from, Some(&inline[..bytes]));
        }
        fill(&self.send_buffer, from, |length, put| cursor.take(length, put));
        self.post_data(operation, from, None)
    }

    /// Tells the peer of the mappings that it has not been told of.
    fn announce_mappings(&self, patience: Patience) -> io::Result<()> {
        while self.lock().mappings.has_news() {
            let (to, message, entry) = self.wait_until(patience, |flow| {
                if !flow.can_write {
                    return Some(Err(flow.why_not_written()));
                }
                if flow.phase != Phase::Open || !flow.sending()?.reserve_message() {
                    return None;
                }
                let (greeting, _) = flow.peer.as_ref()?;
                let (index, mapping) = flow.mappings.take_news()?;
                let to = mapping_entry(greeting, index);
                let entry = mapping.to_bytes(greeting.order);
                Some(Ok((to, Message::Mapping(index).to_immediate(), entry)))
            })?;
            let operation = Operation::WriteWithImmediate(to, message);
            let work = super::posting::Work::Data(0);
            self.post(work, operation, Payload::Inline(&[&entry]))?;
        }
        Ok(())
    }
}

/// Bytes in several pieces, in order.
pub(super) struct Cursor<'a> {
    pub(super) data: &'a [IoSlice<'a>],
    /// How many of the first piece are gone.
    pub(super) skip: usize,
}

impl Cursor<'_> {
    /// Gives the next `length` bytes to `put`.
    fn take(&mut self, length: usize, put: &mut dyn FnMut(&[u8])) {
        let mut left = length;
        while left > 0 {
            let (first, rest) = self.data.split_first().expect("as many bytes are there");
            let part = &first[self.skip..];
            let part = &part[..left.min(part.len())];
            put(part);
            left -= part.len();
            self.skip += part.len();
            if self.skip == first.len() {
                (self.data, self.skip) = (rest, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_across_pieces() {
        let data = [IoSlice::new(b""), IoSlice::new(b"abc"), IoSlice::new(b"defgh")];
        let mut cursor = Cursor { data: &data, skip: 0 };
        let mut seen = Vec::new();
        for length in [2, 0, 3, 3] {
            let mut part = Vec::new();
            cursor.take(length, &mut |bytes| part.extend_from_slice(bytes));
            seen.push(String::from_utf8(part).unwrap());
        }
        assert_eq!(seen, ["ab", "", "cde", "fgh"]);
    }
}
