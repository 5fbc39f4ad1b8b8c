//! The slot table: who owns which slot, in shared memory that outlives the agent.
//!
//! The agent alone writes it. Members get it read-only; a successor gets it from the vault and
//! learns from it which slots belong to processes that are alive but have not come back yet.
//!
//! ```text
//!   0        4         6            8       16     18         24              64
//!   | "CVST" | version | entry size | group | slots | reserved | pid namespace | entries ...
//!
//!   an entry, 32 bytes:
//!   0       4     8            16         20             24
//!   | state | pid | start time | carried for | reserved | generation |
//! ```

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use crate::group::SLOTS_MAX;
use crate::process;

/// The table as its writer sees it.
#[derive(Debug)]
pub struct Table {
    file: File,
    /// The process namespace of the agent that wrote the entries found in it.
    namespace: u64,
}

/// The state of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// Nobody's.
    #[default]
    Nobody,
    /// This process's.
    Process(Incarnation),
    /// This process's, which has no socket: the agent carries its datagrams. It belongs to the
    /// user of this number, if that is known.
    Carried(Incarnation, Option<u32>),
}

/// One process for ever, where a process number alone is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation {
    /// Its number in the agent's process namespace, 0 if it is not visible there.
    pub pid: u32,
    /// When it started, in clock ticks since boot; 0 if that is not known.
    pub start_time: u64,
}

const MAGIC: [u8; 4] = *b"CVST";
const VERSION: u16 = 2;
const HEADER_SIZE: u64 = 64;
const ENTRY_SIZE: u64 = 32;
const SIZE: u64 = HEADER_SIZE + ENTRY_SIZE * (SLOTS_MAX as u64 + 1);

const OWNED: u32 = 1;
const CARRIED: u32 = 2;
const UNKNOWN_USER: u32 = u32::MAX;
/// Where in an entry.
const GENERATION: usize = 24;

impl Table {
    /// An empty table for the group numbered `group`.
    pub fn create(group: u64) -> Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = memfd_create("converb-slots", flags)?;
        ftruncate(&memory, SIZE)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let table = Self { file: File::from(memory), namespace: process::namespace() };
        let mut header = [0; HEADER_SIZE as usize];
        header[0..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&VERSION.to_le_bytes());
        header[6..8].copy_from_slice(&(ENTRY_SIZE as u16).to_le_bytes());
        header[8..16].copy_from_slice(&group.to_le_bytes());
        header[24..32].copy_from_slice(&table.namespace.to_le_bytes());
        table.file.write_all_at(&header, 0)?;
        Ok(table)
    }

    /// The table that a predecessor left.
    pub fn inherit(memory: OwnedFd, group: u64) -> Result<Self> {
        let file = File::from(memory);
        let mut header = [0; HEADER_SIZE as usize];
        file.read_exact_at(&mut header, 0)?;
        let is_ours = header[0..4] == MAGIC
            && header[4..6] == VERSION.to_le_bytes()
            && header[6..8] == (ENTRY_SIZE as u16).to_le_bytes()
            && header[8..16] == group.to_le_bytes();
        if !is_ours || file.metadata()?.len() != SIZE {
            return Err(Error::new(ErrorKind::InvalidData, "not this group's slot table"));
        }
        let namespace = u64::from_le_bytes(*header[24..32].first_chunk().expect("eight bytes"));
        Ok(Self { file, namespace })
    }

    /// Whether the process numbers in the table are those of our own process namespace.
    pub fn is_from_this_namespace(&self) -> bool {
        self.namespace != 0 && self.namespace == process::namespace()
    }

    /// From now on, entries are written in our process namespace.
    pub fn adopt(&mut self) -> Result<()> {
        self.namespace = process::namespace();
        self.file.write_all_at(&self.namespace.to_le_bytes(), 24)
    }

    /// Tells readers how many slots there are.
    pub fn set_total(&self, slots: u16) -> Result<()> {
        self.file.write_all_at(&slots.to_le_bytes(), 16)
    }

    /// Writes who owns `slot`. `generation` is another number for every ownership, whoever the
    /// owner and the agent, for the processes of other namespaces all look the same.
    pub fn set(&self, slot: u16, owner: Owner, generation: u64) -> Result<()> {
        let mut entry = [0; ENTRY_SIZE as usize];
        if let Owner::Process(process) | Owner::Carried(process, _) = owner {
            let (state, user) = match owner {
                Owner::Carried(_, user) => (CARRIED, user.unwrap_or(UNKNOWN_USER)),
                Owner::Process(_) | Owner::Nobody => (OWNED, 0),
            };
            entry[0..4].copy_from_slice(&state.to_le_bytes());
            entry[16..20].copy_from_slice(&user.to_le_bytes());
            entry[4..8].copy_from_slice(&process.pid.to_le_bytes());
            entry[8..16].copy_from_slice(&process.start_time.to_le_bytes());
            entry[GENERATION..].copy_from_slice(&generation.to_le_bytes());
        }
        self.file.write_all_at(&entry, offset(slot))
    }

    /// Reads who owns `slot`.
    pub fn owner(&self, slot: u16) -> Result<Owner> {
        let mut entry = [0; ENTRY_SIZE as usize];
        self.file.read_exact_at(&mut entry, offset(slot))?;
        let word =
            |at: usize| u32::from_le_bytes(*entry[at..].first_chunk().expect("within the entry"));
        let process = Incarnation {
            pid: word(4),
            start_time: u64::from_le_bytes(*entry[8..16].first_chunk().expect("eight bytes")),
        };
        Ok(match word(0) {
            OWNED => Owner::Process(process),
            CARRIED => Owner::Carried(process, Some(word(16)).filter(|&uid| uid != UNKNOWN_USER)),
            _ => Owner::Nobody,
        })
    }

    /// The table for members: a description of its own that cannot write. Without /proc it is the
    /// writable one, which members of the same user could get anyway.
    pub fn read_only(&self) -> Result<OwnedFd> {
        match File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd())) {
            Ok(file) => Ok(file.into()),
            Err(_) => Ok(self.file.try_clone()?.into()),
        }
    }
}

