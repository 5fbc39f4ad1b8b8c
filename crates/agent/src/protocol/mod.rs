//! The messages between the agent and its clients, over a SOCK_SEQPACKET unix socket.
//!
//! ```text
//!   client                                     agent
//!     | Hello (+ counter page, ring)  ------->   |   new member, old member, or observer
//!     | <---- Welcome (+ vault, slot table)      |   or Refused
//!     | <---- Slots (+ descriptors), repeated    |
//!     |  or, for another user than the agent's:  |
//!     | <---- CarriedWelcome                     |
//!     | <---- Slots (+ ends of pairs), repeated  |
//!     |  ...                                     |
//!     | RingQuery  --------------------------->  |   members
//!     | <---- Ring (+ memory, bell)              |
//!     | Leave  ------------------------------->  |   members; a hang-up counts after a second
//!     | Serve, ServeNoMore  ------------------>  |   members
//!     | <---- Served                             |   after Serve
//!     | <---- Management                         |   what came to queue pair 1 for it
//!     | <---- Letter (+ descriptors)             |
//!     | StatusQuery, MembersQuery,               |
//!     | CountersQuery, FailuresQuery, Stop,      |
//!     | Letter (+ descriptors), TakeOver  ---->  |   observers
//!     | <---- the answer                         |
//! ```
//!
//! Each message is one packet: a header, then little-endian fields. Containers mix versions of
//! this program in one network namespace, so the first message carries a version, which must be
//! equal, and a word of features, of which both sides use what both have. Fields are only ever
//! appended, and a reader ignores bytes that follow the fields it knows.

mod failures;
mod fields;
mod members;
mod reply;
mod request;
mod services;

pub use failures::{FailureEntry, FailuresReply};
pub use fields::{Malformed, Name};
pub use members::{MemberEntry, MembersReply};
pub use reply::{CarriedWelcome, DeviceReply, Refusal, Reply, Slots, StatusReply, Welcome};
pub use request::{Hello, Request, Role};
pub use services::{ManagementDatagram, Served};

use fields::{Reader, Writer};

/// The protocol's version: both sides must have the same.
pub const VERSION: u16 = 1;

/// What this side can do beyond the version's base; bits are assigned as they are needed.
pub const FEATURES: u32 = CARRIES;

/// Knows members whose datagrams the agent carries.
const CARRIES: u32 = 1;

/// The longest message in bytes, which every receive buffer holds.
pub const MESSAGE_MAX: usize = 8192;

/// The most descriptors in one message: many in flight at once disturb other programs of the
/// user, for the kernel counts them together.
pub const DESCRIPTORS_MAX: usize = 16;

/// The longest letter from one member to another.
pub const LETTER_BYTES_MAX: usize = 64;

/// The most slots that one member may own.
pub const SLOTS_PER_MEMBER_MAX: usize = 64;

const MAGIC: u32 = u32::from_le_bytes(*b"CVAG");

/// What every message begins with.
///
/// ```text
///   0        4         6      8          12
///   | magic  | version | kind | features |  fields of the kind ...
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender's protocol version.
    pub version: u16,
    /// Which message follows.
    pub kind: u16,
    /// The sender's features.
    pub features: u32,
}

impl Header {
    fn new(kind: u16) -> Self {
        Self { version: VERSION, kind, features: FEATURES }
    }

    /// The header at the start of `message`, whatever its version, so that a mismatch can be told
    /// from noise.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        Self::read(&mut Reader::new(message))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        if reader.u32()? != MAGIC {
            return Err(Malformed);
        }
        Ok(Self { version: reader.u16()?, kind: reader.u16()?, features: reader.u32()? })
    }

    fn write(self, writer: &mut Writer) {
        writer.u32(MAGIC);
        writer.u16(self.version);
        writer.u16(self.kind);
        writer.u32(self.features);
    }
}

#[cfg(test)]
mod tests;
