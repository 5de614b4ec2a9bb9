//! Sizes and times with a unit, as options have them.

use std::time::Duration;

/// `512`, `4K`, `10M`, `1G`, also with a `B` for bytes, in bytes.
pub(super) fn size(text: &str) -> Option<u64> {
    let upper = text.to_ascii_uppercase();
    let number = upper.strip_suffix('B').unwrap_or(&upper);
    let (number, shift) = match number.strip_suffix(['K', 'M', 'G']) {
        Some(rest) if number.ends_with('K') => (rest, 10),
        Some(rest) if number.ends_with('M') => (rest, 20),
        Some(rest) => (rest, 30),
        None => (number, 0),
    };
    number.parse::<u64>().ok().filter(|&number| number > 0 && number < 1 << 33).map(|number| number << shift)
}

/// `30s`, `5m`, `2h`, `1d`.
pub(super) fn time(text: &str) -> Option<Duration> {
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86400)];
    let (rest, seconds) =
        units.iter().find_map(|&(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    let number: u32 = rest.parse().ok().filter(|&number| number > 0)?;
    Some(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(["7", "4K", "10MB", "1g", "3B"].map(size), [7, 4096, 10 << 20, 1 << 30, 3].map(Some));
        assert_eq!(["", "M", "0", "-1K", "x"].map(size), [None; 5]);
        assert_eq!(
            ["30s", "2m", "1h", "1d"].map(time),
            [30, 120, 3600, 86400].map(|s| Some(Duration::from_secs(s)))
        );
        assert_eq!(["", "s", "0s", "5", "5M"].map(time), [None; 5]);
    }
}
