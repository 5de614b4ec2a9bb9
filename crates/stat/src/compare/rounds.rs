//! Running the commands: rounds in which each runs once, in random order, until enough is known, the time
//! is over, or somebody wants it to end.

use super::looks::Looks;
use super::model::{Candidate, Comparison, Measure, Series, Unit};
use crate::{CommandEvents, Error, LastRun, Outcome, Run, Usage, nanoseconds};
use perfuse::Command;
use perfuse::measurement::{self, Measurement};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Commands that take next to no time run for so long, however sure a difference seems: that costs nobody anything, and tells
/// its size better.
const SHORT: Duration = Duration::from_millis(500);

/// When a comparison is precise enough.
#[derive(Clone, Debug, PartialEq)]
pub struct Until {
    /// The measure; else the one that decides.
    pub measure: Option<String>,
    /// Half the width of the interval, as a share of the reference.
    pub share: f64,
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (measure, share) = match text.rsplit_once(':') {
            Some((measure, share)) => (Some(measure.to_owned()), share),
            None => (None, text),
        };
        let number = share.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        match number {
            Some(number) if number > 0.0 => Ok(Until { measure, share: number / 100.0 }),
            _ => Err(format!("'{text}' is not like 1% or cpu:0.5%")),
        }
    }
}

/// A command to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Its name and words.
    pub candidate: Candidate,
    /// The command with its arguments.
    pub words: Vec<String>,
    /// The command to run before each of its runs.
    pub prepare: Option<Vec<String>>,
}

/// Hears how far the rounds are. `()` hears nothing.
pub trait Progress {
    /// Whether it wants to hear something new now.
    fn is_due(&self) -> bool {
        false
    }

    /// Shows how far it is.
    fn show(&mut self, state: &State<'_>) {
        let _ = state;
    }

    /// All rounds are over.
    fn finish(&mut self) {}
}

impl Progress for () {}

/// How far the rounds are.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// How they are to go on.
    pub plan: &'a ComparePlan,
    /// The comparison so far.
    pub comparison: &'a Comparison,
    /// Rounds that count.
    pub done: usize,
    /// The time since the first of them began.
    pub elapsed: Duration,
}

/// How much is to be run, and how.
#[derive(Debug)]
#[must_use]
pub struct ComparePlan {
    /// The commands, in order.
    pub entries: Vec<Contender>,
    /// The events to count beside wall time, cpu time and memory.
    pub events: CommandEvents,
    /// Rounds that do not count.
    pub warmup: u32,
    /// At least so many rounds.
    pub least: u32,
    /// At most so many rounds.
    pub most: u32,
    /// No round starts later.
    pub time: Option<Duration>,
    /// Rounds end when so much is known.
    pub until: Option<Until>,
    /// Rounds end when more of them would not change the verdict on the measure that decides: it is looked for that after
    /// numbers of rounds that grow by a third, and all looks together have the chance of a false call that one alone had.
    pub until_certain: bool,
    /// The measure that decides; by default the one that differs most surely.
    pub by: Option<String>,
    /// Runs that fail count too.
    pub ignore_failure: bool,
    /// The standard input of each run.
    pub input: Option<PathBuf>,
    /// Output of commands is shown.
    pub show_output: bool,
    /// Of the order in which commands run.
    pub seed: u64,
    /// An earlier measurement, in place of a reference of these rounds.
    pub baseline: Option<Baseline>,
}

/// A reference that was measured at another time.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// The command that was measured.
    pub candidate: Candidate,
    /// By measure: its id and values.
    pub measures: Vec<(String, Series)>,
}

/// The result of all rounds.
#[derive(Debug)]
pub struct Done {
    /// The comparison of the commands.
    pub comparison: Comparison,
    /// Runs of each command that count.
    pub rounds: usize,
    /// How long it took.
    pub elapsed: Duration,
    /// Runs that failed, and the first of these in words.
    pub failures: usize,
    /// The first run that failed, in words.
    pub failure: Option<String>,
    /// A signal ended it.
    pub interrupted: bool,
    /// The precision that `until` wanted was reached.
    pub precise: bool,
    /// It ended because its verdict was certain.
    pub certain: bool,
}

/// One run of one command.
#[derive(Debug)]
struct Sample {
    run: Run,
    events: Vec<(String, Outcome)>,
}

