//! The measurements of all commands, and what they say: differences, verdicts, the measure that decides.
//! Plain data; nothing here knows how it was obtained or how it will look.

use super::looks::LEVEL;
use super::statistics::{self, Difference};
use crate::Spread;

/// Fewer rounds are never called, however alike they are.
const LEAST_RUNS: usize = 5;
/// A difference that is surely smaller, as a share, is none.
const NOTHING: f64 = 0.01;
/// Wall time known to this share is good enough to decide.
const FINE: f64 = 0.01;

/// The unit of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Time.
    Nanoseconds,
    /// Memory.
    Bytes,
    /// Something that happens.
    Count,
}

/// A command that took part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Its words.
    pub command: String,
    /// The parameters: each NAME, and the word that stood for {NAME}.
    pub parameters: Vec<(String, String)>,
}

/// One measure of all commands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Measure {
    /// Its name for options.
    pub id: String,
    /// Its name for people.
    pub title: String,
    /// Its unit.
    pub unit: Unit,
    /// By command.
    pub series: Vec<Series>,
    /// By command; nothing for the reference, or where too little was measured.
    pub judged: Vec<Option<Judged>>,
}

/// One measure of one command, round by round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// A value for each run; `None` where it was not counted.
    pub values: Vec<Option<f64>>,
    /// The share of its time that the event was counting; the rest is estimated.
    pub share: f64,
    /// Why values are missing.
    pub missing: Option<String>,
}

/// A difference and what to make of it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Judged {
    /// By how much.
    pub difference: Difference,
    /// The meaning of that.
    pub verdict: Verdict,
}

/// The meaning of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// None, or less than a percent.
    NoChange,
    /// None was seen, but one of some percent would not have been.
    Unclear,
    /// By itself it looks like one; among so many measures it may be chance.
    Perhaps(Direction),
    /// There is one.
    Called(Direction),
}

/// Where a difference points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Less than the reference.
    Less,
    /// More than the reference.
    More,
}

/// All of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// The first is the reference.
    pub candidates: Vec<Candidate>,
    /// The measures, in order.
    pub measures: Vec<Measure>,
    /// The measure that decides; an index.
    pub by: usize,
    /// Somebody chose it.
    pub is_chosen: bool,
    /// The reference was measured at another time.
    pub apart: bool,
    /// Differences are called when the chance of a false call is below this, over all measures of a command together.
    pub level: f64,
}

impl Series {
    /// Those that were measured.
    pub fn known(&self) -> Vec<f64> {
        self.values.iter().flatten().copied().collect()
    }

    /// Mean and deviation of all runs.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(self.values.iter().flatten().copied())
    }
}

impl Measure {
    /// One that is yet to be judged.
    pub fn new(id: impl Into<String>, title: impl Into<String>, unit: Unit, series: Vec<Series>) -> Self {
        Measure { id: id.into(), title: title.into(), unit, judged: vec![None; series.len()], series }
    }

    fn difference(&self, candidate: usize, apart: bool) -> Option<Difference> {
        let (reference, measured) = (&self.series[0], &self.series[candidate]);
        if apart {
            return statistics::unpaired(&reference.known(), &measured.known());
        }
        let pairs = reference.values.iter().zip(&measured.values);
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.filter_map(|(a, b)| a.zip(*b)).unzip();
        statistics::paired(&a, &b)
    }

    /// The widest interval of all commands, as half its width and a share of the reference.
    pub fn uncertainty(&self) -> Option<f64> {
        let half = |judged: &Judged| judged.difference.relative.map(|relative| relative.half_width());
        let all = self.judged.iter().skip(1).map(|judged| judged.as_ref().and_then(half));
        all.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
    }
}

impl Comparison {
    /// Works out what measurements say. `by` decides, if given.
    pub fn new(candidates: Vec<Candidate>, measures: Vec<Measure>, by: Option<&str>, apart: bool) -> Self {
        Self::at_level(LEVEL, candidates, measures, by, apart)
    }

