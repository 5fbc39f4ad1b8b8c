//! What may be sent.

use super::{CONTROL_REQUESTS, Pieces, pieces};
use crate::protocol::Span;
use std::collections::VecDeque;

/// With less room than this in a send buffer nothing is sent, but for the last of it: many small
/// messages would take the credits of few large ones.
const ROOM_MIN: usize = 2048;

/// What may be sent, and what is on its way.
#[derive(Debug)]
pub struct Sending {
    /// The send buffer: its size, what is free, and where that begins.
    size: usize,
    free: usize,
    position: usize,
    /// Work requests that may be posted.
    requests: u32,
    control: u32,
    /// All of them that are on their way.
    under_way: u32,
    /// How many messages with data were sent, and up to which number they may be.
    sent: u16,
    limit: u16,
    /// What is left of the buffers that the peer has named.
    buffers: VecDeque<Span>,
}

/// Room for a message with data, which is on its way from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Where it goes to.
    pub to: Span,
    /// Where it lies in the send buffer.
    pub from: Pieces,
}

impl Sending {
    /// With a send buffer of `size` bytes and `requests` work requests, to a peer that grants
    /// `credits` and has named one buffer.
    pub fn new(size: usize, requests: u32, credits: u16, first: Span) -> Self {
        let mut sending = Self {
            size,
            free: size,
            position: 0,
            requests,
            control: CONTROL_REQUESTS,
            under_way: 0,
            sent: 0,
            limit: credits,
            buffers: VecDeque::new(),
        };
        sending.offer(first);
        sending
    }

    /// The peer has named another buffer.
    pub fn offer(&mut self, buffer: Span) {
        if buffer.length > 0 {
            self.buffers.push_back(buffer);
        }
    }

    /// The peer lets messages be sent up to a number.
    pub fn grant(&mut self, limit: u16) {
        self.limit = limit;
    }

    /// Whether there are a work request and a credit.
    fn has_turn(&self) -> bool {
        self.requests > 0 && self.sent != self.limit
    }

    /// How many bytes the next message may have; 0 while none may be sent.
    pub fn room(&self) -> usize {
        let Some(buffer) = self.buffers.front().filter(|_| self.has_turn()) else { return 0 };
        if self.free < ROOM_MIN.min(self.size) { 0 } else { self.free.min(buffer.length as usize) }
    }

    /// Takes room for a message. Those of a stream are posted in the order of their reservations.
    ///
    /// # Panics
    /// For no bytes, or more than there is [`room`](Self::room) for.
    pub fn reserve(&mut self, bytes: usize) -> Reserved {
        assert!(bytes > 0 && bytes <= self.room(), "a message has room");
        let from = self.take(bytes);
        self.sent = self.sent.wrapping_add(1);
        let buffer = self.buffers.front_mut().expect("room is in a buffer");
        let to = Span { length: bytes as u32, ..*buffer };
        buffer.address = buffer.address.wrapping_add(bytes as u64);
        buffer.length -= bytes as u32;
        if buffer.length == 0 {
            self.buffers.pop_front();
        }
        Reserved { to, from }
    }

    /// How many bytes may be sent without a message, to a place that the program names.
    pub fn direct_room(&self) -> usize {
        if self.requests > 0 && self.free >= ROOM_MIN.min(self.size) { self.free } else { 0 }
    }

    /// Takes room for that.
    ///
    /// # Panics
    /// For no bytes, or more than there is [`direct_room`](Self::direct_room) for.
    pub fn reserve_direct(&mut self, bytes: usize) -> Pieces {
        assert!(bytes > 0 && bytes <= self.direct_room(), "bytes have room");
        self.take(bytes)
    }

    fn take(&mut self, bytes: usize) -> Pieces {
        let from = pieces(self.position, bytes, self.size);
        self.position = (self.position + bytes) % self.size;
        self.free -= bytes;
        self.requests -= 1;
        self.under_way += 1;
        from
    }

    /// Takes a work request and a credit for a message that brings its own bytes; whether there were.
    pub fn reserve_message(&mut self) -> bool {
        if !self.has_turn() {
            return false;
        }
        self.sent = self.sent.wrapping_add(1);
        self.requests -= 1;
        self.under_way += 1;
        true
    }

    /// A message with so many bytes of the send buffer has arrived, the oldest one.
    pub fn complete(&mut self, bytes: usize) {
        self.free = (self.free + bytes).min(self.size);
        self.requests += 1;
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Whether a message about the stream itself may be sent.
    pub fn has_control(&self) -> bool {
        self.control > 0
    }

    /// Takes a work request for it; whether there was one.
    pub fn reserve_control(&mut self) -> bool {
        if self.control == 0 {
            return false;
        }
        self.control -= 1;
        self.under_way += 1;
        true
    }

    /// A message about the stream itself has arrived.
    pub fn complete_control(&mut self) {
        self.control += 1;
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Whether all that was sent has arrived.
    pub fn is_done(&self) -> bool {
        self.under_way == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Span = Span { address: 0x1000, key: 7, length: 10_000 };

    #[test]
    fn data_goes_through_a_buffer_before_the_next_one() {
        let mut sending = Sending::new(100_000, 10, 10, FIRST);
        sending.offer(Span { address: 0x8000, key: 7, length: 500 });
        assert_eq!(sending.room(), 10_000);
        let all_but_one = sending.reserve(9_999);
        assert_eq!(all_but_one.to, Span { length: 9_999, ..FIRST });
        assert_eq!(all_but_one.from, [0..9_999, 0..0]);
        assert_eq!(sending.room(), 1);
        assert_eq!(sending.reserve(1).to, Span { address: 0x1000 + 9_999, key: 7, length: 1 });
        assert_eq!(sending.room(), 500);
        assert_eq!(sending.reserve(500).to.address, 0x8000);
        assert_eq!(sending.room(), 0, "no buffer is left");
    }

    #[test]
    fn the_send_buffer_is_a_ring() {
        let mut sending = Sending::new(4096, 10, 10, FIRST);
        sending.reserve(3000);
        assert_eq!(sending.room(), 0, "too little for another message");
        sending.complete(3000);
        assert_eq!(sending.reserve(2000).from, [3000..4096, 0..904]);
        assert!(!sending.is_done());
        sending.complete(2000);
        assert!(sending.is_done());
    }

    #[test]
    fn nothing_is_sent_without_a_credit_and_the_count_wraps() {
        let mut sending = Sending::new(4096, 10, 2, Span { length: u32::MAX, ..FIRST });
        for _ in 0..2 {
            sending.reserve(1);
            sending.complete(1);
        }
        assert_eq!(sending.room(), 0);
        assert!(!sending.reserve_message());
        for limit in (4..=70_000u32).step_by(2) {
            sending.grant(limit as u16);
            assert!(sending.reserve_message());
            sending.complete(0);
            sending.reserve(1);
            sending.complete(1);
            assert_eq!(sending.room(), 0);
        }
        assert_eq!(sending.direct_room(), 4096, "which takes no credit");
    }

    #[test]
    fn some_work_requests_are_only_for_control() {
        let mut sending = Sending::new(8192, 1, 10, FIRST);
        sending.reserve(1);
        assert_eq!(sending.room(), 0);
        for _ in 0..CONTROL_REQUESTS {
            assert!(sending.reserve_control());
        }
        assert!(!sending.reserve_control());
        sending.complete_control();
        assert!(sending.has_control());
    }
}
