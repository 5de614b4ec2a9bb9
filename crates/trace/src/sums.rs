//! What many records come to: numbers in a distribution, and rows of them by keys.

use crate::expr::{Bound, BoundValue, Expr, ExprError, Record, Schema, Value};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};

/// Numbers below this are counted each by itself; above, each power of two in so many steps.
const STEPS: u64 = 32;

/// So many rows are told apart; what comes then is counted together.
const MOST_ROWS: usize = 1 << 16;

/// How many numbers there were, and how they are spread. Sums, extremes and powers of two are exact; percentiles are at most 1/64 away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    count: u64,
    sum: i128,
    range: Option<(i128, i128)>,
    /// By step; those of negative numbers are negative.
    steps: BTreeMap<i32, u64>,
}

/// Numbers that were summed up elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) count: u64,
    pub(crate) sum: i128,
    pub(crate) least: i128,
    pub(crate) most: i128,
}

impl Distribution {
    /// Takes a number.
    pub fn add(&mut self, value: i128) {
        self.count += 1;
        self.sum += value;
        let (low, high) = self.range.unwrap_or((value, value));
        self.range = Some((low.min(value), high.max(value)));
        *self.steps.entry(step_of(value)).or_default() += 1;
    }

    /// Takes all numbers of another one.
    pub fn merge(&mut self, other: &Distribution) {
        self.count += other.count;
        self.sum += other.sum;
        self.range = match (self.range, other.range) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        other.steps.iter().for_each(|(step, count)| *self.steps.entry(*step).or_default() += count);
    }

    /// Takes numbers that were summed up elsewhere. Percentiles and powers know those alone that come by [`add_step`](Self::add_step) too.
    pub(crate) fn add_parts(&mut self, parts: Parts) {
        self.count += parts.count;
        self.sum += parts.sum;
        let Parts { least, most, .. } = parts;
        let (low, high) = self.range.unwrap_or((least, most));
        self.range = Some((low.min(least), high.max(most)));
    }

    /// Tells the step of so many numbers of [`add_parts`](Self::add_parts).
    pub(crate) fn add_step(&mut self, step: i32, count: u64) {
        *self.steps.entry(step).or_default() += count;
    }

    /// The same, as it is where percentiles and powers are not known.
    #[must_use]
    pub fn without_steps(&self) -> Distribution {
        Distribution { steps: BTreeMap::new(), ..self.clone() }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All together.
    pub fn sum(&self) -> i128 {
        self.sum
    }

    /// The mean.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The smallest.
    pub fn min(&self) -> Option<i128> {
        self.range.map(|(low, _)| low)
    }

    /// The largest.
    pub fn max(&self) -> Option<i128> {
        self.range.map(|(_, high)| high)
    }

    /// The number that this share of all is not above: 0.5 is the median.
    pub fn quantile(&self, share: f64) -> Option<i128> {
        let (low, high) = self.range?;
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count);
        let mut passed = 0;
        let found = self.steps.iter().find(|(_, count)| {
            passed += **count;
            passed >= rank
        });
        let (first, last) = bounds_of(*found?.0);
        Some(((first + last) / 2).clamp(low, high))
    }

    /// How many numbers lie in each power of two, from the first to the last that has any: `(from, below, count)`. Below 0 and at 0,
    /// the same.
    pub fn powers(&self) -> Vec<(i128, i128, u64)> {
        let mut powers: BTreeMap<i32, u64> = BTreeMap::new();
        for (step, count) in &self.steps {
            let (first, _) = bounds_of(*step);
            let power = (i128::BITS - first.unsigned_abs().leading_zeros()) as i32;
            let (_, last) = bounds_of(*step);
            let power =
                if last < 0 { -((i128::BITS - last.unsigned_abs().leading_zeros()) as i32) } else { power };
            *powers.entry(power).or_default() += count;
        }
        let (Some((&first, _)), Some((&last, _))) = (powers.first_key_value(), powers.last_key_value())
        else {
            return Vec::new();
        };
        let row = |power: i32| {
            let (from, below) = match power {
                0 => (0, 1),
                power if power > 0 => (1 << (power - 1), 1 << power),
                power => (-(1 << -power) + 1, -(1 << (-power - 1)) + 1),
            };
            (from, below, powers.get(&power).copied().unwrap_or(0))
        };
        (first..=last).map(row).collect()
    }
}

