//! Work requests of a stream, and the numbers by which their completions are known.

use super::{Flow, Stream};
use crate::error::of;
use crate::flow::Pieces;
use crate::protocol::{Control, Greeting, Message, Span};
use converb::work::{Operation, Payload, ReceiveRequest, RemoteAddress, SendFlags, SendRequest};
use converb::{MemoryRegion, Rkey};
use std::io;

/// What a completed work request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A receive.
    Receive,
    /// Data, with so many bytes in the send buffer.
    Data(u32),
    /// Something about the stream itself.
    Control,
}

const KIND_SHIFT: u32 = 32;
const DATA: u64 = 1;
const CONTROL: u64 = 2;

impl Work {
    const fn number(self) -> u64 {
        match self {
            Self::Receive => 0,
            Self::Data(bytes) => DATA << KIND_SHIFT | bytes as u64,
            Self::Control => CONTROL << KIND_SHIFT,
        }
    }

    pub(super) const fn of(number: u64) -> Self {
        match number >> KIND_SHIFT {
            DATA => Self::Data(number as u32),
            CONTROL => Self::Control,
            _ => Self::Receive,
        }
    }
}

impl Stream {
    /// Posts a work request whose completion is wanted.
    pub(super) fn post(
        &self,
        work: Work,
        operation: Operation,
        payload: Payload<'_>,
    ) -> io::Result<()> {
        let request = SendRequest {
            wr_id: work.number(),
            operation,
            flags: SendFlags { signaled: true, ..SendFlags::default() },
            payload,
            destination: None,
        };
        self.queue_pair.post_send(&[request]).map_err(|(_, error)| of(error))
    }

    /// Posts a work request whose bytes are in the send buffer, or in `inline` where they fit.
    pub(super) fn post_data(
        &self,
        operation: Operation,
        from: &Pieces,
        inline: Option<&[u8]>,
    ) -> io::Result<()> {
        let bytes = from[0].len() + from[1].len();
        let work = Work::Data(bytes as u32);
        if let Some(inline) = inline {
            return self.post(work, operation, Payload::Inline(&[inline]));
        }
        let parts = from.clone().map(|piece| self.send_buffer.part(piece));
        let used = if from[1].is_empty() { 1 } else { 2 };
        self.post(work, operation, Payload::Gather(&parts[..used]))
    }

    /// Says something about the stream itself; whoever calls has reserved a work request.
    pub(super) fn post_control(&self, control: Control) -> io::Result<()> {
        let message = Message::Control(control).to_immediate();
        let nowhere = Operation::WriteWithImmediate(RemoteAddress::default(), message);
        self.post(Work::Control, nowhere, Payload::Inline(&[]))
    }

    /// Posts the receives that are missing.
    pub(super) fn post_receives(&self, flow: &mut Flow) -> io::Result<()> {
        while flow.owed_receives > 0 {
            let receive = ReceiveRequest { wr_id: Work::Receive.number(), scatter: &[] };
            let all = [receive; super::making::RECEIVES_TOGETHER];
            let count = flow.owed_receives.min(all.len());
            self.queue_pair.post_receive(&all[..count]).map_err(|(_, error)| of(error))?;
            flow.owed_receives -= count;
        }
        Ok(())
    }

    /// Tells the peer of credits and of a half of the receive buffer that is free, if it is time.
    pub(super) fn tell(&self, flow: &mut Flow) {
        while let Some((greeting, sending)) = &mut flow.peer {
            if !sending.has_control() {
                return;
            }
            let Some(grant) = flow.receiving.grant() else { return };
            sending.reserve_control();
            let half = grant.half.map(|half| {
                let to = RemoteAddress {
                    address: greeting.buffer_entry(flow.next_told),
                    rkey: Rkey(greeting.buffers.key),
                };
                flow.next_told = (flow.next_told + 1) % greeting.buffers.length;
                (to, self.received(half).to_bytes(greeting.order))
            });
            let message = Message::Credits(grant.limit).to_immediate();
            let posted = match &half {
                Some((to, entry)) => self.post(
                    Work::Control,
                    Operation::WriteWithImmediate(*to, message),
                    Payload::Inline(&[entry]),
                ),
                None => self.post(
                    Work::Control,
                    Operation::WriteWithImmediate(RemoteAddress::default(), message),
                    Payload::Inline(&[]),
                ),
            };
            if posted.is_err() {
                flow.fail(libc::EIO);
                return;
            }
        }
    }
}

/// The place of a span in the peer's memory.
pub(super) fn remote(span: &Span) -> RemoteAddress {
    RemoteAddress { address: span.address, rkey: Rkey(span.key) }
}

/// The place of an entry of the peer's table of mappings.
pub(super) fn mapping_entry(greeting: &Greeting, index: u32) -> RemoteAddress {
    RemoteAddress { address: greeting.mapping_entry(index), rkey: Rkey(greeting.buffers.key) }
}

/// Copies what `cursor` yields into two pieces of a region.
pub(super) fn fill(
    region: &MemoryRegion,
    pieces: &Pieces,
    mut next: impl FnMut(usize, &mut dyn FnMut(&[u8])),
) {
    for piece in pieces {
        let mut at = piece.start;
        next(piece.len(), &mut |bytes| {
            region.write(at, bytes);
            at += bytes.len();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_say_what_they_were() {
        for work in [Work::Receive, Work::Data(0), Work::Data(u32::MAX), Work::Control] {
            assert_eq!(Work::of(work.number()), work);
        }
    }
}
