//! What is written down of a port's packets.

use super::flow::Flow;
use crate::capture::{Capture, Direction, Record};
use crate::counters::Counters;
use crate::kept::Kept;
use crate::socket::USUAL_HOP_LIMIT;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

/// Writes down packets, if the port has a capture file.
#[derive(Clone)]
pub(crate) struct Recorder {
    capture: Option<Arc<Capture>>,
    counters: Arc<Counters>,
}

/// What a packet's IP header said besides its addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) direction: Direction,
    pub(crate) traffic_class: u8,
    /// 0: not known.
    pub(crate) hop_limit: u8,
    pub(crate) identification: u16,
}

impl Recorder {
    pub(crate) const fn new(capture: Option<Arc<Capture>>, counters: Arc<Counters>) -> Self {
        Self { capture, counters }
    }

    /// Whether anything is written down.
    pub(crate) const fn is_on(&self) -> bool {
        self.capture.is_some()
    }

    /// Writes down a packet, BTH to invariant CRC, with what is to be said of it.
    #[inline]
    pub(crate) fn record(
        &self,
        flow: &Flow,
        seen: Seen,
        payload: &[u8],
        comment: Option<&'static str>,
    ) {
        if let Some(capture) = &self.capture {
            let hop_limit = if seen.hop_limit == 0 { USUAL_HOP_LIMIT } else { seen.hop_limit };
            let mut headers = [0; Flow::HEADERS_MAX];
            let bytes = flow.headers(
                seen.identification,
                seen.traffic_class,
                hop_limit,
                payload,
                &mut headers,
            );
            capture.add(&Record {
                time: now(),
                direction: seen.direction,
                headers: &headers[..bytes],
                payload,
                comment,
            });
            self.counters.captured_packets.add(1);
        }
    }

    /// Hands what was recorded to the file.
    #[inline]
    pub(crate) fn flush(&self) {
        if let Some(capture) = &self.capture
            && !capture.flush()
        {
            self.counters.capture_failed.add(1);
        }
    }

    /// The file, if there is one.
    pub(crate) fn descriptor(&self) -> Option<&Kept> {
        Some(self.capture.as_ref()?.descriptor())
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000) + now.tv_nsec.cast_unsigned()
}
