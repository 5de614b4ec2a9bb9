//! Two commands sampled in turns: rounds in which each runs once, in random order, and is recorded into memory.

use crate::{Weights, by_function};
use perfuse::measurement::Measurement;
use perfuse_data::{PerfData, ReadOptions};
use perfuse_profile::{Frames, Key, LocalSymbols, Names, Profile, View, ViewPlan};
use perfuse_record::{Ended, Observer, Plan, Remark, StreamSink, Sums, Target, record};
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};
use std::{fmt, mem};

/// The signals by which somebody wants it to end: SIGHUP, SIGINT, SIGTERM.
const WISHES_TO_END: [i32; 3] = [1, 2, 15];

/// How two commands are sampled in turns.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RoundsPlan {
    /// How each run is recorded; its target and command are those of the run.
    pub record: Plan,
    /// The commands before and after, as words.
    pub commands: [Vec<OsString>; 2],
    /// Rounds that do not count.
    pub warmup: u32,
    /// At least so many rounds.
    pub least: u32,
    /// At most so many rounds.
    pub most: u32,
    /// No round starts later, once there are enough.
    pub time: Option<Duration>,
    /// Of the order in which the commands run.
    pub seed: u64,
    /// The keys that tell functions apart.
    pub keys: Vec<Key>,
    /// Runs that fail count too.
    pub ignore_failure: bool,
}

impl RoundsPlan {
    /// Ten rounds, after one that does not count; functions are told apart by name.
    pub fn new(record: Plan, commands: [Vec<OsString>; 2]) -> Self {
        RoundsPlan {
            record,
            commands,
            warmup: 1,
            least: 10,
            most: 10,
            time: None,
            seed: 0,
            keys: vec![Key::Symbol],
            ignore_failure: false,
        }
    }
}

/// The rounds that were sampled.
#[derive(Debug)]
#[non_exhaustive]
pub struct Rounds {
    /// Of each side its weights, round by round.
    pub weights: [Vec<Weights>; 2],
    /// The name of the event.
    pub event: String,
    /// Remarks on how it was recorded, each told once.
    pub remarks: Vec<Remark>,
    /// Samples that were lost.
    pub lost: u64,
    /// A signal ended it.
    pub interrupted: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// Why commands cannot be sampled in turns.
#[derive(Debug)]
#[non_exhaustive]
pub enum SampleError {
    /// A run cannot be recorded.
    Record(perfuse_record::Error),
    /// The recording of a run cannot be read.
    Data(perfuse_data::Error),
    /// A command failed: its number, and how it ended.
    Failed(usize, std::process::ExitStatus),
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SampleError::Record(error) => error.fmt(f),
            SampleError::Data(error) => error.fmt(f),
            SampleError::Failed(_, status) => write!(f, "a command failed ({status})"),
        }
    }
}

impl std::error::Error for SampleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SampleError::Record(error) => Some(error),
            SampleError::Data(error) => Some(error),
            SampleError::Failed(..) => None,
        }
    }
}

impl From<perfuse_record::Error> for SampleError {
    fn from(error: perfuse_record::Error) -> Self {
        SampleError::Record(error)
    }
}

impl From<perfuse_data::Error> for SampleError {
    fn from(error: perfuse_data::Error) -> Self {
        SampleError::Data(error)
    }
}

/// Samples the commands in turns; `progress` hears the number of rounds that are done.
///
/// # Changes to this process
///
/// Signals that end programs (SIGINT, SIGTERM, SIGHUP) are caught meanwhile, and end the rounds: see
/// [`Measurement::with_signals`].
///
/// # Errors
///
/// A command cannot be recorded, or fails where that is not ignored.
pub fn sample_rounds(plan: &RoundsPlan, progress: &mut dyn FnMut(usize)) -> Result<Rounds, SampleError> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let symbols = LocalSymbols::default();
    let signals = Measurement::new().with_signals(&[]).map_err(perfuse_record::Error::Perf)?;
    let mut watch = Watch { signals, remarks: Vec::new() };
    let begin = Instant::now();
    let mut rounds = Rounds {
        weights: Default::default(),
        event: String::new(),
        remarks: Vec::new(),
        lost: 0,
        interrupted: false,
        elapsed: Duration::ZERO,
    };
    let all = plan.warmup.saturating_add(plan.most);
    let mut measuring = begin;
    for round in 0..all {
        let done = round.saturating_sub(plan.warmup);
        if round == plan.warmup {
            measuring = Instant::now();
        }
        if done >= plan.least && plan.time.is_some_and(|time| measuring.elapsed() >= time) {
            break;
        }
        let mut found: [Weights; 2] = Default::default();
        let first = random.usize(..2);
        for side in [first, 1 - first] {
            let (weights, ended) = once(plan, side, &symbols, &mut watch, &mut rounds)?;
            let signal = ended.status.and_then(|status| status.signal());
            let is_wish = signal.is_some_and(|signal| WISHES_TO_END.contains(&signal));
            if is_wish || watch.signals.is_to_end() {
                rounds.interrupted = true;
                break;
            }
            if let Some(status) = ended.status.filter(|status| !status.success() && !plan.ignore_failure) {
                return Err(SampleError::Failed(side, status));
            }
            found[side] = weights;
        }
        if rounds.interrupted {
            break;
        }
        if round >= plan.warmup {
            for (all, weights) in rounds.weights.iter_mut().zip(found) {
                all.push(weights);
            }
            progress(rounds.weights[0].len());
        }
    }
    rounds.elapsed = begin.elapsed();
    Ok(rounds)
}

/// Ends a run when somebody wants it, and keeps what is told.
#[derive(Debug)]
struct Watch {
    signals: Measurement,
    remarks: Vec<Remark>,
}

impl Observer for Watch {
    fn remark(&mut self, remark: &Remark) {
        self.remarks.push(remark.clone());
    }

    fn progress(&mut self, _: Sums) -> ControlFlow<()> {
        if self.signals.is_to_end() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn once(
    plan: &RoundsPlan,
    side: usize,
    symbols: &LocalSymbols,
    watch: &mut Watch,
    rounds: &mut Rounds,
) -> Result<(Weights, Ended), SampleError> {
    let mut record_plan = plan.record.clone();
    (record_plan.target, record_plan.command) = (Target::Command, plan.commands[side].clone());
    let mut sink = StreamSink::new(Vec::new());
    let ended = record(&record_plan, &mut sink, watch, None)?;
    // All runs have the same to tell.
    let remarks = mem::take(&mut watch.remarks);
    if rounds.remarks.is_empty() {
        rounds.remarks = remarks;
    }
    rounds.lost += ended.sums.lost;
    let Some(bytes) = sink.get_ref() else { return Ok((Weights::default(), ended)) };
    let data = PerfData::from_reader(bytes.as_slice(), ReadOptions::default())?;
    let mut collected = perfuse_profile::Plan::new(&plan.keys);
    collected.chains = false;
    collected.code = Some(symbols.symbolizer().clone());
    let profile = Profile::read(data, collected)?;
    if profile.events().is_empty() {
        return Ok((Weights::default(), ended));
    }
    rounds.event = profile.event_name(0).into_owned();
    let names = Names::new(&profile, symbols);
    let frames = Frames::new(&names, false);
    let view = View::new(&profile, &frames, 0, &ViewPlan::new(&plan.keys));
    Ok((by_function(&view, &plan.keys), ended))
}
