//! Receiving data.

use super::{Patience, Stream};
use crate::error::errno;
use crate::flow::Pieces;
use std::io::{self, IoSliceMut};
use std::sync::PoisonError;

/// How a program wants to receive.
#[derive(Clone, Copy, Debug)]
pub struct HowToReceive {
    /// How long it waits for the first byte.
    pub patience: Patience,
    /// Whether the bytes stay (`MSG_PEEK`).
    pub peek: bool,
    /// Whether it waits until there are as many as there is room (`MSG_WAITALL`).
    pub all: bool,
}

impl Stream {
    /// Receives up to as many bytes as there is room; returns how many, 0 at the stream's end.
    ///
    /// # Errors
    /// `EAGAIN`, or why the stream failed.
    pub fn receive(&self, into: &mut [IoSliceMut<'_>], how: HowToReceive) -> io::Result<usize> {
        let total: usize = into.iter().map(|slice| slice.len()).sum();
        let _turn = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < total {
            let found = self.wait_until(how.patience, |flow| {
                if flow.receiving.unread() > 0 {
                    return Some(Ok(Some(flow.receiving.oldest(total - done))));
                }
                if flow.can_read {
                    return None;
                }
                Some(flow.error.take().map_or(Ok(None), |code| Err(errno(code))))
            });
            match found {
                Ok(Some(pieces)) => {
                    let bytes = self.take(&pieces, into, done);
                    done += bytes;
                    if how.peek {
                        break;
                    }
                    let mut flow = self.lock();
                    flow.receiving.consume(bytes);
                    if flow.phase == super::Phase::Open {
                        self.tell(&mut flow);
                    }
                }
                Ok(None) => break,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
            if !how.all && !self.has_more() {
                break;
            }
        }
        Ok(done)
    }

    fn has_more(&self) -> bool {
        self.lock().receiving.unread() > 0
    }

    /// Copies pieces of the receive buffer behind the first `skip` bytes of the program's room.
    fn take(&self, pieces: &Pieces, into: &mut [IoSliceMut<'_>], skip: usize) -> usize {
        let mut skip = skip;
        let mut places = into.iter_mut().filter_map(|slice| {
            let gone = skip.min(slice.len());
            skip -= gone;
            let place = &mut slice[gone..];
            (!place.is_empty()).then_some(place)
        });
        let mut place: &mut [u8] = &mut [];
        let mut bytes = 0;
        for piece in pieces {
            let mut at = piece.start;
            while at < piece.end {
                if place.is_empty() {
                    let Some(next) = places.next() else { return bytes };
                    place = next;
                }
                let length = place.len().min(piece.end - at);
                let (part, rest) = place.split_at_mut(length);
                self.receive_buffer.read(at, part);
                place = rest;
                at += length;
                bytes += length;
            }
        }
        bytes
    }
}
