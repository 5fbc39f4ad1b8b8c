//! Which IPv4 Identification to expect of whom.
//!
//! The invariant CRC covers the Identification and flags of the IPv4 header, which a UDP socket
//! does not show; they are read out of the CRC instead (`flow.rs`). Any packet yields some word,
//! so a damaged one is only recognised by a word that its sender would not have used:
//!
//! - Converb and other senders on Linux sockets set DF and use 0, or the segment's index in a
//!   GSO send: the strict rule, which almost every packet meets.
//! - rdma_rxe, and hardware, set DF and count: from anywhere, and with gaps, since the kernel
//!   shares counters between destinations and skips at random after a pause.
//!
//! The first packet of a source of which nothing is known yet is taken if it has DF set and is no
//! fragment, 16 bits of evidence, and makes the source a counting one: it would otherwise be lost
//! although it is good, and the sender of a connection request would take seconds to repeat it.
//! (A single wrong bit is found even then: at no distance does it look like another Identification
//! with DF.)
//! From then on a packet must come shortly after the last one. A source that has met the strict
//! rule, or whose first packet was damaged, must instead fail it repeatedly, and count while it
//! does, before it is believed to count.
//!
//! A counting source may begin with low numbers, too. As long as they only rise they are no sign
//! of the strict rule: one that keeps it comes back to 0 with its next send.

use core::net::Ipv4Addr;

/// Identifications below this meet the strict rule: no kernel cuts a send into more segments.
const STRICT_IDENTIFICATIONS: u16 = 128;
/// How often in a row a source must count before it is believed to.
const CONVINCING: u8 = 4;
/// How far behind its last one a packet may be: the network reorders.
const BEHIND_MAX: u16 = 64;
/// How far ahead of its last one a packet may be: others were lost, or went elsewhere, or the clock
/// of a machine that had stood still caught up.
const AHEAD_MAX: u64 = 1024;
/// The kernel skips up to a number for each tick that passed, and a tick is a millisecond or more.
const AHEAD_PER_MS: u64 = 1;

/// How a source numbers its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbering {
    /// Low numbers so far, up to `last`, and not 0: by either rule.
    Rising { last: u16 },
    /// By the strict rule, or not known. `streak` packets in a row counted up to `last`.
    Strict { last: u16, streak: u8 },
    /// Counting; `last` is the newest. `strays` packets in a row did not fit.
    Counting { last: u16, strays: u8, candidate: u16 },
}

#[derive(Clone, Copy, Debug)]
struct Source {
    ip: Ipv4Addr,
    numbering: Numbering,
    last_seen_ms: u64,
}

/// What is known of the sources of packets. Bounded: the one that was quiet longest is forgotten.
#[derive(Debug)]
pub(crate) struct Sources {
    sets: Box<[[Option<Source>; WAYS]]>,
    /// The source that met the strict rule last, which need not be looked up again.
    last_strict: Option<Ipv4Addr>,
}

const SETS: usize = 64;
const WAYS: usize = 4;

impl Sources {
    /// Nothing is known.
    pub(crate) fn new() -> Self {
        Self { sets: vec![[None; WAYS]; SETS].into_boxed_slice(), last_strict: None }
    }

    /// A packet of `ip` had just the Identification that was expected, or a low one.
    pub(crate) fn met_expectation(&mut self, ip: Ipv4Addr, identification: u16) {
        if self.last_strict != Some(ip) {
            self.remember(ip, identification);
        }
    }

    /// Judges a packet of `ip` by its Identification (`None`: flags that nobody sends, so the
    /// packet is damaged). `now_ms` is any clock that goes on.
    pub(crate) fn accepts(
        &mut self,
        ip: Ipv4Addr,
        identification: Option<u16>,
        now_ms: u64,
    ) -> bool {
        let Some(identification) = identification else {
            if self.find(ip).is_none() {
                self.insert(Source { ip, numbering: Numbering::STRICT, last_seen_ms: now_ms });
            }
            return false;
        };
        if identification < STRICT_IDENTIFICATIONS {
            self.met_expectation(ip, identification);
            return true;
        }
        let Some(source) = self.find(ip) else {
            let numbering = Numbering::counting(identification);
            self.insert(Source { ip, numbering, last_seen_ms: now_ms });
            return true;
        };
        let idle_ms = now_ms.saturating_sub(source.last_seen_ms);
        source.last_seen_ms = now_ms;
        let (numbering, accepted) = source.numbering.after(identification, idle_ms);
        source.numbering = numbering;
        if accepted && self.last_strict == Some(ip) {
            self.last_strict = None;
        }
        accepted
    }

