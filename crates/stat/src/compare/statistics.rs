//! The difference of the means of two series of measurements, with its interval.
//!
//! In rounds, where each command ran once, the series are **paired**: what was slow for all of them in a
//! round (another program, a warm cpu) cancels. Against a series of another time they are not, and the
//! interval is Welch's. The interval of the relative difference is Fieller's for the quotient of two means,
//! which takes into account that the reference was measured too, and agrees with the t-test: it holds
//! 0 exactly when the test sees no difference on the 5 % level.

use crate::spread::two_sided;
use crate::{Spread, beyond, student_t};

/// A number and the interval that holds its true value with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The most likely value.
    pub value: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
}

impl Estimate {
    /// Half the width of the interval; infinite where it is open.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

impl Difference {
    /// It is surely smaller than `share` of the reference: so sure that chance says so once in `1 / level` times.
    pub(super) fn is_within(&self, share: f64, level: f64) -> bool {
        let Some(Estimate { value, low, high }) = self.relative else {
            return self.absolute == Estimate { value: 0.0, low: 0.0, high: 0.0 };
        };
        let freedom = self.n.max(2) as f64 - 1.0;
        let wider = two_sided(level, freedom) / student_t(freedom);
        (value - low) * wider - value <= share && (high - value) * wider + value <= share
    }
}

/// The difference of a mean to that of the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// In the unit of the measurements.
    pub absolute: Estimate,
    /// As a share of the reference's mean: 0.02 is 2 % more. Where that mean cannot be told from 0 the interval has no upper
    /// end (`INFINITY`). `None` where that mean is 0.
    pub relative: Option<Estimate>,
    /// How probable so large a difference would be if there were none.
    pub p: f64,
    /// Number of pairs, or of measurements of the smaller series.
    pub n: usize,
}

/// Of two series of which those at the same place belong together; `None` for fewer than two pairs.
pub fn paired(reference: &[f64], measured: &[f64]) -> Option<Difference> {
    let n = reference.len().min(measured.len());
    let (a, b) = (Spread::of(reference[..n].iter().copied())?, Spread::of(measured[..n].iter().copied())?);
    if n < 2 {
        return None;
    }
    let pairs = || reference.iter().zip(measured);
    let differences = Spread::of(pairs().map(|(a, b)| b - a))?;
    let freedom = (n - 1) as f64;
    let t = student_t(freedom);
    // Everything relative to the reference's mean: the numbers stay near 1.
    let relative = (a.mean != 0.0).then(|| {
        let quotient = b.mean / a.mean;
        let residuals = Spread::of(pairs().map(|(x, y)| (y - quotient * x) / a.mean))?;
        let sums: f64 = pairs().map(|(x, y)| (x - a.mean) * (y - b.mean)).sum();
        let scale = n as f64 * a.mean * a.mean;
        let moments = Moments {
            quotient,
            residual: residuals.error().powi(2),
            reference: a.sigma.powi(2) / scale,
            measured: b.sigma.powi(2) / scale,
            both: sums / freedom / scale,
        };
        Some(moments.fieller(t))
    });
    Some(difference(differences.mean, differences.error(), t, freedom, relative.flatten(), n))
}

/// Of two series that were measured apart; `None` if one has fewer than two values.
pub(super) fn unpaired(reference: &[f64], measured: &[f64]) -> Option<Difference> {
    let (a, b) = (Spread::of(reference.iter().copied())?, Spread::of(measured.iter().copied())?);
    if a.n < 2 || b.n < 2 {
        return None;
    }
    let (va, vb) = (a.error().powi(2), b.error().powi(2));
    // Welch and Satterthwaite: between the smaller series' freedom and that of both.
    let least = (a.n.min(b.n) - 1) as f64;
    let freedom = (va + vb).powi(2) / (va * va / (a.n - 1) as f64 + vb * vb / (b.n - 1) as f64);
    let freedom = if freedom.is_finite() { freedom.max(least) } else { least };
    let t = student_t(freedom);
    let relative = (a.mean != 0.0).then(|| {
        let scale = a.mean * a.mean;
        let quotient = b.mean / a.mean;
        let (reference, measured) = (va / scale, vb / scale);
        let residual = measured + quotient * quotient * reference;
        Moments { quotient, residual, reference, measured, both: 0.0 }.fieller(t)
    });
    Some(difference(b.mean - a.mean, (va + vb).sqrt(), t, freedom, relative, a.n.min(b.n)))
}

