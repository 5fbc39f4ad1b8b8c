//! The two times that the transport writes as 5-bit codes: how long to wait after an RNR NAK, and
//! how long for an ACK.

use core::time::Duration;

/// How long to wait after an RNR NAK before trying again (IBA 9.7.5.2.8, table 46). Only the low 5
/// bits of `code` count. Not monotonic: code 0 is the longest, 655.36 ms.
pub const fn rnr_timer(code: u8) -> Duration {
    Duration::from_micros(RNR_MICROSECONDS[(code & 0x1f) as usize] as u64)
}

/// How long to wait for an acknowledgement: 4.096 us times 2^code (IBA 9.7.6.1.3). Only the low 5
/// bits of `code` count. `None` for 0: wait for ever.
pub const fn ack_timeout(code: u8) -> Option<Duration> {
    match code & 0x1f {
        0 => None,
        exponent => Some(Duration::from_nanos(4096 << exponent)),
    }
}

/// Table 46, in microseconds.
const RNR_MICROSECONDS: [u32; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840,
    5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840,
    245_760, 327_680, 491_520,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnr_times_are_those_of_the_table() {
        assert_eq!(rnr_timer(0), Duration::from_micros(655_360));
        assert_eq!(rnr_timer(1), Duration::from_micros(10));
        assert_eq!(rnr_timer(12), Duration::from_micros(640));
        assert_eq!(rnr_timer(31), Duration::from_micros(491_520));
        // From code 2 on they double every second step, as the credits do.
        for code in 4..30 {
            assert_eq!(rnr_timer(code + 2), rnr_timer(code) * 2, "code {code}");
        }
    }

    #[test]
    fn ack_timeouts_double_and_zero_is_for_ever() {
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(1), Some(Duration::from_nanos(8_192)));
        assert_eq!(ack_timeout(14), Some(Duration::from_nanos(67_108_864)));
        assert_eq!(ack_timeout(31), Some(Duration::from_nanos(4_096 << 31)));
    }
}