impl AsFd for Table {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The generation of `slot` in a table as members have it; 0 if nobody owns the slot, `None` if
/// the table cannot be read.
pub fn generation(table: BorrowedFd<'_>, slot: u16) -> Option<u64> {
    if slot > SLOTS_MAX {
        return None;
    }
    let mut bytes = [0; 8];
    let length = rustix::io::pread(table, &mut bytes, offset(slot) + GENERATION as u64).ok()?;
    (length == bytes.len()).then_some(u64::from_le_bytes(bytes))
}

fn offset(slot: u16) -> u64 {
    assert!(slot <= SLOTS_MAX, "slots are below 1024");
    HEADER_SIZE + ENTRY_SIZE * u64::from(slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_reads_what_its_predecessor_wrote() {
        let table = Table::create(9).expect("memory");
        let owner = Owner::Process(Incarnation { pid: 4, start_time: 5 });
        table.set(1022, owner, 6).expect("room");
        let carried = Owner::Carried(Incarnation { pid: 6, start_time: 7 }, Some(1000));
        table.set(4, carried, 8).expect("room");
        table.set(3, owner, 7).expect("room");
        assert_eq!(generation(table.as_fd(), 3), Some(7));
        table.set(3, Owner::Nobody, 0).expect("room");
        assert_eq!([3, 1022].map(|slot| generation(table.as_fd(), slot)), [Some(0), Some(6)]);
        let copy = OwnedFd::from(table.file.try_clone().expect("a descriptor"));
        let found = Table::inherit(copy, 9).expect("the same table");
        assert_eq!(found.owner(1022).expect("an entry"), owner);
        assert_eq!(found.owner(4).expect("an entry"), carried);
        assert_eq!(found.owner(3).expect("an entry"), Owner::Nobody);
        assert!(found.is_from_this_namespace());
    }

    #[test]
    fn another_groups_table_is_refused_and_members_cannot_write() {
        let table = Table::create(9).expect("memory");
        let copy = OwnedFd::from(table.file.try_clone().expect("a descriptor"));
        assert!(Table::inherit(copy, 8).is_err());
        let member = File::from(table.read_only().expect("a descriptor"));
        assert!(member.write_all_at(&[1], 0).is_err());
        assert!(member.read_exact_at(&mut [0], 0).is_ok());
    }
}
