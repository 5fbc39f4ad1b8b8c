//! What a process notes of its queue pairs after a fork: where its children can read it, even when
//! the process itself has ended.

use super::moving::Kept;
use crate::port::Received;
use converb_engine::Address;
use converb_wire::Qpn;
use std::sync::Arc;

/// Memory that a process shares with its fork children, and in which it alone writes.
pub trait Journal: Send + Sync {
    /// Where the next entry will stand.
    fn position(&self) -> u64;

    /// Adds an entry about a queue pair, whole or not at all. False if there is no room, which
    /// readers learn.
    fn append(&self, qpn: Qpn, entry: Entry<'_>) -> bool;

    /// Shows what was added since. False if something is missing.
    fn read(&self, position: u64, show: &mut dyn FnMut(Qpn, Entry<'_>)) -> bool;
}

/// What happened to a queue pair.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// A packet that it is about to handle.
    Packet(Received<'a>),
    /// The program uses it, so it stays.
    Used,
    /// The process with that slot gets it.
    HandedOn(u16),
    /// What comes from now on is not noted any more, until the next fork.
    Forgotten,
}

/// A packet that was handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    source: Address,
    local: Address,
    traffic_class: u8,
    hop_limit: u8,
    pub(crate) bytes: Box<[u8]>,
}

impl Noted {
    fn of(packet: &Received<'_>) -> Self {
        Self {
            source: packet.source,
            local: packet.local,
            traffic_class: packet.traffic_class,
            hop_limit: packet.hop_limit,
            bytes: packet.bytes.into(),
        }
    }

    /// The packet, as it was received.
    pub(crate) fn received(&self) -> Received<'_> {
        Received {
            source: self.source,
            local: self.local,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            bytes: &self.bytes,
        }
    }
}

/// A queue pair's part in the journal.
pub(crate) struct Noting {
    journal: Arc<dyn Journal>,
    /// Where it stood at the last fork.
    from: u64,
    /// How many bytes may come yet.
    left: usize,
}

/// A child that uses a queue pair only after more than this has come for it comes too late.
const BYTES_MAX: usize = 256 << 10;

impl Noting {
    /// The process forks.
    pub(crate) fn begin(journal: &Arc<dyn Journal>) -> Self {
        Self { journal: Arc::clone(journal), from: journal.position(), left: BYTES_MAX }
    }

    /// Notes a packet that is about to be handled; false if it notes nothing more.
    pub(crate) fn note(&mut self, qpn: Qpn, packet: &Received<'_>) -> bool {
        match self.left.checked_sub(packet.bytes.len()) {
            Some(left) => {
                self.left = left;
                self.journal.append(qpn, Entry::Packet(*packet))
            }
            None => {
                self.journal.append(qpn, Entry::Forgotten);
                false
            }
        }
    }

    /// The program uses the queue pair.
    pub(crate) fn end(self, qpn: Qpn) {
        self.journal.append(qpn, Entry::Used);
    }

    /// The process with that slot gets it.
    pub(crate) fn hand_on(self, qpn: Qpn, slot: u16) {
        self.journal.append(qpn, Entry::HandedOn(slot));
    }

