//! A ring of packets in shared memory: how a packet that the kernel gave to the wrong process gets
//! to the right one.
//!
//! Each process has one ring that it receives by ([`RingReceiver`]) and opens those of others to
//! send ([`RingSender`]); who gets whose descriptors is the agent's business. `layout.rs` draws the
//! memory and copies to and from it; `peers.rs` is the port's `Relay` over rings.
//!
//! Nothing found in a ring is trusted: it is memory that other processes write, of another version
//! of this library maybe, that may have died half-way.

#[cfg(any(test, fuzzing))]
pub mod hostile;
mod layout;
mod peers;

use crate::file_size::without_size_signal;
use crate::kept::Kept;
use crate::udp::Relayed;
use converb_driver::Received;
use layout::{Description, FEATURES, MAGIC, Memory, VERSION};
pub use peers::{Others, Peers};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// What another process needs to send to a ring.
#[derive(Debug)]
pub struct RingDescriptors {
    /// The memory.
    pub memory: OwnedFd,
    /// The eventfd that tells the receiver of a packet.
    pub bell: OwnedFd,
}

/// The receiving end of a ring.
pub struct RingReceiver {
    memory: Memory,
    descriptors: RingDescriptors,
    /// The number of the next packet.
    next: u64,
    /// Since when that one has been claimed by a sender and not finished.
    stuck_since: Option<Instant>,
}

/// A sending end of a ring.
pub struct RingSender {
    memory: Memory,
    bell: Kept,
}

impl RingReceiver {
    /// A ring without packets.
    ///
    /// # Errors
    /// When there is no memory or no descriptor left.
    pub fn create() -> Result<Self, Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = crate::raise(memfd_create("converb-ring", flags)?);
        without_size_signal(|| rustix::fs::ftruncate(&file, layout::BYTES as u64))?;
        // A file that cannot shrink never faults those who have mapped it.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = Memory::map(file.as_fd())?;
        memory.initialize();
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let descriptors = RingDescriptors { memory: file, bell: crate::raise(bell) };
        Ok(Self { memory, descriptors, next: 0, stuck_since: None })
    }

    /// What other processes open it with.
    pub const fn descriptors(&self) -> &RingDescriptors {
        &self.descriptors
    }

    /// Readable when a packet was pushed since [`quieten`](Self::quieten).
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.descriptors.bell.as_fd()
    }

    /// Makes the bell unreadable. Packets may be there still.
    pub fn quieten(&self) {
        // With nothing to read it is quiet already.
        let _ = rustix::io::read(&self.descriptors.bell, &mut [0u8; 8]);
    }

    /// Takes packets as long as there are any and `into` has room. Costs one look at memory when
    /// there are none.
    pub fn pop(&mut self, into: &mut Relayed) {
        // Whoever fills entries with what is no packet, as fast as they are freed, keeps nobody
        // here for longer than a lap.
        for _ in 0..layout::ENTRIES {
            let entry = self.memory.entry(self.next);
            if !entry.is_published(self.next) {
                self.pass_over_a_dead_sender();
                return;
            }
            // Of a length that no sender of ours writes nothing is taken, and the entry is freed.
            if let Some(length) = entry.length() {
                let Some(room) = into.begin(length) else { return };
                if let Some(description) = entry.read(room) {
                    into.finish(length, &description.received(&[]));
                }
            }
            entry.free(self.next);
            self.next += 1;
            self.stuck_since = None;
        }
    }

    /// A sender that died between claiming an entry and finishing it would stop the ring.
    fn pass_over_a_dead_sender(&mut self) {
        if !self.memory.is_claimed(self.next) {
            self.stuck_since = None;
            return;
        }
        let since = *self.stuck_since.get_or_insert_with(Instant::now);
        if since.elapsed() > DEAD_AFTER {
            // Published just now, the packet is lost; its sender's peer repeats it.
            self.memory.entry(self.next).free(self.next);
            self.next += 1;
            self.stuck_since = None;
        }
    }
}

impl RingSender {
    /// Opens another process's ring.
    ///
    /// # Errors
    /// `INVAL` if this is no ring, `OPNOTSUPP` if it is one of a version that this library does
    /// not know.
    pub fn open(descriptors: RingDescriptors) -> Result<Self, Errno> {
        let RingDescriptors { memory: file, bell } = descriptors;
        let seals = fcntl_get_seals(&file).map_err(|_| Errno::INVAL)?;
        let size = rustix::fs::fstat(&file)?.st_size;
        if !seals.contains(SealFlags::SHRINK) || size != layout::BYTES as i64 {
            return Err(Errno::INVAL);
        }
        let memory = Memory::map(file.as_fd())?;
        let header = memory.header();
        if header.magic != MAGIC {
            return Err(Errno::INVAL);
        }
        if header.version != VERSION || header.features & !FEATURES != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        Ok(Self { memory, bell: Kept::new(bell) })
    }

    /// Puts a packet in. Returns false if there is no room, or the packet is not one that rings
    /// carry: longer than 4 KiB and its headers, or of another network than RoCEv2's.
    pub fn push(&self, packet: &Received<'_>) -> bool {
        let Some(description) = Description::of(packet) else { return false };
        let Some((number, entry)) = self.memory.claim() else { return false };
        entry.write(&description, packet.bytes);
        if !entry.publish(number) {
            return false;
        }
        // It fails only if the number of unread rings is as large as it can be.
        if let Some(bell) = self.bell.get_open() {
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
        true
    }

    /// Whether the program has left us the bell. Without, packets wait until the receiver looks.
    pub fn has_bell(&self) -> bool {
        self.bell.is_open()
    }
}

/// A sender that has not finished for so long has died, or will find that it was too late.
const DEAD_AFTER: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
