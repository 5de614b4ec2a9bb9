//! Mean, standard deviation and the 95 % interval of a few measurements.

use statrs::distribution::{ContinuousCDF, StudentsT};
use std::sync::OnceLock;

/// The mean and spread of one quantity over several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Spread {
    /// Number of measurements.
    pub n: usize,
    /// The mean.
    pub mean: f64,
    /// Standard deviation of the measurements (with n - 1); 0 for a single one.
    pub sigma: f64,
}

impl Spread {
    /// Of at least one measurement.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        // Welford's recurrence: large counts with a small spread lose no digits.
        let (mut n, mut mean, mut squares) = (0usize, 0.0, 0.0);
        for value in values {
            n += 1;
            let off: f64 = value - mean;
            mean += off / n as f64;
            squares += off * (value - mean);
        }
        let sigma = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        (n > 0).then_some(Spread { n, mean, sigma })
    }

    /// The standard error of the mean.
    pub fn error(&self) -> f64 {
        self.sigma / (self.n as f64).sqrt()
    }

    /// The standard error as a percentage of the mean, as perf prints it.
    pub fn error_percent(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { 100.0 * self.error() / self.mean }
    }

    /// The interval that holds the true mean with 95 % confidence (Student's t); needs two measurements. As counts and times are never
    /// below 0, it begins there at the lowest.
    pub fn interval95(&self) -> Option<(f64, f64)> {
        let freedom = self.n.checked_sub(1).filter(|&freedom| freedom > 0)?;
        let half = student_t(freedom as f64) * self.error();
        Some(((self.mean - half).max(0.0), self.mean + half))
    }
}

/// The 97.5 % quantile of Student's t distribution with this many degrees of freedom (more than 0).
pub fn student_t(freedom: f64) -> f64 {
    // It takes long to find, and reports of many functions ask for the same one again and again.
    static KNOWN: [OnceLock<f64>; 128] = [const { OnceLock::new() }; 128];
    match KNOWN.get(freedom as usize).filter(|_| freedom.fract() == 0.0) {
        Some(known) => *known.get_or_init(|| two_sided(0.05, freedom)),
        None => two_sided(0.05, freedom),
    }
}

/// So far from 0 a value of Student's t distribution is with the probability `level`.
pub(crate) fn two_sided(level: f64, freedom: f64) -> f64 {
    student(freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(1.0 - level / 2.0))
}

/// How probable it is that a value of Student's t distribution is at least so far from 0.
pub fn beyond(t: f64, freedom: f64) -> f64 {
    student(freedom).map_or(1.0, |student| 2.0 * student.cdf(-t.abs()))
}

fn student(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_known_numbers() {
        let spread = Spread::of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(spread.mean, 5.0);
        assert!((spread.sigma - 2.138).abs() < 1e-3);
        let (low, high) = spread.interval95().unwrap();
        assert!((low - 3.2126).abs() < 1e-3 && (high - 6.7874).abs() < 1e-3);
        assert!((spread.error_percent() - 15.119).abs() < 1e-3);
        let (low, high) = Spread::of([1.0, 2.0, 5.0]).unwrap().interval95().unwrap();
        assert!(low == 0.0 && (high - 7.838).abs() < 1e-3, "{high}");
    }

    #[test]
    fn one_measurement_has_no_interval() {
        let spread = Spread::of([3.0]).unwrap();
        assert_eq!((spread.sigma, spread.interval95()), (0.0, None));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn student_t_meets_the_tables() {
        for (freedom, t) in
            [(1.0, 12.706), (4.5, 2.659), (20.0, 2.086), (30.0, 2.042), (60.0, 2.000), (1000.0, 1.962)]
        {
            assert!((student_t(freedom) - t).abs() < 1e-3, "{freedom}: {}", student_t(freedom));
            assert!((beyond(t, freedom) - 0.05).abs() < 1e-3, "{freedom}");
        }
        assert_eq!(beyond(f64::INFINITY, 9.0), 0.0);
    }
}