    /// In a child with that slot: the packets that the queue pair has handled in the parent since.
    ///
    /// # Errors
    /// Why it stays with the parent.
    pub(crate) fn handled(&self, qpn: Qpn, slot: u16) -> Result<Vec<Noted>, Kept> {
        let (mut packets, mut kept) = (Vec::new(), None);
        let is_whole = self.journal.read(self.from, &mut |of, entry| match entry {
            _ if of != qpn || kept.is_some() => {}
            Entry::Packet(packet) => packets.push(Noted::of(&packet)),
            Entry::HandedOn(to) if to == slot => {}
            Entry::Used | Entry::HandedOn(_) => kept = Some(Kept::InUse),
            Entry::Forgotten => kept = Some(Kept::Forgotten),
        });
        match kept {
            Some(kept) => Err(kept),
            None if is_whole => Ok(packets),
            None => Err(Kept::Forgotten),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A journal in the process's own memory, with room for some entries.
    pub(crate) struct Plain {
        entries: Mutex<Vec<(Qpn, Kind)>>,
        most: usize,
    }

    #[derive(Clone)]
    enum Kind {
        Packet(Noted),
        Used,
        HandedOn(u16),
        Forgotten,
    }

    impl Journal for Plain {
        fn position(&self) -> u64 {
            self.entries.lock().unwrap().len() as u64
        }

        fn append(&self, qpn: Qpn, entry: Entry<'_>) -> bool {
            let mut entries = self.entries.lock().unwrap();
            let fits = entries.len() < self.most;
            entries.push(match entry {
                Entry::Packet(packet) => (qpn, Kind::Packet(Noted::of(&packet))),
                Entry::Used => (qpn, Kind::Used),
                Entry::HandedOn(slot) => (qpn, Kind::HandedOn(slot)),
                Entry::Forgotten => (qpn, Kind::Forgotten),
            });
            fits
        }

        fn read(&self, position: u64, show: &mut dyn FnMut(Qpn, Entry<'_>)) -> bool {
            let entries = self.entries.lock().unwrap();
            for (qpn, kind) in &entries[position as usize..] {
                show(
                    *qpn,
                    match kind {
                        Kind::Packet(noted) => Entry::Packet(noted.received()),
                        Kind::Used => Entry::Used,
                        Kind::HandedOn(slot) => Entry::HandedOn(*slot),
                        Kind::Forgotten => Entry::Forgotten,
                    },
                );
            }
            entries.len() <= self.most
        }
    }

    fn packet(bytes: &[u8]) -> Received<'_> {
        let address = Address::Lid(1);
        Received { source: address, local: address, traffic_class: 0, hop_limit: 0, bytes }
    }

    fn numbers(noting: &Noting, qpn: Qpn) -> Result<Vec<u8>, Kept> {
        Ok(noting.handled(qpn, 3)?.iter().map(|noted| noted.bytes[0]).collect())
    }

    const ONE: Qpn = Qpn::new(1);
    const TWO: Qpn = Qpn::new(2);

    #[test]
    fn each_fork_has_its_own_rest_and_each_queue_pair_its_own_packets() {
        let journal: Arc<dyn Journal> = Arc::new(Plain { entries: Mutex::default(), most: 100 });
        let mut first = Noting::begin(&journal);
        assert!(first.note(ONE, &packet(&[1])));
        assert!(first.note(TWO, &packet(&[2])));
        let mut second = Noting::begin(&journal);
        assert!(second.note(ONE, &packet(&[3])));
        assert_eq!(numbers(&first, ONE), Ok(vec![1, 3]));
        assert_eq!(numbers(&first, TWO), Ok(vec![2]));
        assert_eq!(numbers(&second, ONE), Ok(vec![3]));
        assert_eq!(numbers(&second, TWO), Ok(vec![]));
        Noting::begin(&journal).end(ONE);
        assert_eq!(numbers(&second, ONE), Err(Kept::InUse));
        assert_eq!(numbers(&second, TWO), Ok(vec![]));
        assert_eq!(numbers(&Noting::begin(&journal), ONE), Ok(vec![]), "that was before");
        Noting::begin(&journal).hand_on(TWO, 3);
        assert_eq!(numbers(&second, TWO), Ok(vec![]), "it is ours");
        Noting::begin(&journal).hand_on(TWO, 4);
        assert_eq!(numbers(&second, TWO), Err(Kept::InUse));
    }

    #[test]
    fn it_does_not_note_for_ever() {
        let journal: Arc<dyn Journal> = Arc::new(Plain { entries: Mutex::default(), most: 100 });
        let mut noting = Noting::begin(&journal);
        let count = (0..BYTES_MAX).take_while(|_| noting.note(ONE, &packet(&[0; 4096]))).count();
        assert_eq!(count, BYTES_MAX / 4096);
        assert_eq!(numbers(&noting, ONE), Err(Kept::Forgotten));
        assert_eq!(numbers(&noting, TWO), Ok(vec![]));
    }

    #[test]
    fn where_entries_are_missing_nothing_is_known() {
        let journal: Arc<dyn Journal> = Arc::new(Plain { entries: Mutex::default(), most: 1 });
        let mut noting = Noting::begin(&journal);
        assert!(noting.note(ONE, &packet(&[1])));
        assert!(!noting.note(ONE, &packet(&[2])));
        assert_eq!(numbers(&noting, TWO), Err(Kept::Forgotten));
    }
}
