//! `perfuse record`: samples a command while it runs, running processes, or cpus, into a perf.data file.
//!
//! [`plan`] makes sense of the options (their [`words`]), `perfuse-record` makes the recording, [`live`] shows it.

mod args;
mod live;
mod plan;
mod selection;
mod units;
mod words;

use crate::common::kernel::{Chosen, Tried, can_run, with_attr_files};
use crate::exit::{FAILED, Failure, Result};
use crate::recording::header::local_time;
pub(crate) use args::Args;
use live::Live;
use perfuse::control::Control;
use perfuse_record::{Ended, FileSink, Plan, StreamSink, record};
use perfuse_sys::signal::SIGTERM;
use plan::{Asked, Destination};
pub(crate) use selection::{Selection, TraceEvents};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;
use std::time::Duration;

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let kernel = args.kernel.decide()?;
    args.events_dir.decide()?;
    can_run(&kernel, &args.command)?;
    let asked =
        Asked::new(args, with_attr_files(&kernel)).inspect_err(|failure| kernel.tell_beside(failure))?;
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(priority) = args.realtime {
        // The command does not inherit it.
        perfuse_sys::process::go_first(priority).map_err(|errno| {
            Failure::new(format_args!("--realtime {priority}: {}", perfuse_sys::io_error(errno)))
        })?;
    }
    let control = args.control.as_deref().map(Control::open).transpose()?;
    kernel.tell();
    let (plan, mut live) = (&asked.plan, Live::new(&asked));
    let ended = match &asked.output {
        Destination::Pipe | Destination::PipeAtHand => {
            let mut sink = StreamSink::new(take_standard_output()?);
            record(plan, &mut sink, &mut live, control)?
        }
        Destination::File(path) => {
            let mut sink = FileSink::new(path).stamped(stamp, asked.is_stamped).keeping(asked.max_files);
            record(plan, &mut sink, &mut live, control)?
        }
    };
    Ok(exit_code(&ended))
}

/// Opens what `args` ask for, and closes it again: for `perfuse doctor --for`, which tells the kernel too.
pub(crate) fn rehearse(args: &Args) -> Result<Tried> {
    let kernel = args.kernel.decide()?;
    args.events_dir.decide()?;
    let asked = Asked::new(args, kernel.clone()).inspect_err(|failure| kernel.tell_beside(failure))?;
    kernel.tell();
    let tried = perfuse_record::rehearse(&asked.plan)?;
    Ok((kernel, tried))
}

/// The plan that `args` ask for, with remarks about it, for those who put the samples to another use; it measures as long as the
/// kernel is kept.
pub(crate) fn plan(args: &Args) -> Result<(Chosen, Plan, Vec<String>)> {
    let kernel = args.kernel.decide()?;
    args.events_dir.decide()?;
    let Asked { plan, remarks, .. } =
        Asked::new(args, kernel.clone()).inspect_err(|failure| kernel.tell_beside(failure))?;
    kernel.tell();
    Ok((kernel, plan, remarks))
}

/// The exit status of a recording: that of its command.
pub(crate) fn exit_code(ended: &Ended) -> ExitCode {
    match ended.status.map(|status| (status.code(), status.signal())) {
        None => ExitCode::SUCCESS,
        Some((Some(code), _)) => ExitCode::from(code as u8),
        Some((None, Some(SIGTERM))) if ended.stopped => ExitCode::SUCCESS,
        Some((None, signal)) => ExitCode::from(signal.map_or(FAILED, |signal| (128 + signal) as u8)),
    }
}

/// A time in the name of a file.
fn stamp(time: Duration) -> String {
    format!("{}{:02}", local_time(time).strftime("%Y%m%d%H%M%S"), time.subsec_millis() / 10)
}

/// The descriptor of standard output, kept for the recording alone: all other output there, such as that of
/// the recorded command, goes to standard error from now on.
pub(crate) fn take_standard_output() -> Result<File> {
    use std::io::IsTerminal;
    if io::stdout().is_terminal() {
        return Err(Failure::usage("a recording is nothing for a terminal: -o - wants a pipe or a file"));
    }
    let failed = |error| Failure::new(format_args!("cannot use standard output: {error}"));
    let file = io::stdout().as_fd().try_clone_to_owned().map_err(failed)?;
    rustix::stdio::dup2_stdout(io::stderr()).map_err(|errno| failed(errno.into()))?;
    Ok(file.into())
}
