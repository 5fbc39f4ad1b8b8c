//! What faults can be asked for, and how that is written.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// The faults of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The same seed decides the same for the same packets.
    pub seed: u64,
    /// What happens to packets on their way out.
    pub send: Rates,
    /// What happens to packets that come in.
    pub receive: Rates,
}

/// What happens to the packets of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// They do not get through.
    pub drop: Rate,
    /// They get through twice.
    pub duplicate: Rate,
    /// A few later ones overtake them.
    pub reorder: Rate,
    /// One of their bits is another one.
    pub corrupt: Rate,
    /// They are late.
    pub delay: Option<Delay>,
}

impl Rates {
    /// Whether nothing happens.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// How many packets of a hundred, as a part of 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate(u64);

impl Rate {
    const ALL: f64 = 4_294_967_296.0;

    /// Whether a packet with these random 32 bits is one of them.
    pub(crate) const fn meets(self, random: u32) -> bool {
        (random as u64) < self.0
    }
}

/// How late packets are: each by a time from this range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// At least.
    pub least: Duration,
    /// At most. With a fixed delay, the same as at least, packets keep their order.
    pub most: Duration,
}

/// Why a text names no faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidFaults {
    term: String,
    reason: &'static str,
}

impl fmt::Display for InvalidFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}; {EXAMPLE}", self.term, self.reason)
    }
}

impl core::error::Error for InvalidFaults {}

const EXAMPLE: &str =
    "an example of all: drop=1%,dup=0.5%,tx:reorder=1%,rx:corrupt=0.1%,delay=1ms..5ms,seed=7";
const UNKNOWN: &str = "not one of drop, dup, reorder, corrupt, delay and seed";
const NO_RATE: &str = "a rate goes from 0% to 100%, with the percent sign";
const NO_DELAY: &str = "a delay is a time (us, ms, s; 60s at most) or two, as in 1ms..5ms";
const NO_SEED: &str = "a seed is a number from 0 to 18446744073709551615, for both directions";
const TWICE: &str = "said twice for a direction";
const EMPTY: &str = "a term is missing";

impl FromStr for Faults {
    type Err = InvalidFaults;

    /// Terms separated by commas. `tx:` or `rx:` before one: for that direction only.
    fn from_str(text: &str) -> Result<Self, InvalidFaults> {
        let mut faults = Self::default();
        let mut seen = Vec::new();
        for term in text.split(',').map(str::trim) {
            let fail = |reason| InvalidFaults { term: term.to_owned(), reason };
            if term.is_empty() {
                return Err(fail(EMPTY));
            }
            let (sends, receives, rest) = match term.split_once(':') {
                Some(("tx", rest)) => (true, false, rest),
                Some(("rx", rest)) => (false, true, rest),
                Some(_) => return Err(fail("only tx: and rx: may stand before a term")),
                None => (true, true, term),
            };
            let (name, value) = rest.split_once('=').unwrap_or((rest, ""));
            let (name, value) = (name.trim(), value.trim());
            for direction in [sends.then_some("tx"), receives.then_some("rx")].into_iter().flatten()
            {
                if seen.contains(&(direction, name)) {
                    return Err(fail(TWICE));
                }
                seen.push((direction, name));
            }
            if name == "seed" {
                let seed = value.parse().ok().filter(|_| sends && receives);
                faults.seed = seed.ok_or_else(|| fail(NO_SEED))?;
                continue;
            }
            let targets =
                [sends.then_some(&mut faults.send), receives.then_some(&mut faults.receive)];
            for rates in targets.into_iter().flatten() {
                let rate = match name {
                    "drop" => &mut rates.drop,
                    "dup" => &mut rates.duplicate,
                    "reorder" => &mut rates.reorder,
                    "corrupt" => &mut rates.corrupt,
                    "delay" => {
                        rates.delay = Some(delay(value).ok_or_else(|| fail(NO_DELAY))?);
                        continue;
                    }
                    _ => return Err(fail(UNKNOWN)),
                };
                *rate = percentage(value).ok_or_else(|| fail(NO_RATE))?;
            }
        }
        Ok(faults)
    }
}

fn percentage(text: &str) -> Option<Rate> {
    let value: f64 = text.strip_suffix('%')?.parse().ok()?;
    (0.0..=100.0).contains(&value).then(|| Rate((value / 100.0 * Rate::ALL).round() as u64))
}

fn delay(text: &str) -> Option<Delay> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let delay = Delay { least: time(least)?, most: time(most)? };
    (delay.least <= delay.most).then_some(delay)
}

fn time(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 3] = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let (number, unit) = UNITS.into_iter().find_map(|(name, unit)| {
        let number: f64 = text.strip_suffix(name)?.parse().ok()?;
        Some((number, unit))
    })?;
    let seconds = number * unit;
    (0.0..=60.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Faults, InvalidFaults> {
        text.parse()
    }

    #[test]
    fn terms_are_for_both_directions_or_one() {
        let faults = parse("drop=1%, tx:dup=0.5%,rx:corrupt=100%,delay=1ms..5ms,seed=7").unwrap();
        assert_eq!(faults.seed, 7);
        assert_eq!(faults.send.drop, faults.receive.drop);
        assert_eq!(faults.send.drop, Rate(42_949_673));
        assert_eq!((faults.send.duplicate, faults.receive.duplicate), (Rate(21_474_836), Rate(0)));
        assert_eq!((faults.send.corrupt, faults.receive.corrupt), (Rate(0), Rate(1 << 32)));
        let delay = faults.send.delay.unwrap();
        assert_eq!((delay.least, delay.most), (Duration::from_millis(1), Duration::from_millis(5)));
        let one = parse("tx:drop=1%,rx:drop=2%").unwrap();
        assert_ne!(one.send.drop, one.receive.drop);
        assert!(parse("seed=1").unwrap().send.is_none());
        assert_eq!(parse(" tx: drop = 1% , seed= 7"), parse("tx:drop=1%,seed=7"));
    }

    #[test]
    fn all_and_nothing_are_rates() {
        assert!(percentage("100%").unwrap().meets(u32::MAX));
        assert!(!percentage("0%").unwrap().meets(0));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, term) in [
            ("", ""),
            ("drop=", "drop="),
            ("drop=1%,", ""),
            ("drop=1", "drop=1"),
            ("dup=1%,drop=101%", "drop=101%"),
            ("drop=-1%", "drop=-1%"),
            ("drop=NaN%", "drop=NaN%"),
            ("lose=1%", "lose=1%"),
            ("drop", "drop"),
            ("up:drop=1%", "up:drop=1%"),
            ("delay=2", "delay=2"),
            ("delay=5ms..1ms", "delay=5ms..1ms"),
            ("delay=61s", "delay=61s"),
            ("delay=-1ms", "delay=-1ms"),
            ("seed=-1", "seed=-1"),
            ("tx:seed=1", "tx:seed=1"),
            ("drop=1%,tx:drop=2%", "tx:drop=2%"),
            ("seed=1,seed=2", "seed=2"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.term, term, "{text}");
            assert!(error.to_string().contains("an example of all"), "{error}");
        }
        assert_eq!(parse("drop").unwrap_err().reason, NO_RATE);
        assert_eq!(parse("lose").unwrap_err().reason, UNKNOWN);
    }

    #[test]
    fn the_example_is_right() {
        let (_, example) = EXAMPLE.split_once(": ").unwrap();
        parse(example).unwrap();
    }
}
