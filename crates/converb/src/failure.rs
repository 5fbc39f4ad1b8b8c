//! What failed, as it is written for the agent to keep and read again by `converb explain --last`.

use crate::runtime::Runtime;
use converb_agent::{FAILURE_WORDS, FOLLOWS, FailureWords};
use converb_engine::iba::{Cause, Failure, Side};
use converb_engine::{Address, CompletionKind, Status};
use converb_wire::{Opcode, Psn, Qpn};
use core::net::Ipv6Addr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A failure with where and when it happened.
///
/// ```text
///   word 0       when, in nanoseconds since 1970
///   word 1       how often; whether it follows from another failure
///   word 2       byte by byte: version, status, kind, side, flags, opcode, kind of address
///   word 3       wr_id
///   word 4       queue pair, and the peer's
///   word 5       PSN, and the number of the cause
///   words 6-8    the peer's address, and its scope
///   words 9-13   the numbers of the cause
///   words 14-17  the device's name
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureRecord {
    /// When it happened; of several, the last.
    pub when: SystemTime,
    /// The device, as the program knows it.
    pub device: String,
    /// The queue pair.
    pub qpn: Qpn,
    /// What.
    pub failure: Failure,
}

/// Of words 2 to 19.
const VERSION: u8 = 1;

const HAS_COMPLETION: u8 = 1;
const HAS_PSN: u8 = 2;
const HAS_OPCODE: u8 = 4;

const NAME_WORD: usize = 14;
const NAME_WORDS: usize = 4;
const CAUSE_WORD: usize = 9;

/// Writes down what failed in this process; as little as a failure may cost the program.
pub(crate) fn record(device: &str, qpn: Qpn, failure: &Failure) {
    // In a fork child the page is the parent's.
    let Some(runtime) = Runtime::current() else { return };
    let record =
        FailureRecord { when: SystemTime::now(), device: String::new(), qpn, failure: *failure };
    let mut words = record.words();
    put_name(&mut words, device);
    runtime.record(key(qpn, failure), &words);
}

/// Of what alike failures are counted together: flushes, and what is refused without harm.
fn key(qpn: Qpn, failure: &Failure) -> u64 {
    if failure.has_completion && !failure.is_flush() {
        return 0;
    }
    let of_flush = if failure.is_flush() { failure.cause.numbers() } else { [0; 5] };
    let side = u64::from(failure.side == Side::Receive);
    let first = u64::from(failure.cause.number()) << 32 | u64::from(qpn.value()) << 1 | side;
    let key = of_flush.iter().fold(first, |key, number| {
        (key ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)
    });
    key | 1
}

fn put_name(words: &mut FailureWords, name: &str) {
    let mut bytes = [0; 8 * NAME_WORDS];
    let length = name.len().min(bytes.len());
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    for (word, bytes) in words[NAME_WORD..].iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes"));
    }
}

impl FailureRecord {
    /// The words that the agent keeps.
    pub fn words(&self) -> FailureWords {
        let failure = &self.failure;
        let mut words = [0; FAILURE_WORDS];
        words[0] = self.when.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        words[1] = u64::from(failure.count) | if failure.is_flush() { FOLLOWS } else { 0 };
        let mut flags = if failure.has_completion { HAS_COMPLETION } else { 0 };
        flags |= if failure.psn.is_some() { HAS_PSN } else { 0 };
        flags |= if failure.opcode.is_some() { HAS_OPCODE } else { 0 };
        let (kind, address, scope) = match failure.address {
            Address::Lid(lid) => (0, u128::from(lid), 0),
            Address::Udp { ip, scope } => (1, ip.to_bits(), scope),
            Address::Ethernet(mac) => {
                (2, mac.iter().fold(0, |sum, &byte| sum << 8 | u128::from(byte)), 0)
            }
        };
        words[2] = u64::from_le_bytes([
            VERSION,
            failure.status as u8,
            failure.kind as u8,
            u8::from(failure.side == Side::Receive),
            flags,
            failure.opcode.map_or(0, |opcode| opcode.0),
            kind,
            0,
        ]);
        words[3] = failure.wr_id;
        words[4] = two(self.qpn.value(), failure.peer.value());
        words[5] = two(failure.psn.map_or(0, Psn::value), failure.cause.number());
        words[6] = (address >> 64) as u64;
        words[7] = address as u64;
        words[8] = scope.into();
        words[CAUSE_WORD..][..Cause::NUMBERS_MAX].copy_from_slice(&failure.cause.numbers());
        put_name(&mut words, &self.device);
        words
    }

