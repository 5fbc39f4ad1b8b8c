//! What a process notes for its fork children, in memory that it shares with them and that outlives
//! it.
//!
//! ```text
//!   header   where the entries end; whether some are missing
//!   entry    length, queue pair, kind, class, hop limit, source, local, bytes
//!   entry    ...
//! ```
//!
//! The process alone writes, entry by entry, and moves the end when one is whole: a process that is
//! killed in the middle of an entry has not written it. Children only read.

use converb_driver::{Entry, Journal, Received};
use converb_engine::Address;
use converb_wire::Qpn;
use core::net::Ipv6Addr;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::sync::{Mutex, PoisonError};

/// Memory for a journal, shared with all children that are forked while it lives.
pub struct SharedJournal {
    header: NonNull<Header>,
    bytes: usize,
    /// Held by who adds an entry.
    adding: Mutex<()>,
}

#[repr(C)]
struct Header {
    end: AtomicUsize,
    is_cut: AtomicBool,
}

const HEADER_BYTES: usize = 64;
/// Of an entry, before the packet's bytes.
const PREFIX_BYTES: usize = 12 + 2 * ADDRESS_BYTES;
const ADDRESS_BYTES: usize = 20;

const PACKET: u8 = 0;
const USED: u8 = 1;
const FORGOTTEN: u8 = 2;
const HANDED_ON: u8 = 3;

// SAFETY: what lies before the end is never written again, what lies behind it is only written
// under the lock, and the end is atomic.
unsafe impl Send for SharedJournal {}
// SAFETY: as above.
unsafe impl Sync for SharedJournal {}

impl SharedJournal {
    /// A journal with room for so many bytes, of which only those are real that are used.
    ///
    /// # Errors
    /// When there is no memory to be had.
    pub fn new(bytes: usize) -> Result<Self, Errno> {
        let bytes = HEADER_BYTES + bytes;
        // SAFETY: a new mapping, where the kernel likes.
        let place = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
            )
        }?;
        let header = NonNull::new(place.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { header, bytes, adding: Mutex::new(()) })
    }

    /// Nothing will be added any more, and readers learn that something is missing.
    pub fn cut(&self) {
        self.header().is_cut.store(true, Ordering::Release);
    }

    /// How many bytes fit yet; 0 once something is missing.
    pub fn room(&self) -> usize {
        match self.header().is_cut.load(Ordering::Acquire) {
            true => 0,
            false => self.bytes - HEADER_BYTES - self.end(),
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping lives as long as this, is aligned, and zero is a valid header.
        unsafe { self.header.as_ref() }
    }

    fn end(&self) -> usize {
        // A child that writes where it must not is not to lead us astray.
        self.header().end.load(Ordering::Acquire).min(self.bytes - HEADER_BYTES)
    }

    /// The whole entries from `position` on.
    fn entries(&self, position: u64) -> &[u8] {
        let end = self.end();
        let start = usize::try_from(position).map_or(end, |position| position.min(end));
        // SAFETY: within the mapping, and before the end, where nothing is written any more.
        unsafe {
            let first = self.header.as_ptr().cast::<u8>().add(HEADER_BYTES + start);
            core::slice::from_raw_parts(first, end - start)
        }
    }
}

impl Journal for SharedJournal {
    fn position(&self) -> u64 {
        self.end() as u64
    }

    fn append(&self, qpn: Qpn, entry: Entry<'_>) -> bool {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((prefix, bytes)) =
            emit(qpn, &entry).filter(|(prefix, bytes)| prefix.len() + bytes.len() <= self.room())
        else {
            self.cut();
            return false;
        };
        let end = self.end();
        // SAFETY: behind the end nobody reads, the lock keeps other writers out, and there is room.
        unsafe {
            let place = self.header.as_ptr().cast::<u8>().add(HEADER_BYTES + end);
            place.copy_from_nonoverlapping(prefix.as_ptr(), prefix.len());
            place.add(prefix.len()).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.header().end.store(end + prefix.len() + bytes.len(), Ordering::Release);
        true
    }

    fn read(&self, position: u64, show: &mut dyn FnMut(Qpn, Entry<'_>)) -> bool {
        // What is cut now may have been whole, but not the other way round.
        let is_cut = || self.header().is_cut.load(Ordering::Acquire);
        let mut rest = self.entries(position);
        while !rest.is_empty() {
            let Some((qpn, entry)) = parse(&mut rest) else { return false };
            show(qpn, entry);
        }
        !is_cut()
    }
}

impl Drop for SharedJournal {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody refers to it any more in this process. Others have
        // mappings of their own.
        let _ = unsafe { munmap(self.header.as_ptr().cast(), self.bytes) };
    }
}

/// An entry's beginning and its packet. `None`: of a network that has no UDP.
fn emit<'a>(qpn: Qpn, entry: &Entry<'a>) -> Option<([u8; PREFIX_BYTES], &'a [u8])> {
    let mut prefix = [0; PREFIX_BYTES];
    let (kind, bytes) = match entry {
        Entry::Packet(packet) => {
            prefix[9] = packet.traffic_class;
            prefix[10] = packet.hop_limit;
            for (place, address) in
                prefix[12..].chunks_exact_mut(ADDRESS_BYTES).zip([packet.source, packet.local])
            {
                let Address::Udp { ip, scope } = address else { return None };
                place[..16].copy_from_slice(&ip.octets());
                place[16..].copy_from_slice(&scope.to_ne_bytes());
            }
            (PACKET, packet.bytes)
        }
        Entry::Used => (USED, &[][..]),
        Entry::HandedOn(slot) => {
            prefix[9..11].copy_from_slice(&slot.to_ne_bytes());
            (HANDED_ON, &[][..])
        }
        Entry::Forgotten => (FORGOTTEN, &[][..]),
    };
    let length = u32::try_from(bytes.len()).ok()?;
    prefix[..4].copy_from_slice(&length.to_ne_bytes());
    prefix[4..8].copy_from_slice(&qpn.value().to_ne_bytes());
    prefix[8] = kind;
    Some((prefix, bytes))
}

