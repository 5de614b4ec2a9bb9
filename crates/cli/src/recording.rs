//! Things that all subcommands that read a recording share: opening it, names of its events, its records in the
//! order of time together with what was running then.

pub(crate) mod header;
pub(crate) mod unfinished;

use crate::exit::Failure;
use crate::term::out::say;
use perfuse_data::describe::{self, DumpOptions};
use perfuse_data::feature::{Feature, FeatureId};
use perfuse_data::replay::{CpuRanges, Filter, Formats, Replay, Step, TimeSpans};
use perfuse_data::{PerfData, Problem, ReadOptions};
use std::io::Write;
use std::path::PathBuf;

/// Which recording.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Input {
    /// The recording: a file, a folder of perf record --threads, or - for standard input
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub(crate) input: PathBuf,
    /// Believe what other users' files (/tmp/perf-PID.map, jit-PID.dump) say of code made at run time
    #[arg(short, long)]
    pub(crate) force: bool,
}

impl Input {
    pub(crate) fn open(&self) -> Result<PerfData<'static>, Failure> {
        self.open_with(ReadOptions::default())
    }

    pub(crate) fn open_with(&self, options: ReadOptions) -> Result<PerfData<'static>, Failure> {
        let opened = match self.input.as_os_str() == "-" {
            true => PerfData::from_reader(std::io::stdin(), options),
            false => PerfData::open_with(&self.input, options),
        };
        opened.map_err(|error| Failure::new(format_args!("{}: {}", self.name(), self.why_not(&error))))
    }

    /// Why it cannot be opened, and what would help.
    fn why_not(&self, error: &perfuse_data::Error) -> String {
        if self.input.as_os_str() == "-" {
            return match error.problem {
                Problem::Truncated { available: 0, .. } => "nothing came from standard input".to_owned(),
                _ => error.to_string(),
            };
        }
        let opened = std::fs::metadata(&self.input).and_then(|metadata| match metadata.is_file() {
            true => std::fs::File::open(&self.input).map(|_| metadata),
            false => Ok(metadata), // opening a FIFO would wait
        });
        match opened {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
                "no such file; `perfuse record COMMAND` makes a perf.data, -i names another".to_owned()
            }
            Err(why) if why.kind() == std::io::ErrorKind::PermissionDenied => {
                "this user may not read it; its owner, or root, can".to_owned()
            }
            Ok(metadata) if metadata.is_file() && metadata.len() == 0 => {
                "an empty file: nothing was recorded".to_owned()
            }
            Ok(metadata) if metadata.is_dir() && !self.input.join("data").exists() => {
                "a folder without the file data of `perf record --threads`; -i names another".to_owned()
            }
            _ => error.to_string(),
        }
    }

    pub(crate) fn name(&self) -> String {
        self.input.to_string_lossy().into_owned()
    }
}

/// Goes through a recording, and hands each record to `visit`.
///
/// Ends quietly where a recording is cut off or broken: what came before counts, and the place is said on
/// standard error.
pub(crate) fn replay<'i>(
    mut replay: Replay<'i>,
    mut visit: impl FnMut(&Step<'_>) -> Result<(), Failure>,
) -> Result<Replay<'i>, Failure> {
    let complain =
        |error: &perfuse_data::Error| say(format_args!("{error}; what can be read around it counts"));
    replay.each(|step| match step {
        Ok(step) => {
            step.broken.iter().for_each(complain);
            visit(&step)
        }
        Err(error) => {
            complain(&error);
            Ok(())
        }
    })?;
    if replay.late() > 0 {
        say(format_args!("{} records came later than younger ones", replay.late()));
    }
    if replay.session().dropped() > 0 {
        say(format_args!(
            "{} records told of more threads, mappings or names than are kept; samples there have no name",
            replay.session().dropped()
        ));
    }
    Ok(replay)
}

/// Prints every record with its contents.
pub(crate) fn dump(out: &mut impl Write, input: &Input, with_tasks: bool) -> Result<(), Failure> {
    let (data, name) = (input.open()?, input.name());
    let options = DumpOptions { name: &name, with_tasks, made_code: perfuse_profile::made_code };
    Ok(describe::dump(out, data, &options, &mut |error| say(error))?)
}

/// The names of a recording's events; of tracepoints in a pipe, those of their formats.
pub(crate) fn event_names(data: &mut PerfData<'_>) -> Vec<String> {
    let formats = Formats::read(data);
    data.events().iter().map(|event| formats.event_name(event)).collect()
}

/// A feature section, if the recording has it and it can be read.
pub(crate) fn feature<'d>(data: &'d mut PerfData<'_>, id: FeatureId) -> Option<Feature<'d>> {
    data.feature(id).ok().flatten().map(|section| section.feature)
}

/// Which samples count.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct FilterArgs {
    /// Only samples of these commands
    #[arg(short = 'c', long, visible_alias = "comms", value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) comm: Vec<String>,
    /// Only samples of these processes
    #[arg(long, value_name = "PID,...", value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Only samples of these threads
    #[arg(long, value_name = "TID,...", value_delimiter = ',')]
    pub(crate) tid: Vec<u32>,
    /// Only samples of these cpus, such as 0,2-4
    #[arg(short = 'C', long, value_name = "CPUS")]
    pub(crate) cpu: Option<CpuRanges>,
    /// Only samples between two times in seconds: [START],[END]; or in parts of the recording: 10%/2, 0%-10%
    #[arg(long, value_name = "SPAN")]
    pub(crate) time: Option<TimeSpans>,
}

impl FilterArgs {
    /// For one recording.
    pub(crate) fn of(&self, data: &mut PerfData<'_>) -> Result<Filter, Failure> {
        let mut time = self.time.clone();
        if let Some(spans) = &mut time {
            let failure = |why, spans: &TimeSpans| {
                Failure::new(format_args!("--time {}: {why}; seconds may be given", spans.text()))
            };
            spans.settle(data).map_err(|why| failure(why, spans))?;
        }
        let Self { comm: comms, pid: pids, tid: tids, cpu: cpus, .. } = self.clone();
        Ok(Filter { comms, pids, tids, cpus, time })
    }
}
