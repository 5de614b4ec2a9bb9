//! Mean, standard deviation and the 95 % interval of a few measurements.

/// What several runs say about one quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// Number of measurements.
    pub(crate) n: usize,
    pub(crate) mean: f64,
    /// Standard deviation of the measurements (with n - 1); 0 for a single one.
    pub(crate) sigma: f64,
}

impl Spread {
    /// Of at least one measurement.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
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
    pub(crate) fn error(&self) -> f64 {
        self.sigma / (self.n as f64).sqrt()
    }

    /// The standard error as a percentage of the mean, as perf prints it.
    pub(crate) fn error_percent(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { 100.0 * self.error() / self.mean }
    }

    /// The interval that holds the true mean with 95 % confidence (Student's t); needs two measurements.
    pub(crate) fn interval95(&self) -> Option<(f64, f64)> {
        let half = student_t(self.n.checked_sub(1).filter(|&freedom| freedom > 0)?) * self.error();
        Some((self.mean - half, self.mean + half))
    }
}

/// The 97.5 % quantile of Student's t distribution.
fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 20] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    ];
    if let Some(&t) = TABLE.get(freedom - 1) {
        return t;
    }
    // The normal quantile with the first terms of its expansion in 1/freedom.
    let (z, v): (f64, f64) = (1.959_964, freedom as f64);
    z + (z.powi(3) + z) / (4.0 * v) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * v * v)
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
    }

    #[test]
    fn one_measurement_has_no_interval() {
        let spread = Spread::of([3.0]).unwrap();
        assert_eq!((spread.sigma, spread.interval95()), (0.0, None));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn student_t_meets_the_tables() {
        for (freedom, t) in [(1, 12.706), (20, 2.086), (21, 2.080), (30, 2.042), (60, 2.000), (1000, 1.962)] {
            assert!((student_t(freedom) - t).abs() < 1e-3, "{freedom}");
        }
    }
}
