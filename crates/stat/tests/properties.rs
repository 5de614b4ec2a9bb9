//! Statistics hold for whatever was measured: spreads, and verdicts of comparisons.

use perfuse_stat::Spread;
use perfuse_stat::compare::{Candidate, Comparison, Direction, Measure, Series, Unit, Verdict};
use proptest::prelude::*;

fn measured() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(1.0..1e9, 2..40)
}

fn near(a: f64, b: f64, scale: f64) -> bool {
    (a - b).abs() <= 1e-9 * scale.abs().max(1.0)
}

proptest! {
    #[test]
    fn a_spread_does_not_depend_on_the_order(values in measured()) {
        let (there, back) =
            (Spread::of(values.iter().copied()).unwrap(), Spread::of(values.iter().rev().copied()).unwrap());
        prop_assert!(near(there.mean, back.mean, there.mean));
        prop_assert!(near(there.sigma, back.sigma, there.mean));
    }

    #[test]
    fn a_mean_lies_within_its_interval_and_among_the_values(values in measured()) {
        let spread = Spread::of(values.iter().copied()).unwrap();
        let (low, high) = spread.interval95().unwrap();
        prop_assert!(low <= spread.mean && spread.mean <= high);
        let (least, most) =
            values.iter().fold((f64::MAX, f64::MIN), |(least, most), &value| (least.min(value), most.max(value)));
        prop_assert!(spread.mean >= least - 1e-9 * most && spread.mean <= most + 1e-9 * most);
        prop_assert!(spread.sigma <= (most - least) * 1.000_001);
    }

    #[test]
    fn a_spread_follows_the_unit(values in measured(), factor in 0.001..1000.0) {
        let one = Spread::of(values.iter().copied()).unwrap();
        let other = Spread::of(values.iter().map(|value| value * factor)).unwrap();
        prop_assert!(near(one.mean * factor, other.mean, other.mean));
        prop_assert!(near(one.sigma * factor, other.sigma, other.mean));
        prop_assert!(near(one.error_percent(), other.error_percent(), one.error_percent()));
    }

    #[test]
    fn a_command_does_not_differ_from_itself(values in measured()) {
        let judged = judge(&values, &values, false);
        prop_assert!(matches!(judged.0, Verdict::NoChange | Verdict::Unclear), "{:?}", judged.0);
        prop_assert_eq!(judged.1, 0.0);
    }

    #[test]
    fn commands_that_change_places_differ_the_other_way_round(reference in measured(), factor in 0.5..2.0, apart in any::<bool>()) {
        let other: Vec<f64> = reference.iter().rev().map(|value| value * factor).collect();
        let (there, back) = (judge(&reference, &other, apart), judge(&other, &reference, apart));
        prop_assert_eq!(there.1, -back.1);
        let turned = |verdict| match verdict {
            Verdict::Called(Direction::Less) => Some(Direction::More),
            Verdict::Called(Direction::More) => Some(Direction::Less),
            _ => None,
        };
        let called = |verdict| match verdict {
            Verdict::Called(direction) => Some(direction),
            _ => None,
        };
        prop_assert_eq!(turned(there.0), called(back.0));
    }

    #[test]
    fn a_large_and_steady_difference_is_called(base in 1.0..1e9, rounds in 5usize..30, apart in any::<bool>()) {
        // Both are known to about a thousandth.
        let series = |mean: f64| -> Vec<f64> {
            (0..rounds).map(|round| mean * (1.0 + 1e-3 * ((round % 3) as f64 - 1.0))).collect()
        };
        let (verdict, by) = judge(&series(base), &series(base * 1.5), apart);
        prop_assert_eq!(verdict, Verdict::Called(Direction::More));
        prop_assert!(near(by, base * 0.5, base * 1e7));
    }
}

/// The verdict about the second of two series, and by how much its mean differs.
fn judge(reference: &[f64], measured: &[f64], apart: bool) -> (Verdict, f64) {
    let series = |values: &[f64]| Series {
        values: values.iter().copied().map(Some).collect(),
        share: 1.0,
        missing: None,
    };
    let candidate =
        |name: &str| Candidate { name: name.into(), command: name.into(), parameters: Vec::new() };
    let measure = Measure::new("wall", "wall", Unit::Nanoseconds, vec![series(reference), series(measured)]);
    let comparison = Comparison::new(vec![candidate("a"), candidate("b")], vec![measure], None, apart);
    let judged = comparison.decisive().judged[1].expect("two runs and more");
    (judged.verdict, judged.difference.absolute.value)
}