    #[cold]
    fn remember(&mut self, ip: Ipv4Addr, identification: u16) {
        let numbering = if let Some(source) = self.find(ip) {
            source.numbering = source.numbering.after_good(identification);
            source.numbering
        } else {
            let numbering = match identification {
                0 => Numbering::STRICT,
                last => Numbering::Rising { last },
            };
            self.insert(Source { ip, numbering, last_seen_ms: 0 });
            numbering
        };
        self.last_strict = matches!(numbering, Numbering::Strict { .. }).then_some(ip);
    }

    fn find(&mut self, ip: Ipv4Addr) -> Option<&mut Source> {
        self.sets[set_of(ip)].iter_mut().flatten().find(|source| source.ip == ip)
    }

    fn insert(&mut self, source: Source) {
        let set = &mut self.sets[set_of(source.ip)];
        let place = set
            .iter_mut()
            .min_by_key(|place| place.map_or(0, |source| source.last_seen_ms + 1))
            .expect("a set has places");
        *place = Some(source);
    }
}

impl Numbering {
    const STRICT: Self = Self::Strict { last: 0, streak: 0 };

    /// Counting, and just at `last`.
    const fn counting(last: u16) -> Self {
        Self::Counting { last, strays: 0, candidate: 0 }
    }

    /// What becomes of it with a packet that is good in any case.
    fn after_good(self, identification: u16) -> Self {
        match self {
            Self::Rising { last } if identification > last => Self::Rising { last: identification },
            Self::Rising { .. } => Self::STRICT,
            Self::Counting { last, .. } if follows(identification, last, 0) => {
                Self::counting(identification)
            }
            Self::Counting { .. } | Self::Strict { .. } => self,
        }
    }

    /// What becomes of it with a packet of this Identification, not below 128, and whether that
    /// packet is good.
    fn after(self, identification: u16, idle_ms: u64) -> (Self, bool) {
        match self {
            Self::Rising { last } | Self::Counting { last, .. }
                if follows(identification, last, idle_ms) =>
            {
                (Self::counting(identification), true)
            }
            Self::Rising { .. } => Self::STRICT.after(identification, idle_ms),
            Self::Strict { last, streak } => {
                let counts = streak > 0 && follows(identification, last, idle_ms);
                let streak = if counts { streak + 1 } else { 1 };
                if streak >= CONVINCING {
                    (Self::counting(identification), true)
                } else {
                    (Self::Strict { last: identification, streak }, false)
                }
            }
            Self::Counting { last, .. } if last.wrapping_sub(identification) <= BEHIND_MAX => {
                (Self::counting(last), true)
            }
            Self::Counting { last, strays, candidate } => {
                let counts = strays > 0 && follows(identification, candidate, idle_ms);
                let strays = if counts { strays + 1 } else { 1 };
                if strays >= CONVINCING {
                    (Self::counting(identification), true)
                } else {
                    (Self::Counting { last, strays, candidate: identification }, false)
                }
            }
        }
    }
}

fn follows(identification: u16, last: u16, idle_ms: u64) -> bool {
    let ahead_max = AHEAD_MAX.saturating_add(idle_ms.saturating_mul(AHEAD_PER_MS));
    let ahead = u64::from(identification.wrapping_sub(last));
    ahead != 0 && ahead <= ahead_max
}

