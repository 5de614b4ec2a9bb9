//! The comparison as one JSON object, schema `perfuse.compare/1`: written for programs and as a baseline,
//! and read back as one, or to be shown again. Times are in ns, sizes in bytes; what was not measured is null, and so is an
//! open end of an interval.

use super::{
    Baseline, Candidate, Comparison, Direction, Done, Estimate, Gate, Judged, Measure, Passed, Series,
};
use super::{Unit, Verdict, looks::LEVEL};
use crate::nanoseconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs, io};

const SCHEMA: &str = "perfuse.compare/1";

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    machine: Machine,
    rounds: usize,
    warmup: u32,
    seed: u64,
    #[serde(default)]
    elapsed_ns: u64,
    #[serde(default)]
    interrupted: bool,
    /// It ended because its verdict was certain.
    #[serde(default)]
    certain: bool,
    /// Runs of one round belong together.
    paired: bool,
    /// The chance of a false call, over all measures, below which one is made.
    #[serde(default)]
    level: Option<f64>,
    commands: Vec<CommandOf>,
    measures: Vec<MeasureOf>,
    /// The measure that decides.
    by: String,
    #[serde(default, skip_deserializing)]
    gates: Vec<GateOf>,
    warnings: Vec<String>,
}

/// Where it was measured: what makes a baseline worth comparing with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Machine {
    host: String,
    kernel: String,
    arch: String,
    cpu: Option<String>,
    cpus: usize,
    /// Seconds since 1970.
    time: u64,
}

#[derive(Serialize, Deserialize)]
struct CommandOf {
    name: String,
    command: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    parameters: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct MeasureOf {
    id: String,
    title: String,
    unit: String,
    results: Vec<ResultOf>,
}

/// Of one command.
#[derive(Serialize, Deserialize)]
struct ResultOf {
    command: String,
    mean: Option<f64>,
    /// Standard deviation.
    sigma: Option<f64>,
    /// The share of its time that it was counting.
    counted_share: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    difference: Option<DifferenceOf>,
    /// One a round, in order.
    runs: Vec<Option<f64>>,
}

/// To the first command.
#[derive(Serialize, Deserialize, Default)]
struct DifferenceOf {
    value: f64,
    interval95: (f64, f64),
    relative: Option<f64>,
    relative_interval95: Option<(f64, f64)>,
    p: f64,
    verdict: &'static str,
}

#[derive(Serialize, Deserialize, Default)]
struct GateOf {
    limit: String,
    passed: &'static str,
}

impl Machine {
    /// This one, now.
    fn here() -> Self {
        let uname = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Machine {
            host: text(uname.nodename()),
            kernel: text(uname.release()),
            arch: text(uname.machine()),
            cpu: model.map(|(_, model)| model.trim().to_owned()),
            cpus: perfuse::online_cpus().len(),
            time: since.map_or(0, |since| since.as_secs()),
        }
    }

    /// The differences between the machine of a baseline and the one here, in words for the reader.
    fn differences(&self, here: &Machine) -> Vec<String> {
        let mut changed = Vec::new();
        let mut note = |what: &str, then: &str, now: &str| {
            if then != now {
                changed.push(format!("{what} ({then}, now {now})"));
            }
        };
        note("the machine", &self.host, &here.host);
        note("the kernel", &self.kernel, &here.kernel);
        note("the cpu", self.cpu.as_deref().unwrap_or(&self.arch), here.cpu.as_deref().unwrap_or(&here.arch));
        note("the number of cpus", &self.cpus.to_string(), &here.cpus.to_string());
        match changed.is_empty() {
            true => Vec::new(),
            false => vec![format!("The baseline is from elsewhere: {} differ.", changed.join(", "))],
        }
    }
}

/// A comparison with all that its file tells.
#[derive(Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The comparison.
    pub done: Done,
    /// Rounds that did not count.
    pub warmup: u32,
    /// Of the order in which commands ran.
    pub seed: u64,
    /// For the reader: how good the measurements are.
    pub warnings: Vec<String>,
    machine: Machine,
}

