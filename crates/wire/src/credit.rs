//! End-to-end credits: how an ACK tells, in 5 bits, how many receive work queue elements the
//! responder has (IBA 9.7.7.2, table 45).

/// The code that says nothing about credits: the requester is not limited by them.
pub const NONE: u8 = 31;

/// The code with the largest count that is not above `count`.
pub const fn encode(count: u32) -> u8 {
    // Above 3 the codes come in pairs, 2^k and 1.5 * 2^k, so the exponent and one more bit say it.
    if count < 4 {
        return count as u8;
    }
    let exponent = 31 - count.leading_zeros();
    let half = count >> (exponent - 1) & 1;
    let code = 2 * exponent + half;
    if code > 30 { 30 } else { code as u8 }
}

/// The count that the code stands for; `None` for 31 (no credit given) and what is beyond 5 bits.
pub const fn decode(code: u8) -> Option<u32> {
    match code {
        0..=30 => Some(COUNTS[code as usize]),
        _ => None,
    }
}

/// Table 45.
const COUNTS: [u32; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_the_largest_whose_count_is_not_above() {
        for count in (0..70_000).chain([u32::MAX]) {
            let searched = COUNTS.iter().rposition(|&listed| listed <= count);
            assert_eq!(Some(usize::from(encode(count))), searched, "count {count}");
        }
    }

    #[test]
    fn every_code_but_the_last_has_a_count() {
        for code in 0..31 {
            assert_eq!(decode(code).map(encode), Some(code));
        }
        assert_eq!(decode(NONE), None);
        assert_eq!(decode(255), None);
    }
}