/// Something that a distribution tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// How many.
    Count,
    /// All together.
    Sum,
    /// The mean.
    Avg,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The median.
    P50,
    /// The number that 9 of 10 are not above.
    P90,
    /// The number that 99 of 100 are not above.
    P99,
    /// How many lie in each power of two.
    Hist,
}

impl Statistic {
    const ALL: [(&'static str, Statistic); 9] = [
        ("count", Statistic::Count),
        ("sum", Statistic::Sum),
        ("avg", Statistic::Avg),
        ("min", Statistic::Min),
        ("max", Statistic::Max),
        ("p50", Statistic::P50),
        ("p90", Statistic::P90),
        ("p99", Statistic::P99),
        ("hist", Statistic::Hist),
    ];

    /// By its name: `count`, `p99`.
    ///
    /// # Errors
    ///
    /// The names that there are.
    pub fn named(name: &str) -> Result<Self, String> {
        let found = Statistic::ALL.iter().find(|(known, _)| *known == name).map(|(_, what)| *what);
        found.ok_or_else(|| "rows tell count, sum, avg, min, max, p50, p90, p99, hist".to_owned())
    }

    /// Whether it takes more than counts, sums and extremes.
    pub fn is_spread(self) -> bool {
        matches!(self, Statistic::P50 | Statistic::P90 | Statistic::P99 | Statistic::Hist)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Statistic::ALL.iter().find(|(_, what)| *what == self).map_or("", |(name, _)| name)
    }

    /// Its value for these numbers; for a histogram, how many there are.
    pub fn value(self, row: &Distribution) -> f64 {
        let number = |value: Option<i128>| value.map_or(0.0, |value| value as f64);
        match self {
            Statistic::Count | Statistic::Hist => row.count() as f64,
            Statistic::Sum => row.sum() as f64,
            Statistic::Avg => row.mean().unwrap_or(0.0),
            Statistic::Min => number(row.min()),
            Statistic::Max => number(row.max()),
            Statistic::P50 => number(row.quantile(0.5)),
            Statistic::P90 => number(row.quantile(0.9)),
            Statistic::P99 => number(row.quantile(0.99)),
        }
    }
}

fn step_of(value: i128) -> i32 {
    let size = u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX);
    let step = if size < STEPS {
        size as i32
    } else {
        let power = 63 - size.leading_zeros();
        ((power - 4) * STEPS as u32) as i32 + ((size >> (power - 5)) & (STEPS - 1)) as i32
    };
    if value < 0 { -step } else { step }
}

/// The first and the last number of a step.
fn bounds_of(step: i32) -> (i128, i128) {
    let size = u64::from(step.unsigned_abs());
    let (first, last) = if size < STEPS {
        (i128::from(size), i128::from(size))
    } else {
        let (power, sub) = (size / STEPS + 4, size % STEPS);
        let width = 1i128 << (power - 5);
        let first = (1i128 << power) + i128::from(sub) * width;
        (first, first + width - 1)
    };
    if step < 0 { (-last, -first) } else { (first, last) }
}

/// What is asked about records: which count, by what they are told apart, and what is summed up.
#[derive(Clone, Debug)]
pub struct Question {
    /// Only those for which it holds.
    pub condition: Option<Expr>,
    /// Told apart by these; none for one row.
    pub keys: Vec<Expr>,
    /// What is summed up of each.
    pub of: Option<Expr>,
}

/// A question for records of one kind.
#[derive(Clone, Debug)]
pub struct Asked {
    condition: Option<Bound>,
    keys: Vec<BoundValue>,
    of: Option<BoundValue>,
}

impl Question {
    /// For records of one kind.
    ///
    /// # Errors
    ///
    /// They lack a field ([`ExprError::is_unknown_name`]), or an expression makes no sense.
    pub fn bind(&self, schema: &Schema<'_>) -> Result<Asked, ExprError> {
        Ok(Asked {
            condition: self.condition.as_ref().map(|expr| expr.bind(schema)).transpose()?,
            keys: self.keys.iter().map(|key| key.bind_value(schema)).collect::<Result<_, _>>()?,
            of: self.of.as_ref().map(|expr| expr.bind_value(schema)).transpose()?,
        })
    }
}

impl Asked {
    /// Whether a record counts.
    pub fn admits(&self, record: &dyn Record) -> bool {
        self.condition.as_ref().is_none_or(|condition| condition.admits(record))
    }
}

/// Rows of records that have the same keys.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    rows: HashMap<Vec<Option<Value>>, Distribution>,
    /// Records whose keys found no room.
    others: u64,
}

