//! The difference of two proportions: its interval by Newcombe, from Wilson's of each, which stays within what can be and is
//! right for few samples and for none; its probability by the score test. Beside it that of two numbers of samples.

use perfuse_stat::beyond;
use perfuse_stat::compare::Estimate;

/// The 97.5 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// Wilson's interval of a proportion of `n` samples.
fn wilson(p: f64, n: f64) -> (f64, f64) {
    if n == 0.0 {
        return (0.0, 1.0);
    }
    let z2 = Z * Z;
    let middle = p + z2 / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    let whole = 1.0 + z2 / n;
    ((middle - half) / whole, (middle + half) / whole)
}

/// The second less the first, and how probable so large a difference is by chance. `samples` are those of all.
pub(crate) fn difference(shares: [f64; 2], samples: [u64; 2]) -> (Estimate, f64) {
    let n = samples.map(|samples| samples as f64);
    let [(low_of_old, high_of_old), (low_of_new, high_of_new)] = [0, 1].map(|at| wilson(shares[at], n[at]));
    let [old, new] = shares;
    let value = new - old;
    let low = value - (new - low_of_new).hypot(high_of_old - old);
    let high = value + (high_of_new - new).hypot(old - low_of_old);
    let pooled = (old * n[0] + new * n[1]) / (n[0] + n[1]).max(1.0);
    let error = (pooled * (1.0 - pooled) * (1.0 / n[0] + 1.0 / n[1])).sqrt();
    // Without samples on a side the error is infinite; where all is one function it is nothing.
    let p = if error > 0.0 && error.is_finite() { beyond(value / error, f64::INFINITY) } else { 1.0 };
    (Estimate { value, low, high }, p)
}

/// How probable so different numbers of samples are, if both are of the same time.
pub(crate) fn counts(samples: [u64; 2]) -> f64 {
    let [old, new] = samples.map(|samples| samples as f64);
    if old == new { 1.0 } else { beyond((new - old) / (old + new).sqrt(), f64::INFINITY) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newcombes_own_examples() {
        // R. G. Newcombe, Statistics in Medicine 17 (1998), table II, method 10.
        for (old, n_old, new, n_new, low, high) in [
            (48.0, 80, 56.0, 70, 0.0524, 0.3339),
            (3.0, 10, 9.0, 10, 0.1705, 0.8090),
            (0.0, 10, 10.0, 10, 0.6075, 1.0),
        ] {
            let (found, _) = difference([old / n_old as f64, new / n_new as f64], [n_old, n_new]);
            assert!((found.low - low).abs() < 1e-3 && (found.high - high).abs() < 1e-3, "{found:?}");
        }
    }

    #[test]
    fn the_score_test_by_hand() {
        // 40 of 100 and 60 of 100: pooled 0.5, error 0.0707, z 2.828.
        let (_, p) = difference([0.4, 0.6], [100, 100]);
        assert!((p - 0.004678).abs() < 1e-5, "{p}");
        assert_eq!(difference([0.0, 0.0], [10, 10]).1, 1.0);
        assert_eq!(difference([0.0, 1.0], [0, 10]).1, 1.0);
    }

    #[test]
    fn intervals_hold_the_truth_in_95_of_100_cases() {
        let mut random = fastrand::Rng::with_seed(34);
        for (old, new, n) in [(0.3, 0.35, 200), (0.02, 0.05, 300), (0.5, 0.5, 60)] {
            let held = (0..2000).filter(|_| {
                let mut share = |p: f64| (0..n).filter(|_| random.f64() < p).count() as f64 / n as f64;
                let (found, _) = difference([share(old), share(new)], [n, n]);
                (found.low..=found.high).contains(&(new - old))
            });
            let held = held.count() as f64 / 2000.0;
            assert!((0.93..=0.98).contains(&held), "{old} {new} {n}: {held}");
        }
    }
}
