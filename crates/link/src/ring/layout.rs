//! The memory of a ring, and copies to and from it.
//!
//! ```text
//!   header   magic, version and features, number of the next packet to be claimed
//!   entry 0  sequence, checksum, length, class and hop limit, source, local, bytes
//!   entry 1  ...
//! ```
//!
//! Packet n goes into entry n modulo [`ENTRIES`]. The entry's sequence is 2n when it is free for
//! packet n, 2n + 1 when packet n is complete, and so on: a sender claims number n by advancing
//! the header's count, which only succeeds while the entry is free, writes, and publishes. All
//! access is atomic, word by word, for other processes may write at any time; a sender so late
//! that its entry was given to another spoils it, which the checksum shows.

use converb_driver::Received;
use converb_engine::Address;
use core::net::Ipv6Addr;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::BorrowedFd;

pub(super) const MAGIC: u64 = u64::from_be_bytes(*b"CVB RING");
pub(super) const VERSION: u32 = 1;
/// None yet. A ring with features that a sender does not know is not used.
pub(super) const FEATURES: u32 = 0;

pub(super) const ENTRIES: usize = 64;
/// A packet of MTU 4096 with all headers that it can have.
pub(super) const PACKET_BYTES_MAX: usize = 4096 + 128;
const PACKET_WORDS_MAX: usize = PACKET_BYTES_MAX / 8;
const HEADER_WORDS: usize = 8;
const DESCRIPTION_WORDS: usize = 7;
const ENTRY_WORDS: usize = 2 + DESCRIPTION_WORDS + PACKET_WORDS_MAX;
pub(super) const BYTES: usize = (HEADER_WORDS + ENTRIES * ENTRY_WORDS) * 8;

/// What is at the start of the memory.
pub(super) struct Header {
    pub(super) magic: u64,
    pub(super) version: u32,
    pub(super) features: u32,
}

/// The mapped memory of a ring.
pub(super) struct Memory {
    words: NonNull<AtomicU64>,
}

// SAFETY: it is only accessed by atomic operations.
unsafe impl Send for Memory {}
// SAFETY: it is only accessed by atomic operations.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps a file that has [`BYTES`] and cannot shrink.
    pub(super) fn map(file: BorrowedFd<'_>) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let place = core::ptr::null_mut();
        // SAFETY: a new mapping, where the kernel likes.
        let start = unsafe { mmap(place, BYTES, protection, MapFlags::SHARED, file, 0) }?;
        NonNull::new(start.cast()).map(|words| Self { words }).ok_or(Errno::NOMEM)
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has so many bytes, is aligned to pages, lives as long as `self`, and
        // is only accessed by atomic operations; any bits are a number.
        unsafe { core::slice::from_raw_parts(self.words.as_ptr(), BYTES / 8) }
    }

    /// Fills in an empty ring.
    pub(super) fn initialize(&self) {
        self.set_version(VERSION, FEATURES);
        for number in 0..ENTRIES as u64 {
            self.entry(number).words[0].store(2 * number, Ordering::Relaxed);
        }
        self.words()[0].store(MAGIC, Ordering::Release);
    }

    pub(super) fn set_version(&self, version: u32, features: u32) {
        let word = u64::from(version) << 32 | u64::from(features);
        self.words()[1].store(word, Ordering::Relaxed);
    }

    pub(super) fn header(&self) -> Header {
        let words = self.words();
        let magic = words[0].load(Ordering::Acquire);
        let version = words[1].load(Ordering::Relaxed);
        Header { magic, version: (version >> 32) as u32, features: version as u32 }
    }

    /// The entry of packet `number`.
    pub(super) fn entry(&self, number: u64) -> Entry<'_> {
        let start = HEADER_WORDS + number as usize % ENTRIES * ENTRY_WORDS;
        Entry { words: &self.words()[start..start + ENTRY_WORDS] }
    }

    /// Claims the next number and its entry; `None` if the ring is full.
    pub(super) fn claim(&self) -> Option<(u64, Entry<'_>)> {
        let next = &self.words()[NEXT_WORD];
        let mut number = next.load(Ordering::Relaxed);
        // Others claim at the same time; each of them that succeeds makes one attempt fail.
        for _ in 0..ATTEMPTS {
            let entry = self.entry(number);
            if entry.words[0].load(Ordering::Acquire) != number.wrapping_mul(2) {
                let fresh = next.load(Ordering::Relaxed);
                if fresh == number {
                    return None;
                }
                number = fresh;
                continue;
            }
            let after = number.wrapping_add(1);
            match next.compare_exchange(number, after, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some((number, entry)),
                Err(fresh) => number = fresh,
            }
        }
        None
    }

    /// What a writer can do that keeps to no rule.
    #[cfg(any(test, fuzzing))]
    pub(super) fn spoil(&self, word: usize, value: u64) {
        self.words()[word % (BYTES / 8)].store(value, Ordering::Relaxed);
    }

    /// Whether a sender has claimed `number`.
    pub(super) fn is_claimed(&self, number: u64) -> bool {
        self.words()[NEXT_WORD].load(Ordering::Relaxed) != number
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and what borrows from it borrows from `self`. It can fail
        // only for bad arguments.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), BYTES) };
    }
}