    /// The same, with another chance of a false call than one in a hundred.
    pub fn at_level(
        level: f64,
        candidates: Vec<Candidate>,
        mut measures: Vec<Measure>,
        by: Option<&str>,
        apart: bool,
    ) -> Self {
        for candidate in 1..candidates.len() {
            let differences: Vec<_> =
                measures.iter().map(|measure| measure.difference(candidate, apart)).collect();
            let p: Vec<f64> = differences.iter().flatten().map(|difference| difference.p).collect();
            let mut adjusted = statistics::holm(&p).into_iter();
            for (measure, difference) in measures.iter_mut().zip(differences) {
                measure.judged[candidate] = difference.map(|difference| Judged {
                    difference,
                    verdict: verdict(&difference, adjusted.next().unwrap_or(1.0), level),
                });
            }
        }
        let mut comparison = Comparison { candidates, measures, by: 0, is_chosen: false, apart, level };
        let chosen = by.and_then(|by| comparison.find(by));
        comparison.is_chosen = chosen.is_some();
        comparison.by = chosen.unwrap_or_else(|| comparison.trusted());
        comparison
    }

    /// The measure of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        let is = |measure: &Measure| measure.id == name || measure.title == name;
        self.measures.iter().position(is)
    }

    /// Wall time is what people wait for. Where it is noisy, and the commands do nothing but compute, CPU
    /// time says the same and is known better.
    fn trusted(&self) -> usize {
        let (Some(wall), Some(cpu)) = (self.find("wall"), self.find("cpu")) else { return 0 };
        let (noise, noise_cpu) = (self.measures[wall].uncertainty(), self.measures[cpu].uncertainty());
        let better = match (noise, noise_cpu) {
            (Some(wall), Some(cpu)) => wall > FINE && cpu * 1.5 < wall,
            (None, Some(cpu)) => cpu.is_finite(),
            _ => false,
        };
        if better && self.computes() { cpu } else { wall }
    }

    /// Every command differs surely from the reference in the measure that decides, or surely by less than a percent:
    /// more rounds would not change that.
    pub fn is_certain(&self) -> bool {
        let is_known = |judged: &Option<Judged>| match judged {
            Some(Judged { verdict: Verdict::Called(_), .. }) => true,
            Some(Judged { verdict: Verdict::NoChange, difference }) => {
                difference.is_within(NOTHING, self.level)
            }
            _ => false,
        };
        self.candidates.len() > 1 && self.decisive().judged[1..].iter().all(is_known)
    }

    /// All commands are on one cpu nearly all of their time: in their best round, for other programs may
    /// have kept them from it in others.
    fn computes(&self) -> bool {
        let (Some(wall), Some(cpu)) = (self.find("wall"), self.find("cpu")) else { return false };
        let share = |(wall, cpu): (&Series, &Series)| {
            let rounds = wall.values.iter().zip(&cpu.values);
            rounds.filter_map(|(wall, cpu)| Some((*cpu)? / (*wall)?)).fold(0.0, f64::max)
        };
        let series = self.measures[wall].series.iter().zip(&self.measures[cpu].series);
        series.map(share).all(|share| (0.8..1.1).contains(&share))
    }

    /// The measure that decides.
    pub fn decisive(&self) -> &Measure {
        &self.measures[self.by]
    }
}

fn verdict(difference: &Difference, p_of_all: f64, level: f64) -> Verdict {
    let direction = if difference.absolute.value > 0.0 { Direction::More } else { Direction::Less };
    let small = |share: f64| share.abs() <= NOTHING;
    match difference.relative {
        _ if p_of_all < level && difference.n >= LEAST_RUNS => Verdict::Called(direction),
        _ if difference.p < 0.05 => Verdict::Perhaps(direction),
        Some(relative) if small(relative.low) && small(relative.high) => Verdict::NoChange,
        None if difference.absolute.half_width() == 0.0 => Verdict::NoChange,
        _ => Verdict::Unclear,
    }
}

#[cfg(any(test, feature = "samples"))]
pub mod samples {
    //! Made-up measurements for tests.

    use super::*;

    /// Two commands, `old` and `new`, of ten rounds: for each measure its id, unit, both means, and how
    /// far the rounds are from them.
    pub fn comparison(measures: &[(&str, Unit, f64, f64, f64)]) -> Comparison {
        let series = |mean: f64, off: f64, shift: usize| Series {
            values: (0..10).map(|at| Some(mean + off * (((at * 7 + shift) % 10) as f64 - 4.5))).collect(),
            share: 1.0,
            missing: None,
        };
        let measure = |&(id, unit, old, new, off): &(&str, Unit, f64, f64, f64)| {
            let title = match id {
                "wall" => "wall time",
                "cpu" => "cpu time",
                "rss" => "peak RSS",
                id => id,
            };
            Measure::new(id, title, unit, vec![series(old, off, 0), series(new, off, 3)])
        };
        let candidate = |name: &str| Candidate {
            name: name.into(),
            command: format!("./{name} big.json"),
            parameters: Vec::new(),
        };
        let candidates = vec![candidate("old"), candidate("new")];
        Comparison::new(candidates, measures.iter().map(measure).collect(), None, false)
    }
}

