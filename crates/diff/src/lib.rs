#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod classic;
mod compute;
mod export;
mod pairs;
mod proportions;
mod sampled;
mod text;
mod weights;

pub use classic::Classic;
pub use compute::{Compute, Computed, compute};
pub use export::{Named, json, markdown};
pub use pairs::pairs;
pub use perfuse_stat::compare::Estimate;
pub use sampled::{Rounds, RoundsPlan, SampleError, sample_rounds};
pub use text::{Looks, is_time, text};
pub use weights::{Weight, Weights, by_function};

use perfuse_stat::compare::{holm, paired};
use std::collections::BTreeSet;

/// The chance that any function of two equal profiles is called.
const LEVEL: f64 = 0.01;
/// Fewer samples, of both sides together, are not judged.
const LEAST: u64 = 5;

/// The meaning of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// More than before: slower, where it is time of rounds.
    More,
    /// Less than before: faster, where it is time of rounds.
    Less,
    /// It was not there before.
    New,
    /// It is there no more.
    Vanished,
    /// Chance gives such differences.
    Noise,
}

/// Where a report comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Two recordings: differences are of shares.
    Recordings,
    /// Rounds in which two commands ran in turns, so many: differences are of amounts a round.
    Rounds(usize),
}

/// One function, or whatever the weights are of.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Occurrences of the event in it, before and after: nanoseconds where the event is a clock, and the mean of several rounds.
    pub amounts: [f64; 2],
    /// Its shares of all, before and after, from 0 to 1.
    pub shares: [f64; 2],
    /// Samples in it, before and after, of all rounds.
    pub samples: [u64; 2],
    /// The difference of shares or, of rounds, of amounts.
    pub difference: Estimate,
    /// Of rounds: the same as a share of the amount before; `None` where that is 0.
    pub relative: Option<Estimate>,
    /// How probable so large a difference would be if there were none; not corrected for the number of functions.
    pub p: f64,
    /// The meaning of that.
    pub verdict: Verdict,
}

/// All functions of two profiles.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// How it was made.
    pub method: Method,
    /// Occurrences of the event altogether, before and after; of rounds the mean.
    pub wholes: [f64; 2],
    /// Samples altogether, before and after.
    pub samples: [u64; 2],
    /// Functions that are judged.
    pub judged: usize,
    /// Those that are called first, then the others; the largest differences first.
    pub lines: Vec<Line>,
}

impl Verdict {
    /// Whether there is a difference.
    pub fn is_called(self) -> bool {
        self != Verdict::Noise
    }

    /// In a word.
    pub fn word(self, method: Method) -> &'static str {
        match (self, method) {
            (Verdict::More, Method::Recordings) => "more",
            (Verdict::Less, Method::Recordings) => "less",
            (Verdict::More, Method::Rounds(_)) => "slower",
            (Verdict::Less, Method::Rounds(_)) => "faster",
            (Verdict::New, _) => "new",
            (Verdict::Vanished, _) => "vanished",
            (Verdict::Noise, _) => "noise",
        }
    }
}

impl Report {
    /// The line of this name.
    pub fn line(&self, name: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.name == name)
    }

    /// The functions that differ.
    pub fn called(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.verdict.is_called())
    }

    fn of(method: Method, wholes: [f64; 2], samples: [u64; 2], mut lines: Vec<Line>) -> Self {
        let judged: Vec<usize> =
            (0..lines.len()).filter(|&at| lines[at].samples[0] + lines[at].samples[1] >= LEAST).collect();
        let p: Vec<f64> = judged.iter().map(|&at| lines[at].p).collect();
        for (&at, p) in judged.iter().zip(holm(&p)) {
            let line = &mut lines[at];
            line.verdict = match line.samples {
                _ if p >= LEVEL => Verdict::Noise,
                [0, _] => Verdict::New,
                [_, 0] => Verdict::Vanished,
                _ if line.difference.value > 0.0 => Verdict::More,
                _ => Verdict::Less,
            };
        }
        // Where differences are the same, the order of the names stays.
        lines.sort_by(|one, other| {
            let size = |line: &Line| (line.verdict.is_called(), line.difference.value.abs());
            let ((called, size_of_one), (other_called, size_of_other)) = (size(one), size(other));
            other_called.cmp(&called).then(size_of_other.total_cmp(&size_of_one))
        });
        Report { method, wholes, samples, judged: judged.len(), lines }
    }
}