/// The first entry of `rest`, which it is taken off.
fn parse<'a>(rest: &mut &'a [u8]) -> Option<(Qpn, Entry<'a>)> {
    let (prefix, after) = rest.split_first_chunk::<PREFIX_BYTES>()?;
    let word = |at: usize| u32::from_ne_bytes(*prefix[at..].first_chunk().expect("four bytes"));
    let (bytes, after) = after.split_at_checked(word(0) as usize)?;
    *rest = after;
    let address = |at: usize| Address::Udp {
        ip: Ipv6Addr::from(*prefix[at..].first_chunk::<16>().expect("sixteen bytes")),
        scope: word(at + 16),
    };
    let entry = match prefix[8] {
        PACKET => Entry::Packet(Received {
            source: address(12),
            local: address(12 + ADDRESS_BYTES),
            traffic_class: prefix[9],
            hop_limit: prefix[10],
            bytes,
        }),
        USED => Entry::Used,
        HANDED_ON => Entry::HandedOn(u16::from_ne_bytes([prefix[9], prefix[10]])),
        FORGOTTEN => Entry::Forgotten,
        _ => return None,
    };
    Some((Qpn::new(word(4)), entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(bytes: &[u8]) -> Entry<'_> {
        let address = |text: &str| Address::Udp { ip: text.parse().unwrap(), scope: 2 };
        Entry::Packet(Received {
            source: address("fe80::1"),
            local: address("::ffff:10.0.0.1"),
            traffic_class: 1,
            hop_limit: 64,
            bytes,
        })
    }

    fn read(journal: &SharedJournal, position: u64) -> Option<Vec<(Qpn, String)>> {
        let mut all = Vec::new();
        let is_whole = journal.read(position, &mut |qpn, entry| {
            all.push((qpn, format!("{entry:?}")));
        });
        is_whole.then_some(all)
    }

    #[test]
    fn entries_come_out_as_they_went_in() {
        let journal = SharedJournal::new(1 << 16).unwrap();
        let (one, two) = (Qpn::new(0x12_3456), Qpn::new(7));
        assert_eq!(read(&journal, 0), Some(vec![]));
        assert!(journal.append(one, packet(&[5; 61])));
        let later = journal.position();
        assert!(journal.append(two, Entry::Used));
        assert!(journal.append(two, Entry::Forgotten));
        let used = (two, format!("{:?}", Entry::Used));
        let forgotten = (two, format!("{:?}", Entry::Forgotten));
        let first = (one, format!("{:?}", packet(&[5; 61])));
        assert_eq!(read(&journal, later), Some(vec![used.clone(), forgotten.clone()]));
        assert_eq!(read(&journal, 0), Some(vec![first, used, forgotten]));
        assert_eq!(read(&journal, u64::MAX), Some(vec![]));
    }

    #[test]
    fn a_full_journal_says_so_and_stays_so() {
        let journal = SharedJournal::new(1000).unwrap();
        assert!(journal.append(Qpn::new(1), packet(&[1; 900])));
        assert!(!journal.append(Qpn::new(1), packet(&[2; 100])));
        assert!(!journal.append(Qpn::new(1), Entry::Used));
        assert_eq!((read(&journal, 0), journal.room()), (None, 0));
    }

    #[test]
    fn a_child_reads_what_the_parent_writes_later() {
        let journal = SharedJournal::new(1 << 16).unwrap();
        let mut pipe = [0; 2];
        // SAFETY: two descriptors fit.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        // SAFETY: the child calls only what takes no lock that another thread may hold, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut count = 0;
            // SAFETY: one byte fits.
            unsafe { libc::read(pipe[0], (&raw mut count).cast(), 1) };
            let mut sum = 0;
            let is_whole = journal.read(0, &mut |qpn, _| sum += qpn.value());
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(if is_whole { sum as i32 } else { 100 }) };
        }
        for number in 1..=9 {
            assert!(journal.append(Qpn::new(number), packet(&[1; 1000])));
        }
        // SAFETY: one byte is there.
        assert_eq!(unsafe { libc::write(pipe[1], [1u8].as_ptr().cast(), 1) }, 1);
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 45);
    }
}
