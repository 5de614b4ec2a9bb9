//! Limits for the difference of a measure, such as `instructions>+2%`, and whether they are passed.

use super::{Comparison, Estimate, Judged, Unit};
use std::str::FromStr;

/// A limit, such as `instructions>+2%`: of a share of the reference, or in a unit (`wall>5ms`, `rss>+1MiB`).
///
/// ```
/// use perfuse_stat::compare::{Gate, Unit};
///
/// let gate: Gate = "rss>+1MiB".parse()?;
/// assert!(gate.fits(Unit::Bytes).is_ok() && gate.fits(Unit::Nanoseconds).is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// As it was written.
    pub text: String,
    /// The id of the measure.
    pub measure: String,
    above: bool,
    limit: f64,
    unit: LimitUnit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitUnit {
    /// A share of the reference.
    Share,
    Of(Unit),
    /// A number without a unit, of whatever is counted.
    Plain,
}

/// Whether a limit is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The whole interval is beyond it.
    Yes,
    /// The whole interval is within it.
    No,
    /// The interval holds it.
    Unclear,
}

const UNITS: [(&str, Unit, f64); 8] = [
    ("ns", Unit::Nanoseconds, 1.0),
    ("us", Unit::Nanoseconds, 1e3),
    ("µs", Unit::Nanoseconds, 1e3),
    ("ms", Unit::Nanoseconds, 1e6),
    ("s", Unit::Nanoseconds, 1e9),
    ("KiB", Unit::Bytes, 1024.0),
    ("MiB", Unit::Bytes, 1048576.0),
    ("GiB", Unit::Bytes, 1073741824.0),
];

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!("{what}; wanted is MEASURE>LIMIT or MEASURE<LIMIT, such as instructions>+2% or rss>+1MiB")
        };
        // The last one: names of events may hold others.
        let at = text.rfind(['>', '<']).ok_or_else(|| wrong("there is no > or <"))?;
        let measure = text[..at].trim();
        if measure.is_empty() {
            return Err(wrong("there is no measure"));
        }
        // A limit itself has no width: "at least" and "more than" are one.
        let limit = text[at + 1..].trim_start_matches('=').trim();
        let digits = limit.len() - limit.trim_start_matches(|c: char| "+-.0123456789".contains(c)).len();
        let (number, unit) = limit.split_at(digits);
        let number: f64 = number.parse().map_err(|_| wrong(&format!("'{limit}' is no limit")))?;
        let (unit, factor) = match unit.trim() {
            "%" => (LimitUnit::Share, 0.01),
            "" => (LimitUnit::Plain, 1.0),
            other => UNITS
                .iter()
                .find(|(name, ..)| *name == other)
                .map(|(_, unit, factor)| (LimitUnit::Of(*unit), *factor))
                .ok_or_else(|| wrong(&format!("'{other}' is no unit")))?,
        };
        let above = text.as_bytes()[at] == b'>';
        Ok(Gate { text: text.into(), measure: measure.into(), above, limit: number * factor, unit })
    }
}

impl Gate {
    /// Whether the limit can be one of a measure in this unit; else why not, in words.
    pub fn fits(&self, unit: Unit) -> Result<(), String> {
        match self.unit {
            LimitUnit::Of(own) if own != unit => {
                Err(format!("{} is not measured in that unit", self.measure))
            }
            LimitUnit::Plain if unit != Unit::Count => {
                Err("the limit needs a unit: %, ms, MiB, ...".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The worst of all commands against the reference.
    pub fn passed(&self, comparison: &Comparison) -> Passed {
        let Some(measure) = comparison.find(&self.measure) else { return Passed::Unclear };
        let passed =
            |judged: &Option<Judged>| judged.as_ref().map_or(Passed::Unclear, |judged| self.of(judged));
        let all: Vec<Passed> = comparison.measures[measure].judged.iter().skip(1).map(passed).collect();
        match () {
            () if all.contains(&Passed::Yes) => Passed::Yes,
            () if all.contains(&Passed::Unclear) || all.is_empty() => Passed::Unclear,
            () => Passed::No,
        }
    }

    fn of(&self, judged: &Judged) -> Passed {
        let estimate = match self.unit {
            LimitUnit::Share => judged.difference.relative,
            LimitUnit::Of(_) | LimitUnit::Plain => Some(judged.difference.absolute),
        };
        let Some(Estimate { low, high, .. }) = estimate else {
            // A share of nothing: any difference at all is beyond every share.
            let absolute = judged.difference.absolute;
            return match self.above {
                true if absolute.low > 0.0 => Passed::Yes,
                false if absolute.high < 0.0 => Passed::Yes,
                _ if absolute.value == 0.0 && absolute.half_width() == 0.0 => Passed::No,
                _ => Passed::Unclear,
            };
        };
        let (nearest, farthest) = if self.above { (low, high) } else { (-high, -low) };
        let limit = if self.above { self.limit } else { -self.limit };
        match () {
            () if nearest > limit => Passed::Yes,
            () if farthest <= limit => Passed::No,
            () => Passed::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::samples::comparison;

    #[test]
    fn limits_are_read() {
        let gate: Gate = "instructions > +2%".parse().expect("a gate");
        assert_eq!((gate.measure.as_str(), gate.above, gate.unit), ("instructions", true, LimitUnit::Share));
        assert!((gate.limit - 0.02).abs() < 1e-12);
        let gate: Gate = "rss>=1.5MiB".parse().expect("a gate");
        assert_eq!((gate.limit, gate.unit), (1.5 * 1048576.0, LimitUnit::Of(Unit::Bytes)));
        let gate: Gate = "cpu/event=0x3c/u<-10 ms".parse().expect("a gate");
        assert_eq!((gate.measure.as_str(), gate.limit, gate.above), ("cpu/event=0x3c/u", -1e7, false));
        for (text, part) in [
            ("instructions", "no > or <"),
            (">2%", "no measure"),
            ("wall>fast", "no limit"),
            ("wall>2 parsecs", "no unit"),
            ("wall>", "no limit"),
        ] {
            let error = text.parse::<Gate>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_limit_fits_its_measure() {
        let gate = |text: &str| text.parse::<Gate>().expect("a gate");
        assert!(gate("wall>2%").fits(Unit::Nanoseconds).is_ok());
        assert!(gate("wall>2MiB").fits(Unit::Nanoseconds).is_err());
        assert!(gate("wall>2").fits(Unit::Nanoseconds).is_err());
        assert!(gate("faults>2").fits(Unit::Count).is_ok());
    }

    #[test]
    fn only_a_whole_interval_passes_a_limit() {
        // Wall time is 6 % more, and the interval reaches some tenths to each side.
        let comparison = comparison(&[("wall", Unit::Nanoseconds, 1e8, 1.06e8, 1e5)]);
        for (text, passed) in [
            ("wall>2%", Passed::Yes),
            ("wall>9%", Passed::No),
            ("wall>6%", Passed::Unclear),
            ("wall>+1ms", Passed::Yes),
            ("wall<-2%", Passed::No),
            ("wall<9%", Passed::Yes),
        ] {
            assert_eq!(text.parse::<Gate>().expect("a gate").passed(&comparison), passed, "{text}");
        }
        assert_eq!("cycles>1%".parse::<Gate>().expect("a gate").passed(&comparison), Passed::Unclear);
    }
}
