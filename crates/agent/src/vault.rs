//! The vault: every slot's descriptor, parked in flight, so that no slot closes with its owner.
//!
//! When a slot's last descriptor is closed, the kernel moves the group's last socket into its
//! place, and packets reach strangers from then on. So the agent sends all descriptors into one
//! end of a pair of stream sockets and never takes them out. Every member holds the other end:
//! while one of them lives, so does the queue, and with it every slot, agent or not.
//!
//! ```text
//!   queue:  | root: sending end, table, totals | slots 0-15 | slots 16-31 | ...
//! ```
//!
//! A record is [`RECORD_SIZE`] bytes with at most 16 descriptors. Whoever needs a descriptor
//! copies it: a peek at the record's offset leaves the queue as it is, where a plain receive
//! would lose what the receiver has no room for. The queue also holds its own sending end, so
//! that a successor, which gets only the receiving end, can add records.
//!
//! Descriptors in flight count per user, in all namespaces together, against the *sender's* limit
//! of open files. Many of them here would make other programs of the user fail to pass theirs, so
//! parking keeps below the limit that most programs have.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};

use crate::group::{SLOTS_MAX, SLOTS_STEP};
use crate::limit;
use crate::option::set_peek_offset;
use crate::transfer;

/// Both ends of the queue.
#[derive(Debug)]
pub struct Vault {
    sending: OwnedFd,
    receiving: OwnedFd,
    group: u64,
    records: usize,
}

/// What a successor finds beside the slots.
#[derive(Debug)]
pub struct Inheritance {
    /// The vault.
    pub vault: Vault,
    /// The slot table's memory, writable.
    pub table: OwnedFd,
    /// The memory of the counters of members that are gone.
    pub totals: OwnedFd,
    /// How many slots are parked.
    pub slots: u16,
}

impl Vault {
    /// A vault with nothing but its root record.
    pub fn create(
        group: u64,
        table: BorrowedFd<'_>,
        totals: BorrowedFd<'_>,
    ) -> Result<Self, Errno> {
        let (sending, receiving) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let mut vault = Self { sending, receiving, group, records: 0 };
        let root = Record { kind: Kind::Root, first: 0, count: 3, group };
        limit::while_parking(|| {
            transfer::send(&vault.sending, &root.emit(), &[vault.sending.as_fd(), table, totals])
        })?;
        vault.records = 1;
        Ok(vault)
    }

    /// Parks the descriptors of the next slots, whose first number is `first`, a multiple of 16;
    /// the caller may close its own. `Errno::TOOMANYREFS` says that the user has too many
    /// descriptors in flight; nothing is parked then.
    pub fn park(&mut self, first: u16, sockets: &[OwnedFd]) -> Result<(), Errno> {
        assert_eq!(usize::from(first / SLOTS_STEP), self.records - 1, "parked in order");
        let count = sockets.len() as u16;
        let record = Record { kind: Kind::Slots, first, count, group: self.group };
        let descriptors: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        limit::while_parking(|| transfer::send(&self.sending, &record.emit(), &descriptors))?;
        self.records += 1;
        Ok(())
    }

    /// A copy of slot `slot`'s descriptor.
    pub fn copy(&self, slot: u16) -> Result<OwnedFd, Errno> {
        let (record, mut descriptors) =
            peek(self.receiving.as_fd(), 1 + usize::from(slot / SLOTS_STEP))?;
        let place = usize::from(slot % SLOTS_STEP);
        if record.kind != Kind::Slots || place >= descriptors.len() {
            return Err(Errno::BADMSG);
        }
        Ok(descriptors.swap_remove(place))
    }

    /// The end that members hold.
    pub fn receiving(&self) -> BorrowedFd<'_> {
        self.receiving.as_fd()
    }

    /// The group's number.
    pub fn group(&self) -> u64 {
        self.group
    }

    /// Opens the vault whose receiving end a member kept, after its agent died.
    pub fn inherit(receiving: OwnedFd) -> Result<Inheritance, Errno> {
        let (root, descriptors) = peek(receiving.as_fd(), 0)?;
        let [sending, table, totals] =
            <[OwnedFd; 3]>::try_from(descriptors).map_err(|_| Errno::BADMSG)?;
        if root.kind != Kind::Root {
            return Err(Errno::BADMSG);
        }
        let mut slots = 0;
        let mut records = 1;
        loop {
            let (record, descriptors) = match peek(receiving.as_fd(), records) {
                Ok(found) => found,
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error),
            };
            let in_order = record.first == slots && usize::from(record.count) == descriptors.len();
            if record.kind != Kind::Slots || record.group != root.group || !in_order {
                return Err(Errno::BADMSG);
            }
            slots += record.count;
            records += 1;
        }
        if slots == 0 || slots > SLOTS_MAX {
            return Err(Errno::BADMSG);
        }
        let vault = Self { sending, receiving, group: root.group, records };
        Ok(Inheritance { vault, table, totals, slots })
    }
}

