//! A counter's value, and how far it may be believed.

use perfuse_abi::ReadFormat;
use perfuse_abi::read::{ReadEntry, ReadValues, Times, scale};
use std::iter::Sum;
use std::ops::{Add, Sub};

/// One reading of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Occurrences (or ns, for the clocks) while the event was really counting.
    pub value: u64,
    /// Nanoseconds the event was enabled and its target running. 0 where the attr's read format was
    /// changed so that it does not tell.
    pub enabled_ns: u64,
    /// Nanoseconds it was counting. Less than `enabled_ns` where events had to take turns. 0 likewise.
    pub running_ns: u64,
    /// The event's id.
    pub id: u64,
    /// Records lost for want of room; `None` on kernels that do not tell (before Linux 6.0).
    pub lost: Option<u64>,
}

/// A count as an estimate for the whole time, with what it is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scaled {
    /// Counted all the time: exact.
    Exact(u64),
    /// Counted part of the time, extrapolated to all of it.
    Estimate {
        /// The extrapolated value.
        value: u64,
        /// The share of the time it was counting, between 0 and 1.
        share: f64,
    },
    /// Enabled, but never counting: the value 0 means nothing. Other events hold the hardware, or the
    /// group needs more counters than there are.
    NeverRan,
    /// Never enabled, or the target never ran: there was nothing to count.
    NotEnabled,
}

impl Scaled {
    /// The number to show, if there is one.
    pub fn value(self) -> Option<u64> {
        match self {
            Scaled::Exact(value) | Scaled::Estimate { value, .. } => Some(value),
            Scaled::NeverRan | Scaled::NotEnabled => None,
        }
    }
}

impl Count {
    /// The fields that are read by default: times, id and, where the kernel tells them, lost records.
    pub(crate) const FORMAT: ReadFormat = ReadFormat::TOTAL_TIME_ENABLED
        .union(ReadFormat::TOTAL_TIME_RUNNING)
        .union(ReadFormat::ID)
        .union(ReadFormat::LOST);

    #[inline(always)]
    pub(crate) fn new(entry: ReadEntry, times: Times) -> Self {
        Count {
            value: entry.value,
            enabled_ns: times.enabled_ns,
            running_ns: times.running_ns,
            id: entry.id.unwrap_or(0),
            lost: entry.lost,
        }
    }

    /// The count of one event, from what `read(2)` returned; `None` if that is too short.
    #[inline(always)]
    pub(crate) fn single(words: &[u64], format: ReadFormat) -> Option<Self> {
        let values = ReadValues::from_words(words, format).ok()?;
        Some(Count::new(values.get(0)?, times_of(&values)))
    }

    /// The count extrapolated to the time it was enabled, with what that is worth. Needs both times, which
    /// are read unless the attr was changed.
    ///
    /// ```
    /// use perfuse::{Count, Scaled};
    /// let half = Count { value: 500, enabled_ns: 2_000, running_ns: 1_000, ..Count::default() };
    /// assert_eq!(half.scaled(), Scaled::Estimate { value: 1_000, share: 0.5 });
    /// assert_eq!(Count { running_ns: 0, ..half }.scaled(), Scaled::NeverRan);
    /// ```
    pub fn scaled(&self) -> Scaled {
        let times = Times { enabled_ns: self.enabled_ns, running_ns: self.running_ns };
        match scale(self.value, times) {
            Some(_) if self.running_ns >= self.enabled_ns => Scaled::Exact(self.value),
            Some(value) => Scaled::Estimate { value, share: self.running_ns as f64 / self.enabled_ns as f64 },
            None if self.enabled_ns == 0 => Scaled::NotEnabled,
            None => Scaled::NeverRan,
        }
    }
}

/// The times in a reading; 0 for one that the read format does not have.
#[inline(always)]
pub(crate) fn times_of(values: &ReadValues<'_>) -> Times {
    let (enabled, running) = (values.time_enabled(), values.time_running());
    Times { enabled_ns: enabled.unwrap_or(0), running_ns: running.unwrap_or(0) }
}

impl Add for Count {
    type Output = Count;

    /// Values and times of the same event on two targets. Keeps the id of the first.
    fn add(self, other: Count) -> Count {
        Count {
            value: self.value.wrapping_add(other.value),
            enabled_ns: self.enabled_ns.wrapping_add(other.enabled_ns),
            running_ns: self.running_ns.wrapping_add(other.running_ns),
            id: self.id,
            lost: self.lost.zip(other.lost).map(|(a, b)| a.wrapping_add(b)),
        }
    }
}

impl Sub for Count {
    type Output = Count;

    /// The difference to an `earlier` reading of the same event.
    fn sub(self, earlier: Count) -> Count {
        Count {
            value: self.value.wrapping_sub(earlier.value),
            enabled_ns: self.enabled_ns.wrapping_sub(earlier.enabled_ns),
            running_ns: self.running_ns.wrapping_sub(earlier.running_ns),
            id: self.id,
            lost: self.lost.zip(earlier.lost).map(|(a, b)| a.wrapping_sub(b)),
        }
    }
}

impl Sum for Count {
    fn sum<I: Iterator<Item = Count>>(counts: I) -> Count {
        counts.reduce(Add::add).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_a_sum_are_those_of_all_or_not_known() {
        let count = |value, lost| Count { value, enabled_ns: 10, running_ns: 5, id: value, lost };
        let sum: Count = [count(1, Some(2)), count(3, Some(4)), count(5, Some(0))].into_iter().sum();
        assert_eq!(sum, Count { value: 9, enabled_ns: 30, running_ns: 15, id: 1, lost: Some(6) });
        assert_eq!((count(1, Some(2)) + count(3, None)).lost, None);
        let difference = count(3, Some(4)) - count(1, Some(1));
        assert_eq!((difference.value, difference.enabled_ns, difference.lost), (2, 0, Some(3)));
    }
}
