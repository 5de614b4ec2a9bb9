//! When a comparison looks at its rounds to see whether they suffice, and how much evidence it wants then.
//!
//! Whoever looks again and again at growing measurements, and stops as soon as a difference seems sure, finds one by chance
//! in the end. So the chance of a false call that all of it may have is spent: the k-th look may use the part
//! `1 / 2k(k+1)` of it, and the look after the last round the half that is left. However the looks depend on each other, all
//! of them together call no more often than the whole allows.

/// The chance of a false call, over all measures of a command together and over all looks.
pub(super) const LEVEL: f64 = 0.01;

/// The looks of one comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looks {
    /// Looks taken so far.
    taken: u32,
    /// The next is after so many rounds.
    next: usize,
}

impl Looks {
    /// The first look is after the fewest rounds.
    pub(super) fn new(least: usize) -> Self {
        Looks { taken: 0, next: least }
    }

    /// The level of a look after so many rounds; `None` where none is due. The next one is due when there are a third more.
    pub(super) fn take(&mut self, done: usize) -> Option<f64> {
        if done < self.next {
            return None;
        }
        self.taken += 1;
        self.next = done + done.div_ceil(3);
        let k = f64::from(self.taken);
        Some(LEVEL / (2.0 * k * (k + 1.0)))
    }

    /// The level of the look after the last round.
    pub(super) fn last(&self) -> f64 {
        if self.taken == 0 { LEVEL } else { LEVEL / 2.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::samples::comparison;
    use crate::compare::{Comparison, Measure, Series, Unit, Verdict};

    #[test]
    fn all_looks_together_spend_no_more_than_there_is() {
        let mut looks = Looks::new(5);
        assert_eq!(looks.last(), LEVEL);
        let spent: f64 = (0..100_000).filter_map(|done| looks.take(done)).sum();
        assert!(looks.taken > 20, "{}", looks.taken);
        assert!(spent + looks.last() <= LEVEL);
    }

    /// A comparison of two commands that looks as rounds come, of 150 rounds at most, where wall and cpu time and three
    /// counts are measured: rounds, and whether any measure was called different. The second command takes `more`.
    fn played(random: &mut fastrand::Rng, more: f64) -> (usize, bool) {
        let names = ["wall", "cpu", "instructions", "page-faults", "rss"];
        let mut values = vec![vec![Vec::new(), Vec::new()]; names.len()];
        let mut looks = Looks::new(5);
        for done in 1..=150 {
            // Three in four rounds are quiet, and in the others something else runs.
            let machine = if random.u8(..4) == 0 { 1.0 + random.f64() } else { 1.0 };
            for (at, measure) in values.iter_mut().enumerate() {
                for (side, mean) in [100.0, 100.0 * more].into_iter().enumerate() {
                    let noise = 1.0 + 0.05 * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0);
                    let value = if at == 0 { mean * noise * machine } else { mean * noise };
                    measure[side].push(Some(value.round()));
                }
            }
            let is_last = done == 150;
            let Some(level) = looks.take(done).or(is_last.then(|| looks.last())) else { continue };
            let series =
                |values: &Vec<Option<f64>>| Series { values: values.clone(), share: 1.0, missing: None };
            let measure = |(id, values): (&&str, &Vec<Vec<Option<f64>>>)| {
                Measure::new(*id, *id, Unit::Nanoseconds, values.iter().map(series).collect())
            };
            let measures = names.iter().zip(&values).map(measure).collect();
            let compared = Comparison::at_level(level, comparison(&[]).candidates, measures, None, false);
            if compared.is_certain() || is_last {
                let is_called = |measure: &Measure| {
                    measure.judged[1].is_some_and(|judged| matches!(judged.verdict, Verdict::Called(_)))
                };
                return (done, compared.measures.iter().any(is_called));
            }
        }
        unreachable!("the last round is looked at")
    }

    #[test]
    fn equal_commands_are_told_apart_in_at_most_5_of_100_trials_however_often_one_looks() {
        let mut random = fastrand::Rng::with_seed(21);
        let called = (0..400).filter(|_| played(&mut random, 1.0).1).count();
        assert!(called <= 20, "{called} of 400");
    }

    #[test]
    fn a_clear_difference_needs_few_rounds() {
        let mut random = fastrand::Rng::with_seed(22);
        let mut rounds: Vec<usize> = (0..100)
            .map(|_| {
                let (rounds, is_called) = played(&mut random, 1.5);
                assert!(is_called);
                rounds
            })
            .collect();
        rounds.sort_unstable();
        assert!(rounds[50] <= 13, "{rounds:?}");
    }
}