/// Runs everything. Signals that end programs (SIGINT, SIGTERM, SIGHUP) are caught meanwhile, and end the rounds: see
/// [`Measurement::with_signals`].
///
/// # Errors
///
/// A command cannot be executed, or fails where that is not ignored; its input cannot be read.
pub fn compare(plan: &ComparePlan, progress: &mut dyn Progress) -> Result<Done, Error> {
    let measurement = Measurement::new().with_signals(&[])?;
    let commands = plan.entries.iter().map(|entry| command(plan, entry)).collect::<Result<_, _>>()?;
    let samples = plan.entries.iter().map(|_| Vec::new()).collect();
    let last = LastRun::default();
    let mut running = Running { plan, commands, measurement, last, failures: 0, failure: None, samples };
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let start = Instant::now();
    for _ in 0..plan.warmup {
        running.round(&mut random, false)?;
    }
    let measuring = Instant::now();
    let mut looks = Looks::new(plan.least as usize);
    let mut done = 0;
    let (mut precise, mut certain) = (None, None);
    while !running.measurement.is_to_end() && done < plan.most {
        let in_time = plan.time.is_none_or(|time| measuring.elapsed() < time);
        if done >= plan.least && (precise.is_some() || certain.is_some() || !in_time) {
            break;
        }
        if !running.round(&mut random, true)? {
            break;
        }
        done += 1;
        let wanted = plan.until.as_ref().filter(|_| done >= plan.least);
        let is_time = plan.until_certain && measuring.elapsed() >= SHORT;
        let level = is_time.then(|| looks.take(done as usize)).flatten();
        if wanted.is_some() || level.is_some() || progress.is_due() {
            let comparison = running.comparison(level.unwrap_or(looks.last()));
            precise = wanted.filter(|until| is_precise(&comparison, until));
            certain = level.filter(|_| comparison.is_certain());
            let elapsed = measuring.elapsed();
            progress.show(&State { plan, comparison: &comparison, done: done as usize, elapsed });
        }
    }
    progress.finish();
    let rounds = running.samples.iter().map(Vec::len).min().unwrap_or(0);
    running.samples.iter_mut().for_each(|samples| samples.truncate(rounds));
    Ok(Done {
        comparison: running.comparison(certain.unwrap_or(looks.last())),
        rounds,
        elapsed: start.elapsed(),
        failures: running.failures,
        failure: running.failure.take(),
        interrupted: running.measurement.is_to_end(),
        precise: precise.is_some(),
        certain: certain.is_some(),
    })
}

/// A command with its standard files; its input is opened for each run.
fn command(plan: &ComparePlan, entry: &Contender) -> Result<Command, Error> {
    let command = Command::new(&entry.words[0]).args(&entry.words[1..]).stdin(null()?);
    Ok(if plan.show_output { command } else { command.stdout(null()?).stderr(null()?) })
}

fn is_precise(comparison: &Comparison, until: &Until) -> bool {
    let measure = match &until.measure {
        Some(name) => comparison.find(name).map(|at| &comparison.measures[at]),
        None => Some(comparison.decisive()),
    };
    measure.and_then(Measure::uncertainty).is_some_and(|uncertainty| uncertainty <= until.share)
}

/// Runs a command of preparation, called `what`, to its end; it has to succeed.
///
/// # Errors
///
/// [`Error::Hook`]: it did not.
pub fn run_aside(words: &[String], what: &str) -> Result<(), Error> {
    let held = Command::new(&words[0]).args(&words[1..]).stdin(null()?).stdout(null()?).hold()?;
    let (status, _) = held.release().map_err(Error::Start)?.wait()?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::Hook(format!("{what} '{}' {}", words.join(" "), ended(status)))),
    }
}

fn null() -> Result<File, Error> {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|error| Error::Hook(format!("cannot open /dev/null: {error}")))
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, signal) => format!("was killed by signal {}", signal.unwrap_or(0)),
    }
}

struct Running<'a> {
    plan: &'a ComparePlan,
    /// As there are entries.
    commands: Vec<Command>,
    measurement: Measurement,
    last: LastRun,
    failures: usize,
    failure: Option<String>,
    /// By command.
    samples: Vec<Vec<Sample>>,
}