/// The record at `place` in the queue, and copies of its descriptors. `Errno::AGAIN`: there is
/// none.
fn peek(receiving: BorrowedFd<'_>, place: usize) -> Result<(Record, Vec<OwnedFd>), Errno> {
    // The offset belongs to the socket, which members share; but only an agent peeks, and there
    // is one agent at a time.
    set_peek_offset(receiving, place * RECORD_SIZE)?;
    let mut bytes = [0; RECORD_SIZE];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let received = transfer::receive_with(receiving, &mut bytes, flags)?;
    if received.length == 0 {
        // The sending end is closed: impossible, for the root record holds it.
        return Err(Errno::AGAIN);
    }
    if received.truncated || received.length != RECORD_SIZE {
        return Err(Errno::MFILE);
    }
    let record = Record::parse(&bytes).ok_or(Errno::BADMSG)?;
    Ok((record, received.descriptors))
}

/// What the bytes of a record say.
///
/// ```text
///   0        4         6      8       10      12         16      24       32
///   | "CVVA" | version | kind | first | count | reserved | group | reserved |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    kind: Kind,
    first: u16,
    count: u16,
    group: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Root,
    Slots,
}

const RECORD_SIZE: usize = 32;
const MAGIC: [u8; 4] = *b"CVVA";
const VERSION: u16 = 1;

impl Record {
    fn emit(self) -> [u8; RECORD_SIZE] {
        let kind: u16 = match self.kind {
            Kind::Root => 0,
            Kind::Slots => 1,
        };
        let mut bytes = [0; RECORD_SIZE];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&kind.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.first.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.group.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8; RECORD_SIZE]) -> Option<Self> {
        let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        if bytes[0..4] != MAGIC || word(4) != VERSION {
            return None;
        }
        let kind = match word(6) {
            0 => Kind::Root,
            1 => Kind::Slots,
            _ => return None,
        };
        let group = u64::from_le_bytes(bytes[16..24].try_into().ok()?);
        Some(Self { kind, first: word(8), count: word(10), group })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, fstat, memfd_create};

    fn memory() -> OwnedFd {
        memfd_create("converb-test", MemfdFlags::CLOEXEC).expect("memory")
    }

    fn inode(descriptor: impl AsFd) -> u64 {
        fstat(descriptor).expect("an open descriptor").st_ino
    }

    /// The whole purpose: everything closed but one receiving end, and all comes back in order.
    #[test]
    fn a_successor_gets_everything_in_order_twice() {
        let (table, totals) = (memory(), memory());
        let mut vault = Vault::create(7, table.as_fd(), totals.as_fd()).expect("a vault");
        let mut inodes = Vec::new();
        for batch in 0..4 {
            let count = if batch == 3 { 15 } else { 16 };
            let sockets: Vec<_> = (0..count).map(|_| memory()).collect();
            inodes.extend(sockets.iter().map(inode));
            vault.park(batch * SLOTS_STEP, &sockets).expect("room");
        }
        let table = inode(table);
        let mut kept = vault.receiving.try_clone().expect("a descriptor");
        drop(vault);
        for _ in 0..2 {
            let again = kept.try_clone().expect("a descriptor");
            let found = Vault::inherit(kept).expect("the vault is whole");
            assert_eq!((found.slots, found.vault.group()), (63, 7));
            assert_eq!(inode(&found.table), table);
            for (slot, &expected) in inodes.iter().enumerate() {
                let copy = found.vault.copy(slot as u16).expect("a parked slot");
                assert_eq!(inode(copy), expected);
            }
            assert_eq!(found.vault.copy(63).err(), Some(Errno::BADMSG));
            assert_eq!(found.vault.copy(64).err(), Some(Errno::AGAIN));
            kept = again;
        }
    }

    #[test]
    fn a_successor_can_add_slots() {
        let memory = memory();
        let mut vault = Vault::create(1, memory.as_fd(), memory.as_fd()).expect("a vault");
        let batch = |_| (0..16).map(|_| self::memory()).collect::<Vec<_>>();
        vault.park(0, &batch(0)).expect("room");
        let kept = vault.receiving.try_clone().expect("a descriptor");
        drop(vault);
        let mut found = Vault::inherit(kept).expect("whole");
        found.vault.park(16, &batch(1)).expect("room");
        assert!(found.vault.copy(31).is_ok());
    }

    #[test]
    fn a_socket_that_is_no_vault_is_refused() {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .expect("a pair");
        rustix::net::send(&one, &[0; 64], rustix::net::SendFlags::empty()).expect("room");
        assert!(Vault::inherit(other).is_err());
    }
}
