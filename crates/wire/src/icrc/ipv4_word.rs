//! Reading, out of the invariant CRC, the one word of the IPv4 header that a UDP socket hides.
//!
//! The CRC covers Identification, Flags and Fragment Offset, one 32-bit word, which the sender's
//! kernel chooses and the receiver's kernel keeps to itself. But a CRC is linear. Let d be the
//! received CRC XOR the one computed with 0 for that word, and n the bytes between the word and
//! the CRC. Then d is what the word alone contributes: word * x^(8n + 32) modulo the polynomial P
//! of CRC-32. P has a nonzero constant term, so x can be inverted, and d * x^-(8n + 32) *is* the
//! word. A receiver finds a word for every packet, the damaged ones too; it must judge whether
//! the word is one that the sender would have chosen.
//!
//! Polynomials are held as CRC-32 is computed: "reflected", the coefficient of x^0 in the top bit.

/// Recovers the word for one distance between it and the CRC. Packets of equal length share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Word {
    /// x^-(8n + 32).
    factor: u32,
}

/// The word with Identification (upper half), Flags and Fragment Offset (lower half) in the IPv4
/// header of a packet whose CRC was `received`, and is `computed` if that word is 0.
/// `bytes_after_word` counts what lies between the word and the CRC, below 2^32: see
/// [`IPV4_WORD_TO_BTH`](super::IPV4_WORD_TO_BTH).
pub fn ipv4_word(received: u32, computed: u32, bytes_after_word: usize) -> u32 {
    Ipv4Word::new(bytes_after_word).recover(received, computed)
}

impl Ipv4Word {
    /// Prepares for packets with this many bytes between the word and the CRC. Only the low 32
    /// bits of the number count.
    pub fn new(bytes_after_word: usize) -> Self {
        let [first, second, upper @ ..] = (bytes_after_word as u32).to_le_bytes();
        let mut factor =
            multiply(INVERSE_POWERS[0][usize::from(first)], INVERSE_POWERS[1][usize::from(second)]);
        // No IPv4 packet is that long.
        if upper != [0, 0] {
            factor = multiply(factor, INVERSE_POWERS[2][usize::from(upper[0])]);
            factor = multiply(factor, INVERSE_POWERS[3][usize::from(upper[1])]);
        }
        Self { factor }
    }

    /// The word, as [`ipv4_word`] describes it.
    pub fn recover(self, received: u32, computed: u32) -> u32 {
        // The CRC takes bytes as little-endian words, the network writes big-endian ones.
        multiply(received ^ computed, self.factor).swap_bytes()
    }
}

/// P without x^32, reflected.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// x^0.
const ONE: u32 = 0x8000_0000;

/// `INVERSE_POWERS[k][b]` is x^-(8 * b * 256^k); the first table has x^-32 on top, for the CRC's
/// own length.
static INVERSE_POWERS: [[u32; 256]; 4] = {
    let mut tables = [[0; 256]; 4];
    let mut step = ONE;
    let mut bit = 0;
    while bit < 8 {
        step = divide_by_x(step);
        bit += 1;
    }
    let four_steps =
        multiply_by_steps(multiply_by_steps(step, step), multiply_by_steps(step, step));
    let mut table = 0;
    while table < 4 {
        let mut power = if table == 0 { four_steps } else { ONE };
        let mut next_step = ONE;
        let mut byte = 0;
        while byte < 256 {
            tables[table][byte] = power;
            power = multiply_by_steps(power, step);
            next_step = multiply_by_steps(next_step, step);
            byte += 1;
        }
        step = next_step;
        table += 1;
    }
    tables
};

/// a * x^-1 mod P.
const fn divide_by_x(a: u32) -> u32 {
    // With a constant term, add P (which has one too, and an x^32) so that x divides it.
    if a & ONE != 0 { (a ^ POLYNOMIAL) << 1 | 1 } else { a << 1 }
}

/// a * b mod P, step by step: for the tables above.
const fn multiply_by_steps(mut a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    while a != 0 {
        if a & ONE != 0 {
            product ^= b;
        }
        a <<= 1;
        b = if b & 1 != 0 { b >> 1 ^ POLYNOMIAL } else { b >> 1 };
    }
    product
}

/// a * b mod P, ten times faster: for every packet.
fn multiply(a: u32, b: u32) -> u32 {
    // The highest power, x^62, is in the lowest bit; moved up by one, the lower half holds the
    // multiples of x^32. Reducing them is what the CRC does with a register and four zero bytes
    // (whose function inverts before and after).
    let product = multiply_without_carry(a, b) << 1;
    let mut hasher = crc32fast::Hasher::new_with_initial(!(product as u32));
    hasher.update(&[0; 4]);
    (product >> 32) as u32 ^ !hasher.finalize()
}

/// The product of two polynomials, not reduced. Each factor is split into four with three zero
/// bits after each bit, so that the carries of ordinary multiplication (at most 8 ones meet) die
/// in the gaps.
fn multiply_without_carry(a: u32, b: u32) -> u64 {
    let lanes = [0, 1, 2, 3].map(|lane| 0x1111_1111_1111_1111_u64 << lane);
    let a = lanes.map(|lane| u64::from(a) & lane);
    let b = lanes.map(|lane| u64::from(b) & lane);
    let mut product = 0;
    for lane in 0..4 {
        let mut sum = 0;
        for part in 0..4 {
            sum ^= a[part].wrapping_mul(b[(lane + 4 - part) % 4]);
        }
        product |= sum & lanes[lane];
    }
    product
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dividing_by_x_undoes_multiplying_by_x() {
        let x = ONE >> 1;
        assert_eq!(multiply(x, divide_by_x(ONE)), ONE);
        assert_eq!(multiply(0xdead_beef, ONE), 0xdead_beef);
    }

    proptest! {
        #[test]
        fn any_word_is_recovered_from_any_distance(
            before in proptest::collection::vec(any::<u8>(), 0..80),
            word: u32,
            after in proptest::collection::vec(any::<u8>(), 0..10_000),
        ) {
            let crc = |word: u32| {
                let mut hasher = crc32fast::Hasher::new();
                hasher.update(&before);
                hasher.update(&word.to_be_bytes());
                hasher.update(&after);
                hasher.finalize()
            };
            prop_assert_eq!(ipv4_word(crc(word), crc(0), after.len()), word);
        }

        #[test]
        fn both_ways_to_multiply_agree(a: u32, b: u32) {
            prop_assert_eq!(multiply(a, b), multiply_by_steps(a, b));
        }

        #[test]
        fn the_factor_of_a_distance_is_that_of_its_parts(near: u32, far: u32) {
            let (near, far) = (near >> 1, far >> 1); // Their sum must not wrap.
            let factor = |distance: u32| Ipv4Word::new(distance as usize).factor;
            let x_32 = Ipv4Word::new(0).factor;
            prop_assert_eq!(
                multiply(factor(near + far), x_32),
                multiply(factor(near), factor(far))
            );
        }
    }
}
