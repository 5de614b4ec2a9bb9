//! `perfuse stat`: counts events while a command runs, in running processes, or on cpus.
//!
//! [`mod@plan`] makes sense of the options, `perfuse-stat` carries the plan out and makes a report, which [`text`] shows
//! to people and the library's forms (`perfuse_stat::format`) to programs.

mod args;
mod looks;
mod metric_table;
mod output;
mod plan;
mod playback;
mod runs_table;
mod select;
mod text;

use crate::common::kernel::{Tried, can_run, with_attr_files};
use crate::exit::{Failure, Result};
use crate::record::take_standard_output;
use crate::{habits, usage};
pub(crate) use args::Args;
use clap::{CommandFactory, FromArgMatches};
use output::Output;
pub(crate) use output::colors;
use perfuse::Rehearsed;
use perfuse::control::Control;
use perfuse_stat::{Destination, Exit, Target, count};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Runs the subcommand. `parse` makes options of `stat` of a whole command line.
pub(crate) fn run(args: &Args, parse: &dyn Fn(Vec<OsString>) -> Result<Box<Args>>) -> Result {
    let kernel = args.kernel.decide()?;
    args.events_dir.decide()?;
    let recorded;
    let (args, mut destination) = match args.command.first().and_then(|word| word.to_str()) {
        Some("report") => return playback::run(&playback_args(args)?),
        Some("record") => {
            // `stat record` takes the options of `stat`, before its name and behind it.
            let (mut words, at) = words(args);
            words.remove(at);
            recorded = parse(words)?;
            let destination = destination(recorded.output.as_deref())?;
            // The file of -o is the recording's; results go where they go without it.
            (&*recorded, Some(destination))
        }
        _ => (args, None),
    };
    can_run(&kernel, &args.command)?;
    let mut plan =
        plan::plan(args, with_attr_files(&kernel)).inspect_err(|failure| kernel.tell_beside(failure))?;
    if destination.is_some() && plan.is_repeated() {
        return Err(Failure::usage("stat record records one run, without -r"));
    }
    let control = args.control.as_deref().map(Control::open).transpose()?;
    let mut output = Output::open(args, plan.is_repeated(), destination.is_some())?;
    if plan.target == Target::Command {
        output.goes_on_unread();
    }
    let is_alone =
        plan.command.is_empty() && !plan.cgroups && matches!(plan.target, Target::Cpus { all: true, .. });
    if let Target::Cpus { cpus, .. } = &plan.target {
        let title =
            format!("the whole system, {} cpus: the last second; Ctrl-C ends with the total", cpus.len());
        if is_alone && plan.interval.is_none() && destination.is_none() && output.goes_live(title) {
            plan.interval = Some(LIVE);
        }
    }
    kernel.tell();
    let total = count(&plan, &mut output, control, destination.as_mut());
    let total = total.map_err(|error| match error {
        perfuse_stat::Error::Perf(error) if is_alone && !args.all_cpus => refused_alone(&error),
        error => error.into(),
    })?;
    if let Some(total) = &total {
        output.total(total, plan.interval.is_some())?;
    }
    Ok(match total.and_then(|total| total.exit) {
        None | Some(Exit::Stopped) => ExitCode::SUCCESS,
        Some(Exit::Code(code)) => ExitCode::from(code as u8),
        Some(Exit::Signal(signal)) => ExitCode::from((128 + signal) as u8),
    })
}

/// The table of a system is drawn so often.
const LIVE: Duration = Duration::from_secs(1);

/// The whole system is refused to somebody who has named nothing: what else can be counted.
fn refused_alone(error: &perfuse::Error) -> Failure {
    Failure::new(format_args!(
        "without a command, stat counts the whole system, which is refused: {} ({})\n  \
         \u{2192} perfuse stat -- COMMAND counts a command, perfuse stat -p NAME your processes of a name\n  \
         \u{2192} as root it counts the whole system: sudo perfuse stat",
        error.cause().words(),
        error.errno()
    ))
}

/// Opens what `args` ask for, and closes it again: for `perfuse doctor --for`, which tells the kernel too.
pub(crate) fn rehearse(args: &Args) -> Result<Tried> {
    let kernel = args.kernel.decide()?;
    let plan = plan::plan(args, kernel.clone()).inspect_err(|failure| kernel.tell_beside(failure))?;
    kernel.tell();
    let tried = perfuse_stat::rehearse(&plan)?;
    // Events that nobody asked for may be missing.
    let required = args.selection.has_events();
    Ok((kernel, tried.into_iter().map(|tried| Rehearsed { required, ..tried }).collect()))
}

/// Where counts are recorded: `-` is standard output.
fn destination(output: Option<&Path>) -> Result<Destination> {
    match output {
        Some(path) if path == Path::new("-") => Ok(Destination::Pipe(Some(take_standard_output()?))),
        path => Ok(Destination::File(path.unwrap_or(Path::new("perf.data")).into())),
    }
}

/// The words of the command line, and which of them is the first of the command.
fn words(args: &Args) -> (Vec<OsString>, usize) {
    let words: Vec<OsString> = std::env::args_os().collect();
    let first = words.len().saturating_sub(args.command.len());
    (words, first)
}

/// `stat report` has options of its own.
fn playback_args(args: &Args) -> Result<playback::Args> {
    let (words, at) = words(args);
    if words.get(at.wrapping_sub(1)).is_none_or(|word| word != "stat") {
        return Err(Failure::usage("the options of stat report stand behind it"));
    }
    let command = playback::Args::command().infer_long_args(true);
    let matches = command.clone().try_get_matches_from(&words[at..]).unwrap_or_else(|error| {
        habits::end(&error, |error| usage::refusal_of(error, command.clone(), &words[at..]))
    });
    playback::Args::from_arg_matches(&matches).map_err(Failure::usage)
}