/// One packet's place.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    words: &'a [AtomicU64],
}

impl Entry<'_> {
    /// Whether packet `number` is complete.
    pub(super) fn is_published(self, number: u64) -> bool {
        self.words[0].load(Ordering::Acquire) == number.wrapping_mul(2) + 1
    }

    /// Makes packet `number` visible. False if its receiver has given up waiting for it.
    pub(super) fn publish(self, number: u64) -> bool {
        let free = number.wrapping_mul(2);
        self.words[0].compare_exchange(free, free + 1, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Makes the entry of packet `number` free for a later one.
    pub(super) fn free(self, number: u64) {
        let next = number.wrapping_add(ENTRIES as u64).wrapping_mul(2);
        self.words[0].store(next, Ordering::Release);
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn spoil(self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Relaxed);
    }

    /// The length of the packet in it, if it can be one.
    pub(super) fn length(self) -> Option<usize> {
        let length = (self.words[2].load(Ordering::Relaxed) >> 32) as usize;
        (length <= PACKET_BYTES_MAX).then_some(length)
    }

    pub(super) fn write(self, description: &Description, bytes: &[u8]) {
        let words = description.words(bytes.len()).into_iter().chain(words_of(bytes));
        let mut checksum = Checksum::new();
        for (place, word) in self.words[2..].iter().zip(words) {
            place.store(word, Ordering::Relaxed);
            checksum.add(word);
        }
        self.words[1].store(checksum.0, Ordering::Relaxed);
    }

    /// Copies a packet out, as long as `into` is. `None` if it is not what was written.
    pub(super) fn read(self, into: &mut [u8]) -> Option<Description> {
        let mut checksum = Checksum::new();
        let description: [u64; DESCRIPTION_WORDS] = core::array::from_fn(|index| {
            let word = self.words[2 + index].load(Ordering::Relaxed);
            checksum.add(word);
            word
        });
        if (description[0] >> 32) as usize != into.len() {
            return None;
        }
        for (place, piece) in self.words[2 + DESCRIPTION_WORDS..].iter().zip(into.chunks_mut(8)) {
            let word = place.load(Ordering::Relaxed);
            checksum.add(word);
            piece.copy_from_slice(&word.to_le_bytes()[..piece.len()]);
        }
        (self.words[1].load(Ordering::Relaxed) == checksum.0)
            .then(|| Description::from_words(&description))
    }
}

/// What is known of a packet besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Description {
    source: (Ipv6Addr, u32),
    local: (Ipv6Addr, u32),
    traffic_class: u8,
    hop_limit: u8,
}

impl Description {
    /// `None` if rings do not carry such a packet.
    pub(super) fn of(packet: &Received<'_>) -> Option<Self> {
        let (
            Address::Udp { ip: source, scope: source_scope },
            Address::Udp { ip: local, scope: local_scope },
        ) = (packet.source, packet.local)
        else {
            return None;
        };
        (packet.bytes.len() <= PACKET_BYTES_MAX).then_some(Self {
            source: (source, source_scope),
            local: (local, local_scope),
            traffic_class: packet.traffic_class,
            hop_limit: packet.hop_limit,
        })
    }

    /// The packet of these bytes.
    pub(super) const fn received<'a>(&self, bytes: &'a [u8]) -> Received<'a> {
        Received {
            source: Address::Udp { ip: self.source.0, scope: self.source.1 },
            local: Address::Udp { ip: self.local.0, scope: self.local.1 },
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            bytes,
        }
    }

    fn words(&self, length: usize) -> [u64; DESCRIPTION_WORDS] {
        let halves = |ip: Ipv6Addr| [(ip.to_bits() >> 64) as u64, ip.to_bits() as u64];
        let [source_high, source_low] = halves(self.source.0);
        let [local_high, local_low] = halves(self.local.0);
        [
            (length as u64) << 32 | u64::from(self.traffic_class) << 8 | u64::from(self.hop_limit),
            source_high,
            source_low,
            u64::from(self.source.1),
            local_high,
            local_low,
            u64::from(self.local.1),
        ]
    }

    fn from_words(words: &[u64; DESCRIPTION_WORDS]) -> Self {
        let ip =
            |high: u64, low: u64| Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
        Self {
            source: (ip(words[1], words[2]), words[3] as u32),
            local: (ip(words[4], words[5]), words[6] as u32),
            traffic_class: (words[0] >> 8) as u8,
            hop_limit: words[0] as u8,
        }
    }
}

/// FNV-1a over words: the parties are friends, it need only find accidents.
struct Checksum(u64);

impl Checksum {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    const fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    }
}

fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|piece| {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        u64::from_le_bytes(word)
    })
}

/// On a cache line of its own, which senders share and the receiver rarely looks at.
const NEXT_WORD: usize = HEADER_WORDS - 1;
const ATTEMPTS: usize = 1000;