#[cfg(test)]
mod tests {
    use super::samples::comparison;
    use super::*;

    fn verdict_of(comparison: &Comparison, id: &str) -> Verdict {
        let at = comparison.find(id).expect("that measure");
        comparison.measures[at].judged[1].expect("a difference").verdict
    }

    #[test]
    fn verdicts() {
        let compared = comparison(&[
            ("wall", Unit::Nanoseconds, 1e8, 1.06e8, 1e5),
            ("cpu", Unit::Nanoseconds, 1e8, 1e8, 1e4),
            ("faults", Unit::Count, 100.0, 101.0, 5.0),
            ("migrations", Unit::Count, 0.0, 0.0, 0.0),
            ("instructions", Unit::Count, 1e9, 0.9e9, 1e3),
        ]);
        assert_eq!(verdict_of(&compared, "wall"), Verdict::Called(Direction::More));
        assert_eq!(verdict_of(&compared, "cpu"), Verdict::NoChange);
        assert_eq!(verdict_of(&compared, "faults"), Verdict::Unclear);
        assert_eq!(verdict_of(&compared, "migrations"), Verdict::NoChange);
        assert_eq!(verdict_of(&compared, "instructions"), Verdict::Called(Direction::Less));
    }

    #[test]
    fn noisy_wall_time_leaves_the_decision_to_cpu_time_of_what_computes() {
        let noisy = comparison(&[
            ("wall", Unit::Nanoseconds, 1e8, 1.06e8, 3e6),
            ("cpu", Unit::Nanoseconds, 0.95e8, 1e8, 1e4),
        ]);
        assert_eq!(noisy.decisive().id, "cpu");
        let quiet = comparison(&[
            ("wall", Unit::Nanoseconds, 1e8, 1.06e8, 1e4),
            ("cpu", Unit::Nanoseconds, 0.95e8, 1e8, 1e4),
        ]);
        assert_eq!(quiet.decisive().id, "wall");
        let waiting = comparison(&[
            ("wall", Unit::Nanoseconds, 1e8, 1.06e8, 3e6),
            ("cpu", Unit::Nanoseconds, 0.1e8, 0.1e8, 1e4),
        ]);
        assert_eq!(waiting.decisive().id, "wall");
    }

    #[test]
    fn equal_commands_are_told_apart_in_at_most_5_of_100_trials() {
        // Five measures of 12 rounds each: any of them called is a false call. 200 trials.
        let mut random = fastrand::Rng::with_seed(11);
        let mut noise = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let called = (0..200).filter(|_| {
            let mut series = || Series {
                values: (0..12).map(|_| Some(100.0 + noise())).collect(),
                share: 1.0,
                missing: None,
            };
            let mut measure = |id: &str| Measure::new(id, id, Unit::Count, vec![series(), series()]);
            let measures = ["wall", "cpu", "cycles", "faults", "rss"].map(&mut measure).to_vec();
            let candidates = comparison(&[]).candidates;
            let compared = Comparison::new(candidates, measures, None, false);
            let called = |measure: &Measure| {
                measure.judged[1].is_some_and(|judged| matches!(judged.verdict, Verdict::Called(_)))
            };
            compared.measures.iter().any(called)
        });
        let called = called.count();
        assert!(called <= 10, "{called} of 200");
    }

    #[test]
    fn a_tenth_more_is_found_in_noise_of_a_twentieth() {
        let mut random = fastrand::Rng::with_seed(12);
        let mut noise = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let found = (0..200).filter(|_| {
            let mut series = |mean: f64| Series {
                values: (0..20).map(|_| Some(mean * (1.0 + 0.05 * noise()))).collect(),
                share: 1.0,
                missing: None,
            };
            let measure =
                Measure::new("cpu", "cpu time", Unit::Nanoseconds, vec![series(1e7), series(1.1e7)]);
            let compared = Comparison::new(comparison(&[]).candidates, vec![measure], None, false);
            verdict_of(&compared, "cpu") == Verdict::Called(Direction::More)
        });
        let found = found.count();
        assert!(found >= 195, "{found} of 200");
    }
}
