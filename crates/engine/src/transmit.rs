//! Where the engine puts the packets that it wants sent.

use crate::address::AddressVector;
use converb_wire::Qpn;

/// A batch of packets under construction. The engine writes the transport packet (BTH to pad);
/// what comes before and after it on the wire (IP, UDP, the invariant CRC) is the link's.
///
/// Call [`begin`](Self::begin), write all of the bytes, then [`finish`](Self::finish).
pub trait PacketSink {
    /// Room for a packet of exactly `length` bytes to queue pair `destination` behind `path`.
    /// `None`: the batch takes no more packets (or none to that place); nothing was begun, send
    /// the batch and try again. An empty batch always takes a packet.
    fn begin(&mut self, path: &AddressVector, destination: Qpn, length: usize)
    -> Option<&mut [u8]>;

    /// The packet begun last is complete: seal it.
    fn finish(&mut self);

    /// The packet begun last is not to be sent: its payload could not be read.
    fn abandon(&mut self);
}