impl Running<'_> {
    /// Each command once; `false` if that was not finished.
    fn round(&mut self, random: &mut fastrand::Rng, counts: bool) -> Result<bool, Error> {
        let plan = self.plan;
        let mut order: Vec<usize> = (0..plan.entries.len()).collect();
        random.shuffle(&mut order);
        for at in order {
            let entry = &plan.entries[at];
            if let Some(prepare) = &entry.prepare {
                run_aside(prepare, "the preparation")?;
            }
            let Some(sample) = self.once(at)? else { return Ok(false) };
            if counts {
                self.samples[at].push(sample);
            }
        }
        Ok(true)
    }

    /// One command once; nothing if somebody wanted this to end.
    fn once(&mut self, at: usize) -> Result<Option<Sample>, Error> {
        if self.measurement.is_to_end() {
            return Ok(None);
        }
        let plan = self.plan;
        let held = match &plan.input {
            None => self.commands[at].hold()?,
            Some(path) => {
                let input = File::open(path)
                    .map_err(|error| Error::Hook(format!("cannot read {}: {error}", path.display())))?;
                self.commands[at].clone().stdin(input).hold()?
            }
        };
        let counting = plan.events.open(&held, &mut self.last)?;
        let start = Instant::now();
        let running = held.release().map_err(Error::Start)?;
        let end = self.measurement.pass(&measurement::Run::of(&running), &mut ())?;
        let wall = start.elapsed();
        let Some((status, usage)) = end.command.filter(|_| !self.measurement.is_to_end()) else {
            return Ok(None);
        };
        if !status.success() {
            let text = format!("'{}' {}", plan.entries[at].candidate.name, ended(status));
            if !plan.ignore_failure {
                return Err(Error::Hook(format!("{text} (-i goes on regardless; --show-output shows why)")));
            }
            self.failures += 1;
            self.failure.get_or_insert(text);
        }
        let run = Run {
            wall_ns: nanoseconds(wall),
            usage: Some(Usage {
                user_ns: nanoseconds(usage.user),
                system_ns: nanoseconds(usage.system),
                peak_rss_bytes: usage.peak_rss_bytes,
                minor_faults: usage.minor_faults,
                major_faults: usage.major_faults,
            }),
        };
        Ok(Some(Sample { run, events: counting.finish(&run, &mut self.last) }))
    }

    /// The comparison by the rounds so far.
    fn comparison(&self, level: f64) -> Comparison {
        let plan = self.plan;
        let of_all = |value: &dyn Fn(&Sample) -> Option<f64>| -> Vec<Series> {
            let series = |samples: &Vec<Sample>| Series {
                values: samples.iter().map(value).collect(),
                share: 1.0,
                missing: None,
            };
            self.samples.iter().map(series).collect()
        };
        let usage =
            |sample: &Sample, what: fn(&Usage) -> u64| sample.run.usage.as_ref().map(|u| what(u) as f64);
        let mut measures = vec![
            Measure::new(
                "wall",
                "wall time",
                Unit::Nanoseconds,
                of_all(&|sample| Some(sample.run.wall_ns as f64)),
            ),
            Measure::new(
                "cpu",
                "cpu time",
                Unit::Nanoseconds,
                of_all(&|sample| usage(sample, |usage| usage.user_ns + usage.system_ns)),
            ),
        ];
        for (index, (name, unit)) in plan.events.iter().enumerate() {
            let title = self.samples.iter().flatten().map(|sample| sample.events[index].0.clone()).next();
            let unit = match unit {
                perfuse_events::Unit::Nanoseconds => Unit::Nanoseconds,
                perfuse_events::Unit::Count => Unit::Count,
            };
            let mut title = title.unwrap_or_else(|| name.to_owned());
            let scale = plan.events.scale(index);
            if let Some(scale) = scale.filter(|scale| !scale.unit.is_empty()) {
                title += &format!(" ({})", scale.unit);
            }
            let factor = scale.map_or(1.0, |scale| scale.factor);
            let series = self.samples.iter().map(|samples| event_series(samples, index, factor)).collect();
            measures.push(Measure::new(name, title, unit, series));
        }
        measures.push(Measure::new(
            "rss",
            "peak RSS",
            Unit::Bytes,
            of_all(&|sample| usage(sample, |usage| usage.peak_rss_bytes)),
        ));
        let mut candidates: Vec<_> = plan.entries.iter().map(|entry| entry.candidate.clone()).collect();
        if let Some(baseline) = &plan.baseline {
            candidates.insert(0, baseline.candidate.clone());
            for measure in &mut measures {
                let known = baseline.measures.iter().find(|(id, _)| *id == measure.id);
                let series = known.map(|(_, series)| series.clone()).unwrap_or_default();
                measure.series.insert(0, series);
                measure.judged.push(None);
            }
        }
        Comparison::at_level(level, candidates, measures, plan.by.as_deref(), plan.baseline.is_some())
    }
}

fn event_series(samples: &[Sample], index: usize, factor: f64) -> Series {
    let (mut enabled, mut running) = (0, 0);
    let mut missing = None;
    let value = |sample: &Sample| match &sample.events[index].1 {
        Outcome::Counted(readings) => {
            enabled += readings.iter().map(|reading| reading.enabled_ns).sum::<u64>();
            running += readings.iter().map(|reading| reading.running_ns).sum::<u64>();
            Some(readings.iter().map(|reading| reading.value as f64 * factor).sum())
        }
        Outcome::Missing(why) => {
            missing.get_or_insert_with(|| why.short.clone());
            None
        }
    };
    let values = samples.iter().map(value).collect();
    let share = if enabled == 0 { 1.0 } else { running as f64 / enabled as f64 };
    Series { values, share, missing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_is_read() {
        let until = |text: &str| text.parse::<Until>();
        assert_eq!(until("1%"), Ok(Until { measure: None, share: 0.01 }));
        assert_eq!(until("cpu: 0.5 %"), Ok(Until { measure: Some("cpu".into()), share: 0.005 }));
        for text in ["1", "", "-1%", "0%", "cpu:", "x%"] {
            assert!(until(text).is_err(), "{text}");
        }
    }
}
