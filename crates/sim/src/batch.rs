//! Packets on their way out of a node and into one.

use crate::addresses::number_of;
use crate::network::Frame;
use converb_engine::{AddressVector, PacketSink};
use converb_wire::Qpn;
use std::collections::VecDeque;

/// A batch of packets that goes out.
#[derive(Debug)]
pub struct Outgoing {
    pub(crate) source: u16,
    pub(crate) frames: VecDeque<Frame>,
    packets_max: usize,
}

impl Outgoing {
    pub(crate) fn new(source: u16, packets_max: usize) -> Self {
        Self { source, frames: VecDeque::new(), packets_max }
    }
}

impl PacketSink for Outgoing {
    fn begin(&mut self, path: &AddressVector, _: Qpn, length: usize) -> Option<&mut [u8]> {
        if self.frames.len() >= self.packets_max {
            return None;
        }
        // Not zeros: whoever leaves bytes unwritten is found by the peer.
        let bytes = vec![0xee; length];
        self.frames.push_back(Frame {
            source: self.source,
            destination: number_of(path.remote),
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            bytes,
            checksum: 0,
        });
        self.frames.back_mut().map(|frame| frame.bytes.as_mut_slice())
    }

    fn finish(&mut self) {
        if let Some(frame) = self.frames.back_mut() {
            frame.seal();
        }
    }

    fn abandon(&mut self) {
        self.frames.pop_back();
    }
}

/// A batch of packets that came in.
#[derive(Debug, Default)]
pub struct Incoming {
    pub(crate) frames: VecDeque<Frame>,
    pub(crate) current: Option<Frame>,
}
