//! Numbers for people: significant digits, units, spreads.

use super::glyphs::Glyphs;

/// A number and its unit, to be aligned at the border between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// The number.
    pub digits: String,
    /// The unit with its prefix; empty where there is none.
    pub unit: String,
}

impl Quantity {
    fn new(digits: impl Into<String>, unit: impl Into<String>) -> Self {
        Quantity { digits: digits.into(), unit: unit.into() }
    }

    /// Both, with a space between them.
    pub fn joined(&self) -> String {
        if self.unit.is_empty() { self.digits.clone() } else { format!("{} {}", self.digits, self.unit) }
    }
}

/// `value` with this many significant digits, in plain notation.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".into();
    }
    let decimals =
        |value: f64| (digits as i32 - 1 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.*}", decimals(value));
    // Rounding may have added a digit: 9.9996 is 10.000 at first.
    let rounded: f64 = text.parse().unwrap_or(value);
    format!("{value:.*}", decimals(rounded))
}

/// Digits in groups of three.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// The largest of `steps` (size and name, ascending) that is not above the value as it will be shown.
fn step<'a>(value: f64, digits: i32, steps: &[(f64, &'a str)]) -> (f64, &'a str) {
    // 999 960 with four digits is 1.000 M.
    let shown = value.abs() * (1.0 + 0.5 * 10f64.powi(-digits));
    *steps.iter().rev().find(|(size, _)| shown >= *size).unwrap_or(&steps[0])
}

const SI: [(f64, &str); 6] = [(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P")];

/// How many of something: small whole numbers as they are, others with four digits and a prefix.
pub fn count(value: f64) -> Quantity {
    if value.fract() == 0.0 && value.abs() < 10_000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        return Quantity::new(format!("{sign}{}", grouped(value.abs() as u64)), "");
    }
    let (size, prefix) = step(value, 4, &SI);
    Quantity::new(significant(value / size, 4), prefix)
}

/// A time in ns.
pub fn time(ns: f64, glyphs: &Glyphs) -> Quantity {
    let (size, unit) = step(ns, 4, &time_units(glyphs));
    Quantity::new(significant(ns / size, 4), unit)
}

fn time_units(glyphs: &Glyphs) -> [(f64, &'static str); 4] {
    [(1.0, "ns"), (1e3, glyphs.micro_second), (1e6, "ms"), (1e9, "s")]
}

/// A size in bytes.
pub fn bytes(value: f64) -> String {
    let steps =
        [(1.0, "B"), (1024.0, "KiB"), (1048576.0, "MiB"), (1073741824.0, "GiB"), (1099511627776.0, "TiB")];
    let (size, unit) = step(value, 3, &steps);
    format!("{} {unit}", if size == 1.0 { format!("{value:.0}") } else { significant(value / size, 3) })
}

/// Something per second, or a frequency: three digits and a prefix.
pub fn per(value: f64, unit: &str) -> String {
    let (size, prefix) = step(value, 3, &SI);
    format!("{} {prefix}{unit}", significant(value / size, 3))
}

/// Mean, standard deviation and interval in one unit, cut at the second digit of the deviation.
pub fn with_spread(
    mean: f64,
    sigma: f64,
    interval: Option<(f64, f64)>,
    in_ns: bool,
    glyphs: &Glyphs,
) -> (Quantity, String, String) {
    let (size, unit) = if in_ns { step(mean, 4, &time_units(glyphs)) } else { step(mean, 4, &SI) };
    // Not more than six digits, however little the runs differ.
    let most = (5 - (mean / size).abs().max(1.0).log10().floor() as i32).max(0);
    let decimals = match sigma / size {
        sigma if sigma > 0.0 => (1 - sigma.log10().floor() as i32).clamp(0, most) as usize,
        // All runs agree: as many digits as a single value has.
        _ if mean.fract() == 0.0 && size == 1.0 => 0,
        _ => significant(mean / size, 4).split_once('.').map_or(0, |(_, decimals)| decimals.len()),
    };
    let show = |value: f64| format!("{:.decimals$}", value / size);
    let shown_sigma = match show(sigma) {
        nothing if sigma > 0.0 && nothing.bytes().all(|b| b"0.".contains(&b)) => "~0".to_owned(),
        shown => shown,
    };
    let interval = interval.map_or(String::new(), |(low, high)| format!("[{}, {}]", show(low), show(high)));
    (Quantity::new(show(mean), unit), shown_sigma, interval)
}

#[cfg(test)]
mod tests {
    use super::super::glyphs::{ASCII, UNICODE};
    use super::*;

    #[test]
    fn significant_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (1.0, "1.000"),
            (9.99996, "10.00"),
            (123.456, "123.5"),
            (99999.0, "99999"),
            (0.012345, "0.01235"),
        ] {
            assert_eq!(significant(value, 4), expected);
        }
    }

    #[test]
    fn counts_and_times() {
        assert_eq!(count(531.0).joined(), "531");
        assert_eq!(count(1284.0).joined(), "1 284");
        assert_eq!(count(8_912_034_551.0).joined(), "8.912 G");
        assert_eq!(count(999_960.0).joined(), "1.000 M");
        assert_eq!(count(2.5).joined(), "2.500");
        assert_eq!(time(362_067.0, &UNICODE).joined(), "362.1 µs");
        assert_eq!(time(362_067.0, &ASCII).joined(), "362.1 us");
        assert_eq!(time(2_310_400_000.0, &ASCII).joined(), "2.310 s");
        assert_eq!(bytes(3.25 * 1048576.0), "3.25 MiB");
        assert_eq!(per(3.86e9, "Hz"), "3.86 GHz");
        assert_eq!(per(999.6e6, "Hz"), "1.00 GHz");
        assert_eq!(per(230.1, "/s"), "230 /s");
        assert_eq!(grouped(1_234_567), "1 234 567");
    }

    #[test]
    fn a_mean_is_cut_at_the_second_digit_of_its_spread() {
        let (mean, sigma, interval) =
            with_spread(2_310_412_345.0, 12_100_000.0, Some((2.3e9, 2.32e9)), true, &UNICODE);
        assert_eq!(
            (mean.joined().as_str(), sigma.as_str(), interval.as_str()),
            ("2.310 s", "0.012", "[2.300, 2.320]")
        );
        let (mean, sigma, _) = with_spread(282.0, 0.0, None, false, &UNICODE);
        assert_eq!((mean.joined().as_str(), sigma.as_str()), ("282", "0"));
        let (mean, sigma, _) = with_spread(282.25, 3.4, None, false, &UNICODE);
        assert_eq!((mean.joined().as_str(), sigma.as_str()), ("282.2", "3.4"));
    }
}
