//! MRA: "I have your message, wait".

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::codes::codes;
use super::field::{bits, place};
use super::{Body, PrivateData};

/// MRA, message receipt acknowledgment (IBA 12.6.6, table 107).
///
/// ```text
///      0  local communication ID
///      4  remote communication ID
///      8  message MRAed, 2 bits | reserved, 6 | service timeout, 5 | reserved, 3
///     10  private data, 222 bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiptAcknowledgment {
    /// The sender's name for the connection.
    pub local_communication_id: u32,
    /// The receiver's name for it.
    pub remote_communication_id: u32,
    /// Which message has come.
    pub message_mraed: MessageMraed,
    /// How long the answer may take: 5 bits, 4.096 us times 2 to the power of it.
    pub service_timeout: u8,
    /// The consumer's.
    pub private_data: PrivateData<222>,
}

codes! {
    /// Which message an MRA acknowledges, 2 bits.
    pub struct MessageMraed(u8);
    REQUEST = 0, "REQ";
    REPLY = 1, "REP";
    LOAD_ALTERNATE_PATH = 2, "LAP";
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    local_communication_id: U32,
    remote_communication_id: U32,
    message_mraed: u8,
    service_timeout: u8,
    private_data: [u8; 222],
}

impl ReceiptAcknowledgment {
    /// The attribute that is an MRA.
    pub const ATTRIBUTE: u16 = 0x0011;

    pub(super) fn parse(body: &Body) -> Self {
        let wire: &Layout = zerocopy::transmute_ref!(body);
        Self {
            local_communication_id: wire.local_communication_id.get(),
            remote_communication_id: wire.remote_communication_id.get(),
            message_mraed: MessageMraed(bits(wire.message_mraed, 0, 2)),
            service_timeout: bits(wire.service_timeout, 0, 5),
            private_data: wire.private_data.into(),
        }
    }

    /// Values beyond their fields are cut off.
    pub(super) fn emit(&self) -> Body {
        zerocopy::transmute!(Layout {
            local_communication_id: U32::new(self.local_communication_id),
            remote_communication_id: U32::new(self.remote_communication_id),
            message_mraed: place(self.message_mraed.0, 0, 2),
            service_timeout: place(self.service_timeout, 0, 5),
            private_data: *self.private_data.as_bytes(),
        })
    }
}
