//! The runs of commands on one scale.

use super::{Measure, Series};

/// Fewer runs make no picture.
const LEAST: usize = 10;

/// How often each command's runs fell where, on a scale that all share.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Where the first cell begins.
    pub low: f64,
    /// How wide a cell is.
    pub width: f64,
    /// By command.
    pub rows: Vec<HistogramRow>,
}

/// The runs of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramRow {
    /// Runs in each cell.
    pub counts: Vec<usize>,
    /// Runs above the last cell.
    pub beyond: usize,
}

impl Histogram {
    /// Of a measure, in so many cells; `None` where runs are few or all alike.
    pub fn of(measure: &Measure, cells: usize) -> Option<Self> {
        let mut all: Vec<f64> = measure.series.iter().flat_map(Series::known).collect();
        all.sort_by(f64::total_cmp);
        let (&low, &most) = (all.first()?, all.last()?);
        // A few far values must not squeeze the others into one column.
        let usual = all[(all.len() - 1) * 95 / 100];
        let high = if most - low > 3.0 * (usual - low) { low + 1.5 * (usual - low) } else { most };
        if high <= low || all.len() < LEAST || cells == 0 {
            return None;
        }
        let width = (high - low) / cells as f64;
        let row = |series: &Series| {
            let mut row = HistogramRow { counts: vec![0; cells], beyond: 0 };
            for value in series.known() {
                match ((value - low) / width) as usize {
                    _ if value > high => row.beyond += 1,
                    cell => row.counts[cell.min(cells - 1)] += 1,
                }
            }
            row
        };
        Some(Histogram { low, width, rows: measure.series.iter().map(row).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Unit;

    fn measure(values: &[f64]) -> Measure {
        let values = values.iter().copied().map(Some).collect();
        let series = vec![Series { values, share: 1.0, missing: None }];
        Measure { id: "wall".into(), title: "wall".into(), unit: Unit::Count, series, judged: vec![None] }
    }

    #[test]
    fn far_runs_stand_beyond_the_scale() {
        let mut values: Vec<f64> = (0..40).map(f64::from).collect();
        values.push(1000.0);
        let histogram = Histogram::of(&measure(&values), 10).expect("runs");
        let [row] = &histogram.rows[..] else { panic!("{histogram:?}") };
        assert_eq!((row.beyond, row.counts.iter().sum::<usize>(), histogram.low), (1, 40, 0.0));
    }

    #[test]
    fn few_runs_or_equal_ones_make_none() {
        assert_eq!(Histogram::of(&measure(&[1.0, 2.0]), 10), None);
        assert_eq!(Histogram::of(&measure(&[1.0; 20]), 10), None);
    }
}