impl Groups {
    /// Takes a record that counts. One without a number to be summed up is counted nowhere.
    pub fn add(&mut self, asked: &Asked, record: &dyn Record) {
        let value = match asked.of.as_ref().map(|of| of.value(record)) {
            Some(Some(Value::Number(number))) => number,
            Some(_) => return,
            None => 0,
        };
        let key: Vec<_> = asked.keys.iter().map(|key| key.value(record)).collect();
        if self.rows.len() >= MOST_ROWS && !self.rows.contains_key(&key) {
            self.others += 1;
            return;
        }
        self.rows.entry(key).or_default().add(value);
    }

    /// Takes numbers with the same keys that were summed up elsewhere.
    pub(crate) fn insert(&mut self, key: Vec<Option<Value>>, row: &Distribution) {
        self.rows.entry(key).or_default().merge(row);
    }

    /// The rows, those with the largest `rank` first; of equal ones, by their keys.
    pub fn rows(&self, rank: impl Fn(&Distribution) -> f64) -> Vec<(&[Option<Value>], &Distribution)> {
        let mut rows: Vec<_> = self.rows.iter().map(|(key, row)| (key.as_slice(), row)).collect();
        rows.sort_by(|(a, x), (b, y)| rank(y).total_cmp(&rank(x)).then_with(|| a.cmp(b)));
        rows
    }

    /// The rows with what is asked of them as a document of the schema `perfuse.trace/1`; those with the most of the first, at
    /// most so many.
    pub fn json(&self, keys: &[Expr], show: &[Statistic], most: Option<usize>) -> serde_json::Value {
        let rank = |row: &Distribution| show.first().map_or(0.0, |first| first.value(row));
        let rows = self.rows(rank).into_iter().take(most.unwrap_or(usize::MAX)).map(|(values, row)| {
            let mut object = serde_json::Map::new();
            for (key, value) in keys.iter().zip(values) {
                let value = match value {
                    None => json!(null),
                    Some(Value::Text(text)) => json!(String::from_utf8_lossy(text)),
                    Some(Value::Number(number)) => i64::try_from(*number)
                        .map_or_else(|_| json!(number.to_string()), |number| json!(number)),
                };
                object.insert(key.to_string(), value);
            }
            for what in show {
                let powers = || row.powers().into_iter();
                let value = match what {
                    Statistic::Hist => powers()
                        .map(|(from, below, count)| json!([from as i64, below as i64, count]))
                        .collect(),
                    what => json!(what.value(row)),
                };
                object.insert(what.name().to_owned(), value);
            }
            serde_json::Value::Object(object)
        });
        json!({ "schema": "perfuse.trace/1", "rows": rows.collect::<Vec<_>>() })
    }

    /// Records that are in no row, as there were too many rows.
    pub fn others(&self) -> u64 {
        self.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn distributions_are_those_of_the_numbers(mut values in proptest::collection::vec(
            prop_oneof![-100..100i128, any::<i64>().prop_map(i128::from), (0..1i128 << 40)], 1..200)
        ) {
            let mut spread = Distribution::default();
            values.iter().for_each(|&value| spread.add(value));
            values.sort_unstable();
            prop_assert_eq!(spread.count(), values.len() as u64);
            prop_assert_eq!(spread.sum(), values.iter().sum::<i128>());
            prop_assert_eq!((spread.min(), spread.max()), (values.first().copied(), values.last().copied()));
            for share in [0.0, 0.5, 0.9, 0.99, 1.0] {
                let rank = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len());
                let (is, told) = (values[rank - 1], spread.quantile(share).unwrap());
                prop_assert!((is - told).abs() * 64 <= is.abs() + 64, "{share}: {is} {told}");
            }
            let powers = spread.powers();
            prop_assert_eq!(powers.iter().map(|row| row.2).sum::<u64>(), values.len() as u64);
            for (from, below, count) in powers {
                let within = values.iter().filter(|value| (from..below).contains(*value)).count();
                prop_assert_eq!(within as u64, count, "{}..{}", from, below);
            }
        }
    }

    #[test]
    fn steps_follow_each_other() {
        let mut last = -1;
        for step in 0..1900 {
            let (first, end) = bounds_of(step);
            assert_eq!(first, last + 1, "{step}");
            assert_eq!((step_of(first), step_of(end)), (step, step));
            last = end;
        }
    }
}