impl Saved {
    /// One that was measured here and now.
    pub fn here(done: Done, warmup: u32, seed: u64, warnings: Vec<String>) -> Self {
        Saved { done, warmup, seed, warnings, machine: Machine::here() }
    }

    /// Reads a file that [`json`] was written to. `by` decides, in place of the measure that did.
    ///
    /// # Errors
    ///
    /// There is no comparison in it.
    pub fn read(path: &Path, by: Option<&str>) -> Result<Self, BaselineError> {
        let document = document(path)?;
        if document.commands.is_empty() {
            return Err(BaselineError::Empty(path.into()));
        }
        if document.measures.is_empty() {
            return Err(BaselineError::Form(path.into(), "it has no measures".to_owned()));
        }
        let candidates: Vec<_> = document.commands.iter().map(CommandOf::candidate).collect();
        let measures = document.measures.into_iter().map(|measure| {
            let mut series: Vec<_> = measure.results.into_iter().map(ResultOf::series).collect();
            series.resize_with(candidates.len(), Series::default);
            Measure::new(measure.id, measure.title, unit_of(&measure.unit), series)
        });
        let measures = measures.collect();
        let level = document.level.unwrap_or(LEVEL);
        let comparison = Comparison::at_level(level, candidates, measures, by, !document.paired);
        let done = Done {
            comparison,
            rounds: document.rounds,
            elapsed: Duration::from_nanos(document.elapsed_ns),
            failures: 0,
            failure: None,
            interrupted: document.interrupted,
            precise: false,
            certain: document.certain,
        };
        let (warmup, seed, machine) = (document.warmup, document.seed, document.machine);
        Ok(Saved { done, warmup, seed, warnings: document.warnings, machine })
    }
}

/// A comparison as one JSON object, with a line feed at the end.
pub fn json(saved: &Saved, gates: &[Gate]) -> String {
    let Saved { done, warmup, seed, warnings, machine } = saved;
    let comparison = &done.comparison;
    let document = Document {
        schema: SCHEMA.to_owned(),
        machine: machine.clone(),
        rounds: done.rounds,
        warmup: *warmup,
        seed: *seed,
        elapsed_ns: nanoseconds(done.elapsed),
        interrupted: done.interrupted,
        certain: done.certain,
        paired: !comparison.apart,
        level: Some(comparison.level),
        commands: comparison.candidates.iter().map(command_of).collect(),
        measures: comparison.measures.iter().map(|measure| measure_of(comparison, measure)).collect(),
        by: comparison.decisive().id.clone(),
        gates: gates
            .iter()
            .map(|gate| GateOf {
                limit: gate.text.clone(),
                passed: match gate.passed(comparison) {
                    Passed::Yes => "yes",
                    Passed::No => "no",
                    Passed::Unclear => "unclear",
                },
            })
            .collect(),
        warnings: warnings.clone(),
    };
    // Numbers, texts and nothing else: there is nothing that could fail.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn command_of(candidate: &Candidate) -> CommandOf {
    CommandOf {
        name: candidate.name.clone(),
        command: candidate.command.clone(),
        parameters: candidate.parameters.iter().cloned().collect(),
    }
}

fn measure_of(comparison: &Comparison, measure: &Measure) -> MeasureOf {
    let result = |((candidate, series), judged): ((&Candidate, &Series), &Option<Judged>)| {
        let spread = series.spread();
        ResultOf {
            command: candidate.name.clone(),
            mean: spread.map(|spread| spread.mean),
            sigma: spread.map(|spread| spread.sigma),
            counted_share: series.share,
            missing: series.missing.clone(),
            difference: judged.as_ref().map(difference_of),
            runs: series.values.clone(),
        }
    };
    MeasureOf {
        id: measure.id.clone(),
        title: measure.title.clone(),
        unit: unit_name(measure.unit).to_owned(),
        results: comparison.candidates.iter().zip(&measure.series).zip(&measure.judged).map(result).collect(),
    }
}