fn set_of(ip: Ipv4Addr) -> usize {
    let mixed = ip.to_bits().wrapping_mul(0x9e37_79b1);
    (mixed >> 16) as usize % SETS
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    #[test]
    fn low_identifications_are_always_good() {
        let mut sources = Sources::new();
        for identification in [0, 1, 127, 5] {
            assert!(sources.accepts(PEER, Some(identification), 0));
        }
    }

    #[test]
    fn a_source_that_counts_from_its_first_packet_loses_none() {
        let mut sources = Sources::new();
        let mut identification = 65_000u16;
        for step in 0..2000 {
            assert!(sources.accepts(PEER, Some(identification), step), "{identification}");
            identification = identification.wrapping_add(1 + step as u16 % 7);
        }
    }

    #[test]
    fn a_counting_source_may_skip_with_the_time_that_passed() {
        let mut sources = Sources::new();
        assert!(sources.accepts(PEER, Some(1000), 0));
        assert!(!sources.accepts(PEER, Some(4000), 10));
        assert!(sources.accepts(PEER, Some(1001), 20));
        assert!(sources.accepts(PEER, Some(4000), 3000));
        assert!(sources.accepts(PEER, Some(3990), 3001), "reordered");
    }

    #[test]
    fn a_strict_source_has_to_count_before_it_is_believed() {
        let mut sources = Sources::new();
        sources.met_expectation(PEER, 0);
        let verdicts: Vec<bool> =
            (1000..1006).map(|number| sources.accepts(PEER, Some(number), 0)).collect();
        assert_eq!(verdicts, [false, false, false, true, true, true]);
    }

    #[test]
    fn a_source_that_counts_from_a_low_number_loses_none() {
        for first in 1..400 {
            let mut sources = Sources::new();
            for number in first..first + 1000 {
                assert!(sources.accepts(PEER, Some(number), 0), "{number} of {first}");
            }
        }
    }

    #[test]
    fn low_numbers_that_do_not_only_rise_are_those_of_a_strict_source() {
        let mut sources = Sources::new();
        for number in [3, 4, 5, 0, 1] {
            sources.met_expectation(PEER, number);
        }
        assert!(!sources.accepts(PEER, Some(130), 0));
    }

    #[test]
    fn what_was_expected_of_a_counting_source_counts_on() {
        let mut sources = Sources::new();
        assert!(sources.accepts(PEER, Some(1000), 0));
        for number in 1001..2000 {
            sources.met_expectation(PEER, number);
        }
        assert!(sources.accepts(PEER, Some(2100), 0));
    }

    #[test]
    fn identifications_at_random_never_convince() {
        let mut sources = Sources::new();
        assert!(!sources.accepts(PEER, None, 0), "damaged, so nothing is taken on trust");
        let mut number = 1u32;
        for _ in 0..10_000 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let identification = (number >> 16) as u16 | 128;
            assert!(!sources.accepts(PEER, Some(identification), 0));
            assert!(!sources.accepts(PEER, None, 0));
        }
    }

    #[test]
    fn a_counting_source_that_starts_anew_is_found_again() {
        let mut sources = Sources::new();
        assert!(sources.accepts(PEER, Some(1000), 0));
        let verdicts: Vec<bool> =
            (30_000..30_005).map(|number| sources.accepts(PEER, Some(number), 0)).collect();
        assert_eq!(verdicts, [false, false, false, true, true]);
        assert!(sources.accepts(PEER, Some(5), 0), "and low numbers do not make it strict");
        assert!(sources.accepts(PEER, Some(30_006), 0));
    }

    #[test]
    fn the_table_is_bounded_and_keeps_the_busy() {
        let mut sources = Sources::new();
        assert!(sources.accepts(PEER, Some(1000), 0));
        for number in 0..10_000u32 {
            let other = Ipv4Addr::from_bits(0x0b00_0000 + number);
            assert!(sources.accepts(other, Some(500), u64::from(number)));
            assert!(sources.accepts(PEER, Some(1001 + number as u16), u64::from(number) + 1));
        }
        let known: usize = sources.sets.iter().map(|set| set.iter().flatten().count()).sum();
        assert!(known <= SETS * WAYS);
    }
}
