//! REP: accepts a connection.

use converb_wire::{Psn, Qpn};
use zerocopy::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::codes::codes;
use super::field::{U24, bits, place};
use super::{Body, EnhancedConnection, PrivateData};

/// REP (IBA 12.6.8, table 110).
///
/// ```text
///      0  local communication ID
///      4  remote communication ID
///      8  local Q_Key
///     12  local QPN, 24                | ECE vendor, high 8
///     16  local EE context number, 24  | ECE vendor, middle 8
///     20  starting PSN, 24             | ECE vendor, low 8
///     24  responder resources, 8       | initiator depth, 8
///     26  target ACK delay, 5          | failover accepted, 2 | end-to-end flow control, 1
///     27  RNR retry count, 3           | SRQ, 1 | reserved, 4
///     28  local CA GUID, 64
///     36  private data, 196 bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The sender's name for the connection.
    pub local_communication_id: u32,
    /// The receiver's name for it.
    pub remote_communication_id: u32,
    /// What the sender agrees to beyond the specification.
    pub enhanced: EnhancedConnection,
    /// The sender's queue key, for reliable datagrams.
    pub local_qkey: u32,
    /// The sender's queue pair.
    pub local_qpn: Qpn,
    /// The sender's end-to-end context, 24 bits. Of an extended reliable connection this is the
    /// target queue pair.
    pub local_eecn: u32,
    /// The PSN of the sender's first request.
    pub starting_psn: Psn,
    /// How many READs and atomics at a time the sender is able to answer.
    pub responder_resources: u8,
    /// How many READs and atomics at a time the sender will have outstanding.
    pub initiator_depth: u8,
    /// How long the sender's adapter takes to acknowledge: 5 bits, 4.096 us times 2 to the power
    /// of it.
    pub target_ack_delay: u8,
    /// What became of the REQ's alternate path.
    pub failover_accepted: FailoverAccepted,
    /// Whether the sender counts credits.
    pub end_to_end_flow_control: bool,
    /// How often the receiver's queue pair shall retry after an RNR NAK, 3 bits: 7 is for ever.
    pub rnr_retry_count: u8,
    /// Whether the sender's queue pair has a shared receive queue.
    pub srq: bool,
    /// The sender's channel adapter.
    pub local_ca_guid: u64,
    /// The consumer's.
    pub private_data: PrivateData<196>,
}

codes! {
    /// What a REP says to the REQ's alternate path, 2 bits.
    pub struct FailoverAccepted(u8);
    ACCEPTED = 0, "the alternate path is accepted";
    NOT_SUPPORTED = 1, "alternate paths are not supported";
    REJECTED = 2, "the alternate path is rejected";
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    local_communication_id: U32,
    remote_communication_id: U32,
    local_qkey: U32,
    local_qpn: U24,
    enhanced_vendor_high: u8,
    local_eecn: U24,
    enhanced_vendor_middle: u8,
    starting_psn: U24,
    enhanced_vendor_low: u8,
    responder_resources: u8,
    initiator_depth: u8,
    /// Target ACK delay, failover accepted, end-to-end flow control.
    delay_failover_flow: u8,
    /// RNR retry count, whether there is an SRQ.
    retries_srq: u8,
    local_ca_guid: U64,
    private_data: [u8; 196],
}

impl Reply {
    /// The attribute that is a REP.
    pub const ATTRIBUTE: u16 = 0x0013;

    pub(super) fn parse(body: &Body, attribute_modifier: u32) -> Self {
        let wire: &Layout = zerocopy::transmute_ref!(body);
        let vendor_id = u32::from_be_bytes([
            0,
            wire.enhanced_vendor_high,
            wire.enhanced_vendor_middle,
            wire.enhanced_vendor_low,
        ]);
        Self {
            local_communication_id: wire.local_communication_id.get(),
            remote_communication_id: wire.remote_communication_id.get(),
            enhanced: EnhancedConnection { vendor_id, attribute_modifier },
            local_qkey: wire.local_qkey.get(),
            local_qpn: Qpn::new(wire.local_qpn.get()),
            local_eecn: wire.local_eecn.get(),
            starting_psn: Psn::new(wire.starting_psn.get()),
            responder_resources: wire.responder_resources,
            initiator_depth: wire.initiator_depth,
            target_ack_delay: bits(wire.delay_failover_flow, 0, 5),
            failover_accepted: FailoverAccepted(bits(wire.delay_failover_flow, 5, 2)),
            end_to_end_flow_control: bits(wire.delay_failover_flow, 7, 1) != 0,
            rnr_retry_count: bits(wire.retries_srq, 0, 3),
            srq: bits(wire.retries_srq, 3, 1) != 0,
            local_ca_guid: wire.local_ca_guid.get(),
            private_data: wire.private_data.into(),
        }
    }

    /// Values beyond their fields are cut off.
    pub(super) fn emit(&self) -> Body {
        let [_, high, middle, low] = self.enhanced.vendor_id.to_be_bytes();
        zerocopy::transmute!(Layout {
            local_communication_id: U32::new(self.local_communication_id),
            remote_communication_id: U32::new(self.remote_communication_id),
            local_qkey: U32::new(self.local_qkey),
            local_qpn: U24::new(self.local_qpn.value()),
            enhanced_vendor_high: high,
            local_eecn: U24::new(self.local_eecn),
            enhanced_vendor_middle: middle,
            starting_psn: U24::new(self.starting_psn.value()),
            enhanced_vendor_low: low,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            delay_failover_flow: place(self.target_ack_delay, 0, 5)
                | place(self.failover_accepted.0, 5, 2)
                | place(self.end_to_end_flow_control.into(), 7, 1),
            retries_srq: place(self.rnr_retry_count, 0, 3) | place(self.srq.into(), 3, 1),
            local_ca_guid: U64::new(self.local_ca_guid),
            private_data: *self.private_data.as_bytes(),
        })
    }
}