fn difference(
    mean: f64,
    error: f64,
    t: f64,
    freedom: f64,
    relative: Option<Estimate>,
    n: usize,
) -> Difference {
    let p = match (mean == 0.0, error == 0.0) {
        (true, _) => 1.0,
        // All pairs differ by the same.
        (false, true) => 0.0,
        (false, false) => beyond(mean / error, freedom),
    };
    let absolute = Estimate { value: mean, low: mean - t * error, high: mean + t * error };
    Difference { absolute, relative, p, n }
}

/// Two means in units of the reference's: their quotient and the (co)variances of the means.
struct Moments {
    quotient: f64,
    /// Variance of measured - quotient * reference.
    residual: f64,
    reference: f64,
    measured: f64,
    both: f64,
}

impl Moments {
    /// The interval of the quotient, less 1. It has no upper end where the reference's mean may be 0: then the quotients that
    /// the measurements allow are those outside of two ends, of which the lower one is below 0, or all.
    fn fieller(&self, t: f64) -> Estimate {
        let t2 = t * t;
        let lead = 1.0 - t2 * self.reference;
        let middle = self.quotient - t2 * self.both;
        let root = t2 * self.residual + t2 * t2 * (self.both * self.both - self.reference * self.measured);
        let at = |root: f64| (middle + root) / lead - 1.0;
        let value = self.quotient - 1.0;
        if lead > 0.0 {
            let root = root.max(0.0).sqrt();
            return Estimate { value, low: at(-root), high: at(root) };
        }
        let ends = (lead < 0.0 && root > 0.0).then(|| (at(root.sqrt()), at(-root.sqrt())));
        let least = ends.filter(|&(lower, upper)| lower <= -1.0 && upper > -1.0).map(|(_, upper)| upper);
        Estimate { value, low: least.unwrap_or(f64::NEG_INFINITY), high: f64::INFINITY }
    }
}

/// Values of p, of tests made together, such that one below a level is as improbable as that level says
/// even though there were many (Holm's method).
pub fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut adjusted = vec![1.0; values.len()];
    let mut largest: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        largest = largest.max(values[at] * (values.len() - rank) as f64);
        adjusted[at] = largest.min(1.0);
    }
    adjusted
}

