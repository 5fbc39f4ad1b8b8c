//! Who the members are, as the agent lists them.

use super::fields::{Malformed, Name, Reader, Writer};
use super::{CARRIES, SLOTS_PER_MEMBER_MAX};

/// Some members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembersReply {
    /// How many there are in all.
    pub total: u16,
    /// Those from the place that was asked for, at most [`MembersReply::ENTRIES_MAX`].
    pub entries: Vec<MemberEntry>,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberEntry {
    /// Its process; 0 if it cannot be seen from the agent's process namespace.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Milliseconds since it joined this agent.
    pub joined_ms: u64,
    /// Its program's name.
    pub program: Name<16>,
    /// Its slots.
    pub slots: Vec<u16>,
    /// Whether it has no sockets, and the agent carries its datagrams.
    pub is_carried: bool,
}

impl MembersReply {
    /// The most members in one reply.
    pub const ENTRIES_MAX: usize = 32;

    pub(super) fn write(&self, writer: &mut Writer) {
        let entries = &self.entries[..self.entries.len().min(Self::ENTRIES_MAX)];
        writer.u16(self.total);
        writer.u16(entries.len() as u16);
        for entry in entries {
            writer.u32(entry.pid);
            writer.u32(entry.uid);
            writer.u64(entry.joined_ms);
            writer.name(&entry.program);
            writer.slots(&entry.slots, SLOTS_PER_MEMBER_MAX);
        }
        let carried = entries.iter().enumerate();
        let carried = carried.map(|(place, entry)| u32::from(entry.is_carried) << place);
        writer.u32(carried.sum());
    }

    pub(super) fn read(reader: &mut Reader<'_>, features: u32) -> Result<Self, Malformed> {
        let total = reader.u16()?;
        let count = reader.count(Self::ENTRIES_MAX)?;
        let entry = |_| {
            Ok(MemberEntry {
                pid: reader.u32()?,
                uid: reader.u32()?,
                joined_ms: reader.u64()?,
                program: reader.name()?,
                slots: reader.slots(SLOTS_PER_MEMBER_MAX)?,
                is_carried: false,
            })
        };
        let mut entries: Vec<MemberEntry> = (0..count).map(entry).collect::<Result<_, _>>()?;
        // An agent of an earlier release carries nothing, and does not say so.
        let carried = if features & CARRIES != 0 { reader.u32()? } else { 0 };
        for (place, entry) in entries.iter_mut().enumerate() {
            entry.is_carried = carried >> place & 1 != 0;
        }
        Ok(Self { total, entries })
    }
}