    /// What the words tell; `None` if they are of a version that knows more than this one.
    pub fn from_words(words: &FailureWords) -> Option<Self> {
        let [version, status, kind, side, flags, opcode, address_kind, _] = words[2].to_le_bytes();
        if version != VERSION {
            return None;
        }
        let low = |word: usize| words[word] as u32;
        let high = |word: usize| (words[word] >> 32) as u32;
        let address = u128::from(words[6]) << 64 | u128::from(words[7]);
        let address = match address_kind {
            0 => Address::Lid(address as u16),
            1 => Address::Udp { ip: Ipv6Addr::from_bits(address), scope: low(8) },
            _ => {
                let bytes = (address as u64).to_be_bytes();
                Address::Ethernet(*bytes[2..].first_chunk().expect("six bytes"))
            }
        };
        let numbers = *words[CAUSE_WORD..].first_chunk().expect("within");
        let name: Vec<u8> = words[NAME_WORD..][..NAME_WORDS]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .take_while(|&byte| byte != 0)
            .map(|byte| if byte.is_ascii_graphic() { byte } else { b'?' })
            .collect();
        let failure = Failure {
            has_completion: flags & HAS_COMPLETION != 0,
            wr_id: words[3],
            status: Status::from_number(status.into())?,
            kind: CompletionKind::from_number(kind.into())?,
            side: if side == 0 { Side::Send } else { Side::Receive },
            cause: Cause::from_numbers(high(5), numbers)?,
            psn: (flags & HAS_PSN != 0).then(|| Psn::new(low(5))),
            opcode: (flags & HAS_OPCODE != 0).then_some(Opcode(opcode)),
            peer: Qpn::new(high(4)),
            address,
            count: low(1),
        };
        Some(Self {
            when: UNIX_EPOCH + Duration::from_nanos(words[0]),
            device: String::from_utf8(name).ok()?,
            qpn: Qpn::new(low(4)),
            failure,
        })
    }
}

fn two(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Failure {
        Failure {
            has_completion: true,
            wr_id: u64::MAX,
            status: Status::RetryExceeded,
            kind: CompletionKind::ReceiveWriteWithImmediate,
            side: Side::Receive,
            cause: Cause::NoAnswer { retries: 7, timeout_ns: 67_108_864, timeout: 14 },
            psn: Some(Psn::new(0xab_cdef)),
            opcode: Some(Opcode::RC_SEND_ONLY),
            peer: Qpn::new(0x12_3456),
            address: Address::Udp { ip: Ipv6Addr::LOCALHOST, scope: 3 },
            count: 1,
        }
    }

    #[test]
    fn a_record_survives_being_written_as_words() {
        let when = UNIX_EPOCH + Duration::from_nanos(1_234_567_890_123_456_789);
        let base = failure();
        for failure in [
            base,
            Failure { psn: None, opcode: None, has_completion: false, ..base },
            Failure { address: Address::Ethernet([1, 2, 3, 4, 5, 6]), ..base },
            Failure { address: Address::Lid(9), side: Side::Send, count: 5, ..base },
        ] {
            let device = "roce_eth0".to_owned();
            let record = FailureRecord { when, device, qpn: Qpn::new(0xff_ffff), failure };
            assert_eq!(FailureRecord::from_words(&record.words()), Some(record));
        }
    }

    #[test]
    fn words_of_a_later_version_and_noise_are_not_understood() {
        let device = "roce_lo".to_owned();
        let record =
            FailureRecord { when: UNIX_EPOCH, device, qpn: Qpn::new(1), failure: failure() };
        for word in [2, 5] {
            let mut words = record.words();
            words[word] ^= u64::MAX;
            assert_eq!(FailureRecord::from_words(&words), None);
        }
        assert_eq!(FailureRecord::from_words(&[0; FAILURE_WORDS]), None);
    }

    #[test]
    fn only_what_is_alike_is_counted_together() {
        let error = failure();
        let qpn = Qpn::new(5);
        assert_eq!(key(qpn, &error), 0, "an error of its own stands alone");
        let flush = |wr_id| Failure {
            cause: Cause::Flushed { wr_id, status: 12, cause: 0x204, is_ours: 1 },
            ..error
        };
        assert_eq!(key(qpn, &flush(1)), key(qpn, &flush(1)));
        assert_ne!(key(qpn, &flush(1)), key(qpn, &flush(2)));
        assert_ne!(key(qpn, &flush(1)), key(Qpn::new(6), &flush(1)));
    }
}