/// Values that are far from the others: more than five times the usual distance from the median.
pub fn outliers(values: &[f64]) -> usize {
    let Some(middle) = median(values.iter().copied()) else { return 0 };
    // 1.4826 makes it sigma for normal values; what varies less than a thousandth has none.
    let usual = median(values.iter().map(|value| (value - middle).abs())).unwrap_or(0.0) * 1.4826;
    let limit = 5.0 * usual.max(middle.abs() * 1e-3);
    values.iter().filter(|value| (*value - middle).abs() > limit).count()
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Normal values, by Box and Muller.
    struct Normal(fastrand::Rng);

    impl Normal {
        fn next(&mut self, mean: f64, sigma: f64) -> f64 {
            let (u, v) = (1.0 - self.0.f64(), self.0.f64());
            mean + sigma * (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
        }
    }

    /// How many of 4000 experiments give an interval that holds the true relative difference.
    fn coverage(seed: u64, truth: f64, mut experiment: impl FnMut(&mut Normal) -> Option<Difference>) -> f64 {
        let mut normal = Normal(fastrand::Rng::with_seed(seed));
        let held = (0..4000).filter(|_| {
            let relative = experiment(&mut normal).and_then(|found| found.relative).expect("an interval");
            (relative.low..=relative.high).contains(&truth)
        });
        held.count() as f64 / 4000.0
    }

    #[test]
    fn intervals_of_pairs_hold_the_truth_in_95_of_100_cases() {
        // Noise of 2 % and of 20 %, few rounds and many; the second command is 7 % slower.
        for (seed, sigma, n) in [(1, 2.0, 5), (2, 2.0, 30), (3, 20.0, 10), (4, 20.0, 40)] {
            let covered = coverage(seed, 0.07, |normal| {
                let a: Vec<f64> = (0..n).map(|_| normal.next(100.0, sigma)).collect();
                let b: Vec<f64> = (0..n).map(|_| normal.next(107.0, sigma * 1.5)).collect();
                paired(&a, &b)
            });
            assert!((0.93..=0.97).contains(&covered), "sigma {sigma}, {n} rounds: {covered}");
        }
    }

    #[test]
    fn what_a_round_has_in_common_does_not_widen_the_interval() {
        // The machine drifts by 50 % and jumps by 10 % from round to round; the commands' own noise is 1 %.
        let n = 20;
        let mut widths = 0.0;
        let covered = coverage(5, 0.03, |normal| {
            let machine: Vec<f64> = (0..n)
                .map(|at| normal.next(1.0, 0.1).max(0.1) * (1.0 + 0.5 * at as f64 / n as f64))
                .collect();
            let a: Vec<f64> = machine.iter().map(|speed| speed * normal.next(100.0, 1.0)).collect();
            let b: Vec<f64> = machine.iter().map(|speed| speed * normal.next(103.0, 1.0)).collect();
            let found = paired(&a, &b);
            widths += found.and_then(|found| found.relative).map_or(0.0, |found| found.half_width());
            found
        });
        assert!((0.93..=0.97).contains(&covered), "{covered}");
        assert!(widths / 4000.0 < 0.01, "mean half width {}", widths / 4000.0);
    }

    #[test]
    fn skewed_times_are_covered_too() {
        // Wall times: a floor, and now and then much more.
        let covered = coverage(6, 0.05, |normal| {
            let mut series = |mean: f64| -> Vec<f64> {
                // The mean of exp(N(0, 0.5)) is exp(0.125).
                (0..25).map(|_| mean * (normal.next(0.0, 0.5).exp() / 0.125f64.exp() + 4.0) / 5.0).collect()
            };
            let (a, b) = (series(100.0), series(105.0));
            paired(&a, &b)
        });
        assert!((0.93..=0.97).contains(&covered), "{covered}");
    }

    #[test]
    fn intervals_of_series_measured_apart_hold_the_truth_in_95_of_100_cases() {
        for (seed, n, m) in [(7, 10, 10), (8, 8, 40), (9, 50, 12)] {
            let covered = coverage(seed, -0.1, |normal| {
                let a: Vec<f64> = (0..n).map(|_| normal.next(50.0, 2.0)).collect();
                let b: Vec<f64> = (0..m).map(|_| normal.next(45.0, 6.0)).collect();
                unpaired(&a, &b)
            });
            assert!((0.93..=0.97).contains(&covered), "{n} and {m}: {covered}");
        }
    }

    fn holds_zero(estimate: &Estimate) -> bool {
        estimate.low <= 0.0 && estimate.high >= 0.0
    }

    #[test]
    fn interval_and_test_agree() {
        let mut normal = Normal(fastrand::Rng::with_seed(10));
        let mut near = 0;
        for _ in 0..2000 {
            let a: Vec<f64> = (0..12).map(|_| normal.next(100.0, 5.0)).collect();
            let b: Vec<f64> = (0..12).map(|_| normal.next(104.0, 5.0)).collect();
            for found in [paired(&a, &b), unpaired(&a, &b)].into_iter().flatten() {
                let relative = found.relative.expect("a mean far from 0");
                assert!((found.p < 0.05) != holds_zero(&found.absolute) || (found.p - 0.05).abs() < 1e-6);
                // Welch's freedom belongs to equal weights; Fieller's root does to the quotient's.
                near += usize::from((found.p < 0.05) == holds_zero(&relative));
            }
        }
        assert!(near <= 8, "{near} of 4000 differ");
    }

    #[test]
    fn numbers_by_hand() {
        let found = paired(&[10.0, 12.0, 11.0], &[11.0, 13.5, 11.5]).expect("three pairs");
        // Differences 1, 1.5, 0.5: mean 1, error 0.2887; t of 2 degrees 4.303.
        assert!((found.absolute.value - 1.0).abs() < 1e-12);
        assert!((found.absolute.high - 2.2421).abs() < 1e-3, "{found:?}");
        assert!((found.p - 0.0742).abs() < 1e-3, "{found:?}");
        assert!((found.relative.expect("far from 0").value - 1.0 / 11.0).abs() < 1e-12);
    }

    #[test]
    fn counts_that_never_vary_differ_or_not() {
        let same = paired(&[7.0; 6], &[7.0; 6]).expect("pairs");
        assert_eq!((same.p, same.relative.map(|found| found.half_width())), (1.0, Some(0.0)));
        let more = paired(&[100.0; 6], &[101.0; 6]).expect("pairs");
        assert_eq!(more.p, 0.0);
        let relative = more.relative.expect("a mean");
        assert!((relative.low - 0.01).abs() < 1e-12 && (relative.high - 0.01).abs() < 1e-12);
    }

    #[test]
    fn a_reference_of_zero_has_differences_in_units_only() {
        let found = paired(&[0.0, 0.0, 0.0], &[1.0, 2.0, 3.0]).expect("pairs");
        assert_eq!((found.relative, found.absolute.value), (None, 2.0));
        assert_eq!(paired(&[1.0], &[2.0]), None);
        assert_eq!(unpaired(&[1.0, 2.0], &[]), None);
    }

    #[test]
    fn a_reference_that_may_be_zero_has_an_open_interval() {
        // 0.1 +- 0.13 against 10 +- 0.1: at least some forty times.
        let found =
            unpaired(&[0.2, -0.1, 0.2, 0.1], &[10.1, 9.9, 10.0, 10.0]).and_then(|found| found.relative);
        let found = found.expect("a mean");
        assert_eq!(found.high, f64::INFINITY);
        assert!((20.0..60.0).contains(&found.low) && found.value > 90.0, "{found:?}");
        // Nobody knows whether it is more or less.
        let found =
            unpaired(&[1.0, -1.1, 1.2, -0.9], &[1.0, -1.0, 1.0, 1.0]).and_then(|found| found.relative);
        let found = found.expect("a mean");
        assert_eq!((found.low, found.high), (f64::NEG_INFINITY, f64::INFINITY), "{found:?}");
    }

    #[test]
    fn surely_nothing_needs_more_than_an_interval_within_the_limit() {
        let near = |off: f64| {
            let a: Vec<f64> = (0..10).map(|at| 100.0 + off * f64::from(at % 3)).collect();
            let b: Vec<f64> = (0..10).map(|at| 100.0 + off * f64::from((at + 1) % 3)).collect();
            paired(&a, &b).expect("pairs")
        };
        assert!(near(0.1).is_within(0.01, 0.001));
        let edge = near(0.8);
        assert!(edge.relative.is_some_and(|found| found.half_width() < 0.01));
        assert!(!edge.is_within(0.01, 0.0001), "{edge:?}");
    }

    #[test]
    fn many_tests_need_more_evidence_each() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.9, 0.6]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn outliers_are_far_from_the_others() {
        assert_eq!(outliers(&[10.0, 10.1, 9.9, 10.05, 30.0]), 1);
        assert_eq!(outliers(&[10.0, 11.0, 12.0, 13.0]), 0);
        assert_eq!(outliers(&[10.0, 10.0, 10.0, 10.001]), 0);
    }
}