impl CommandOf {
    fn candidate(&self) -> Candidate {
        Candidate {
            name: self.name.clone(),
            command: self.command.clone(),
            parameters: self.parameters.clone().into_iter().collect(),
        }
    }
}

impl ResultOf {
    fn series(self) -> Series {
        Series { values: self.runs, share: self.counted_share, missing: self.missing }
    }
}

fn unit_of(name: &str) -> Unit {
    [Unit::Nanoseconds, Unit::Bytes].into_iter().find(|unit| unit_name(*unit) == name).unwrap_or(Unit::Count)
}

pub(super) fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "bytes",
        Unit::Count => "count",
    }
}

fn difference_of(judged: &Judged) -> DifferenceOf {
    let pair = |estimate: Estimate| (estimate.low, estimate.high);
    let difference = &judged.difference;
    DifferenceOf {
        value: difference.absolute.value,
        interval95: pair(difference.absolute),
        relative: difference.relative.map(|relative| relative.value),
        relative_interval95: difference.relative.map(pair),
        p: difference.p,
        verdict: verdict_name(judged.verdict),
    }
}

pub(super) fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::NoChange => "no change",
        Verdict::Unclear => "unclear",
        Verdict::Perhaps(Direction::Less) => "perhaps less",
        Verdict::Perhaps(Direction::More) => "perhaps more",
        Verdict::Called(Direction::Less) => "less",
        Verdict::Called(Direction::More) => "more",
    }
}

/// Why a file cannot be a baseline.
#[derive(Debug)]
#[non_exhaustive]
pub enum BaselineError {
    /// The file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// There is no comparison in it, for this reason.
    Form(PathBuf, String),
    /// It has another schema, called so.
    Schema(PathBuf, String),
    /// It has no commands.
    Empty(PathBuf),
}

impl fmt::Display for BaselineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BaselineError::Unreadable(path, error) => {
                write!(f, "cannot read {}: {error}", path.display())
            }
            BaselineError::Form(path, why) => {
                write!(f, "{} is not what `perfuse compare --save` writes: {why}", path.display())
            }
            BaselineError::Schema(path, schema) => {
                write!(f, "{} has schema {schema}, known is {SCHEMA}", path.display())
            }
            BaselineError::Empty(path) => write!(f, "{} has no commands", path.display()),
        }
    }
}

impl std::error::Error for BaselineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BaselineError::Unreadable(_, error) => Some(error),
            _ => None,
        }
    }
}

fn document(path: &Path) -> Result<Document, BaselineError> {
    let text = fs::read_to_string(path).map_err(|error| BaselineError::Unreadable(path.into(), error))?;
    let document: Document =
        serde_json::from_str(&text).map_err(|error| BaselineError::Form(path.into(), error.to_string()))?;
    match document.schema == SCHEMA {
        true => Ok(document),
        false => Err(BaselineError::Schema(path.into(), document.schema)),
    }
}

/// Reads a file that [`json`] was written to as the reference: its only command, or the one that is called like `name`,
/// or its last. With it come remarks about what makes the comparison doubtful.
pub fn read_baseline(path: &Path, name: &str) -> Result<(Baseline, Vec<String>), BaselineError> {
    let document = document(path)?;
    let commands = &document.commands;
    let at = commands.iter().position(|command| command.name == name).unwrap_or(commands.len().max(1) - 1);
    let Some(command) = commands.get(at) else {
        return Err(BaselineError::Empty(path.into()));
    };
    let mut warnings = document.machine.differences(&Machine::here());
    if document.rounds < 2 {
        warnings.push("The baseline has fewer than two runs: nothing can be said against it.".to_owned());
    }
    let candidate = command.candidate();
    let candidate = Candidate { name: format!("{} (baseline)", candidate.name), ..candidate };
    let measures = document.measures.into_iter().filter_map(|mut measure| {
        (at < measure.results.len()).then(|| {
            let result = measure.results.swap_remove(at);
            (measure.id, result.series())
        })
    });
    Ok((Baseline { candidate, measures: measures.collect() }, warnings))
}