fn names<'w>(all: impl Iterator<Item = &'w Weights>) -> BTreeSet<&'w str> {
    all.flat_map(Weights::names).collect()
}

/// The difference of two recordings, by the shares of their samples.
pub fn of_recordings(before: &Weights, after: &Weights) -> Report {
    let sides = [before, after];
    let (wholes, samples) = (sides.map(Weights::whole), sides.map(Weights::samples));
    let line = |name: &str| {
        let weights = sides.map(|side| side.get(name));
        let share = |at: usize| if wholes[at] > 0.0 { weights[at].amount / wholes[at] } else { 0.0 };
        let shares = [share(0), share(1)];
        let (difference, p) = proportions::difference(shares, samples);
        Line {
            name: name.to_owned(),
            amounts: weights.map(|weight| weight.amount),
            shares,
            samples: weights.map(|weight| weight.samples),
            difference,
            relative: None,
            p,
            verdict: Verdict::Noise,
        }
    };
    let lines = names(sides.into_iter()).into_iter().map(line).collect();
    Report::of(Method::Recordings, wholes, samples, lines)
}

/// The difference of two commands that ran in turns: the weights of each round, in order; where one side has more, its last are
/// left out.
pub fn of_rounds(before: &[Weights], after: &[Weights]) -> Report {
    let rounds = before.len().min(after.len());
    let sides = [&before[..rounds], &after[..rounds]];
    let mean = |sum: f64| sum / rounds.max(1) as f64;
    let wholes = sides.map(|side| mean(side.iter().map(Weights::whole).sum()));
    let samples = sides.map(|side| side.iter().map(Weights::samples).sum());
    let line = |name: &str| {
        let amounts = sides.map(|side| side.iter().map(|round| round.get(name).amount).collect::<Vec<_>>());
        let found = paired(&amounts[0], &amounts[1]);
        let nothing = Estimate { value: 0.0, low: f64::NEG_INFINITY, high: f64::INFINITY };
        let amounts = amounts.map(|amounts| mean(amounts.iter().sum()));
        let share = |at: usize| if wholes[at] > 0.0 { amounts[at] / wholes[at] } else { 0.0 };
        let samples = sides.map(|side| side.iter().map(|round| round.get(name).samples).sum());
        Line {
            name: name.to_owned(),
            amounts,
            shares: [share(0), share(1)],
            samples,
            difference: found.map_or(nothing, |found| found.absolute),
            relative: found.and_then(|found| found.relative),
            // A few rounds may agree by chance: it is no surer than so few samples are.
            p: found.map_or(1.0, |found| found.p.max(proportions::counts(samples))),
            verdict: Verdict::Noise,
        }
    };
    let lines = names(sides.into_iter().flatten()).into_iter().map(line).collect();
    Report::of(Method::Rounds(rounds), wholes, samples, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 200 functions; the n-th has a share that falls with n.
    const FUNCTIONS: usize = 200;
    /// Samples of a round.
    const SAMPLES: f64 = 4000.0;

    fn shares() -> Vec<f64> {
        let raw: Vec<f64> = (0..FUNCTIONS).map(|at| 1.0 / (at + 4) as f64).collect();
        let sum: f64 = raw.iter().sum();
        raw.iter().map(|share| share / sum).collect()
    }

    /// A count as sampling gives it, by Knuth for few and nearly normal for many.
    fn poisson(random: &mut fastrand::Rng, mean: f64) -> u64 {
        if mean > 30.0 {
            let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            return (mean + mean.sqrt() * normal).round().max(0.0) as u64;
        }
        let (limit, mut product, mut count) = ((-mean).exp(), random.f64(), 0);
        while product > limit {
            product *= random.f64();
            count += 1;
        }
        count
    }

    fn sampled(random: &mut fastrand::Rng, shares: &[f64], samples: f64, slow: Option<usize>) -> Weights {
        let mut weights = Weights::default();
        for (at, share) in shares.iter().enumerate() {
            let factor = if slow == Some(at) { 1.1 } else { 1.0 };
            let count = poisson(random, share * samples * factor);
            weights.add(&format!("f{at}"), Weight { amount: count as f64 * 1e6, samples: count });
        }
        weights
    }

    /// So many rounds of both sides, on a machine that is up to a third slower in some.
    fn rounds(random: &mut fastrand::Rng, count: usize, slow: Option<usize>) -> Report {
        let shares = shares();
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let samples = SAMPLES * (1.0 + random.f64() / 3.0);
            old.push(sampled(random, &shares, samples, None));
            new.push(sampled(random, &shares, samples, slow));
        }
        of_rounds(&old, &new)
    }

    #[test]
    fn equal_profiles_raise_an_alarm_in_at_most_5_of_100_reports() {
        let mut random = fastrand::Rng::with_seed(31);
        let alarms = (0..200).filter(|_| rounds(&mut random, 8, None).called().next().is_some()).count();
        assert!(alarms <= 10, "{alarms} of 200 reports of rounds");
        let shares = shares();
        let alarms = (0..200).filter(|_| {
            let one = sampled(&mut random, &shares, 20_000.0, None);
            let other = sampled(&mut random, &shares, 35_000.0, None);
            of_recordings(&one, &other).called().next().is_some()
        });
        let alarms = alarms.count();
        assert!(alarms <= 10, "{alarms} of 200 reports of recordings");
    }

    #[test]
    fn one_function_of_200_that_became_a_tenth_slower_is_named() {
        let mut random = fastrand::Rng::with_seed(32);
        let (mut named, mut others) = (0, 0);
        for _ in 0..60 {
            let report = rounds(&mut random, 40, Some(0));
            let called: Vec<_> = report.called().collect();
            named +=
                usize::from(called.iter().any(|line| line.name == "f0" && line.verdict == Verdict::More));
            others += usize::from(called.iter().any(|line| line.name != "f0"));
        }
        assert!(named >= 57 && others <= 3, "named in {named} of 60, others in {others}");
    }

    #[test]
    fn what_is_new_and_what_has_vanished_is_told() {
        let mut random = fastrand::Rng::with_seed(33);
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for _ in 0..10 {
            let mut count = |mean| {
                let samples = poisson(&mut random, mean);
                Weight { amount: samples as f64, samples }
            };
            old.push([("stays", count(500.0)), ("goes", count(60.0)), ("rare", count(0.1))].into());
            new.push([("stays", count(500.0)), ("comes", count(60.0))].into());
        }
        let verdicts = |report: &Report| {
            ["goes", "comes", "stays", "rare"].map(|name| report.line(name).map(|line| line.verdict))
        };
        let wanted = [Verdict::Vanished, Verdict::New, Verdict::Noise, Verdict::Noise].map(Some);
        assert_eq!(verdicts(&of_rounds(&old, &new))[..3], wanted[..3]);
        assert_eq!(verdicts(&of_recordings(&old[0], &new[0]))[..3], wanted[..3]);
    }

    #[test]
    fn nothing_at_all_is_no_difference() {
        let nothing = Weights::default();
        assert!(of_recordings(&nothing, &nothing).lines.is_empty());
        let some: Weights = [("main", 7.0)].into();
        let report = of_recordings(&nothing, &some);
        assert_eq!((report.lines[0].verdict, report.lines[0].shares), (Verdict::Noise, [0.0, 1.0]));
        assert!(of_rounds(&[], std::slice::from_ref(&some)).lines.is_empty());
        let one = of_rounds(&[nothing], &[some]);
        assert_eq!((one.lines[0].verdict, one.lines[0].difference.high), (Verdict::Noise, f64::INFINITY));
    }
}
