//! Static rates (`enum ibv_rate`): codes, multiples of 2.5 Gb/s, megabits per second.

use core::ffi::c_int;

/// A rate: its code; what it is in multiples of 2.5 Gb/s, if verbs has a name for that; megabits
/// per second. Rates whose lanes use 64b/66b coding are no round multiples; those that `ibv_rate`
/// names only by their megabits have no multiple.
const RATES: &[(c_int, Option<c_int>, c_int)] = &[
    (2, Some(1), 2_500),
    (3, Some(4), 10_000),
    (4, Some(12), 30_000),
    (5, Some(2), 5_000),
    (6, Some(8), 20_000),
    (7, Some(16), 40_000),
    (8, Some(24), 60_000),
    (9, Some(32), 80_000),
    (10, Some(48), 120_000),
    (11, None, 14_062),
    (12, None, 56_250),
    (13, None, 112_500),
    (14, None, 168_750),
    (15, None, 25_781),
    (16, None, 103_125),
    (17, None, 206_250),
    (18, None, 309_375),
    (19, Some(11), 28_125),
    (20, Some(20), 53_125),
    (21, Some(160), 425_000),
    (22, Some(240), 637_500),
    (23, Some(320), 850_000),
    (24, Some(480), 1_275_000),
];

/// `IBV_RATE_MAX`: what a number that is no rate converts to.
const RATE_MAX: c_int = 0;

/// `ibv_rate_to_mult`; -1 for a code without one.
pub(crate) fn multiple_of_base(rate: c_int) -> c_int {
    RATES.iter().find(|entry| entry.0 == rate).and_then(|entry| entry.1).unwrap_or(-1)
}

/// `mult_to_ibv_rate`.
pub(crate) fn from_multiple_of_base(multiple: c_int) -> c_int {
    RATES.iter().find(|entry| entry.1 == Some(multiple)).map_or(RATE_MAX, |entry| entry.0)
}

/// `ibv_rate_to_mbps`; -1 for a code that is none.
pub(crate) fn megabits_per_second(rate: c_int) -> c_int {
    RATES.iter().find(|entry| entry.0 == rate).map_or(-1, |entry| entry.2)
}

/// `mbps_to_ibv_rate`.
pub(crate) fn from_megabits_per_second(megabits: c_int) -> c_int {
    RATES.iter().find(|entry| entry.2 == megabits).map_or(RATE_MAX, |entry| entry.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_converts_there_and_back() {
        for &(code, multiple, megabits) in RATES {
            assert_eq!(from_megabits_per_second(megabits_per_second(code)), code);
            assert_eq!(megabits_per_second(code), megabits);
            if multiple.is_some() {
                assert_eq!(from_multiple_of_base(multiple_of_base(code)), code);
            }
        }
    }
}
