//! Differences without judgement, entry by entry, as `perf diff` computes them: `-c delta`, `delta-abs`, `ratio`, `wdiff`.

use perfuse_profile::{Entry, Key, View, join};
use std::cmp::Ordering;
use std::str::FromStr;

/// A computation, by the names that perf has for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compute {
    /// The difference of shares; the greatest first.
    Delta,
    /// The same; that which differs most first.
    #[default]
    DeltaAbs,
    /// How many times as much as before.
    Ratio,
    /// The amount after, times the second of these, less that before, times the first.
    WeightedDiff(i64, i64),
}

impl FromStr for Compute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let weights = |text: &str| {
            let (first, second) = text.split_once(',')?;
            Some(Compute::WeightedDiff(first.parse().ok()?, second.parse().ok()?))
        };
        match text {
            "delta" => Ok(Compute::Delta),
            "delta-abs" => Ok(Compute::DeltaAbs),
            "ratio" => Ok(Compute::Ratio),
            "cycles" => Err("cycles of basic blocks are not read".to_owned()),
            _ => text.strip_prefix("wdiff:").and_then(weights).ok_or_else(|| {
                "delta, delta-abs, ratio, or wdiff with two weights such as wdiff:1,2".to_owned()
            }),
        }
    }
}

/// An entry of either side.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Computed {
    /// The texts of its keys.
    pub texts: Vec<String>,
    /// Occurrences of the event, before and after; `None` where there is no such entry.
    pub periods: [Option<u64>; 2],
    /// Its shares of all in percent, before and after.
    pub percents: [Option<f64>; 2],
    /// The result. Entries that have vanished have none; new ones have it for shares alone.
    pub value: Option<f64>,
}

impl Computed {
    /// The computation with its numbers, of sides that have this much in all.
    pub fn formula(&self, compute: Compute, wholes: [u64; 2]) -> String {
        let [old, new] = self.periods.map(|period| period.unwrap_or(0));
        match (compute, self.periods) {
            (_, [_, None]) => String::new(),
            (Compute::Delta | Compute::DeltaAbs, _) => {
                format!("({new} * 100 / {}) - ({old} * 100 / {})", wholes[1], wholes[0])
            }
            (Compute::Ratio, [None, _]) => "N/A".to_owned(),
            (Compute::Ratio, _) => format!("{new} / {old}"),
            (Compute::WeightedDiff(first, second), _) => {
                format!("({new} * {second}) - ({old} * {first})")
            }
        }
    }
}

/// All entries of two views by these keys, in order: by what is computed, or by the share before if `by_baseline`. `wholes` is what
/// shares are of.
pub fn compute(
    views: [&View<'_>; 2],
    keys: &[Key],
    wholes: [u64; 2],
    compute: Compute,
    by_baseline: bool,
) -> Vec<Computed> {
    let lists = views.map(|view| view.entries.iter().collect::<Vec<&Entry>>());
    let joined = join(&[(views[0], &lists[0][..]), (views[1], &lists[1][..])], keys, false, 0);
    let mut all: Vec<Computed> = joined
        .iter()
        .filter_map(|row| {
            let entry = row.entry()?;
            let periods = [0, 1].map(|side| row.entries[side].map(|entry| entry.self_weight));
            let percent = |side: usize| {
                let share = |period: u64| period as f64 * 100.0 / wholes[side].max(1) as f64;
                periods[side].map(share)
            };
            let percents = [percent(0), percent(1)];
            let value = match (compute, periods) {
                (_, [_, None]) => None,
                (Compute::Delta | Compute::DeltaAbs, _) => {
                    Some(percents[1].unwrap_or(0.0) - percents[0].unwrap_or(0.0))
                }
                (Compute::Ratio, [Some(old), Some(new)]) if old > 0 => Some(new as f64 / old as f64),
                (Compute::WeightedDiff(first, second), [Some(old), Some(new)]) => {
                    Some((i128::from(new) * i128::from(second) - i128::from(old) * i128::from(first)) as f64)
                }
                _ => None,
            };
            let texts = keys.iter().map(|&key| views[row.member].text(entry, key)).collect();
            Some(Computed { texts, periods, percents, value })
        })
        .collect();
    let rank = |row: &Computed| match (by_baseline, compute) {
        (true, _) => row.percents[0],
        (_, Compute::DeltaAbs) => row.value.map(f64::abs),
        _ => row.value,
    };
    // Entries without a value come last; of those, new ones come before those that have vanished.
    let place = |row: &Computed| (rank(row).is_none(), row.periods[1].is_none());
    let greatest = |one: &Computed, other: &Computed| match (rank(one), rank(other)) {
        (Some(one), Some(other)) => other.total_cmp(&one),
        _ => Ordering::Equal,
    };
    all.sort_by(|one, other| place(one).cmp(&place(other)).then_with(|| greatest(one, other)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(periods: [Option<u64>; 2]) -> Computed {
        Computed { texts: Vec::new(), periods, percents: [None; 2], value: None }
    }

    #[test]
    fn computations_have_perfs_names() {
        for (text, expected) in [
            ("delta", Compute::Delta),
            ("delta-abs", Compute::DeltaAbs),
            ("ratio", Compute::Ratio),
            ("wdiff:1,-2", Compute::WeightedDiff(1, -2)),
        ] {
            assert_eq!(text.parse(), Ok(expected));
        }
        for wrong in ["", "wdiff", "wdiff:1", "wdiff:1,x", "cycles"] {
            assert!(wrong.parse::<Compute>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn formulas_are_those_of_perf() {
        let both = row([Some(3), Some(5)]);
        let formula = |compute| both.formula(compute, [10, 20]);
        assert_eq!(formula(Compute::Delta), "(5 * 100 / 20) - (3 * 100 / 10)");
        assert_eq!(formula(Compute::Ratio), "5 / 3");
        assert_eq!(formula(Compute::WeightedDiff(1, 2)), "(5 * 2) - (3 * 1)");
        assert_eq!(row([None, Some(5)]).formula(Compute::Ratio, [10, 20]), "N/A");
        assert_eq!(row([Some(3), None]).formula(Compute::Ratio, [10, 20]), "");
    }
}
