//! `perfuse run`: an unmodified tool whose perf_event_open(2) perfuse answers.

use crate::exit::{Failure, NOT_EXECUTABLE, NOT_FOUND, Result};
use crate::term::out;
use perfuse_live::intercept::{self, Error};
use perfuse_sys::Errno;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;

/// Options of `perfuse run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The tool's events are counted and sampled by perfuse itself, by means of ptrace(2), also \
                  where the kernel refuses perf_event_open: in containers, under gVisor, with a raised \
                  perf_event_paranoid. No rights are needed.\n\nExamples:\n  \
                  perfuse run -- perf stat make\n  perfuse run -- perf record -g -- ./server\n  perf report\n\n\
                  There are cpu-clock, task-clock, page-faults, context-switches, cpu-migrations, dummy, \
                  breakpoints and uprobes, for what the tool starts, for itself, and for running processes (-p, -t) that ptrace(2) may attach to. \
                  Samples show user space. There are no hardware events, and no whole cpus.\n\n\
                  SIGTERM, SIGINT and SIGHUP are passed on to the tool, and once that has ended to what it has left behind. \
                  The second one kills them all; of those from the keyboard, one within two seconds.\n\n\
                  The exit status is the tool's, or 128 and the number of the signal that ended it; 125 if it \
                  cannot be served, 126 and 127 if it cannot be executed or found."
)]
pub(crate) struct Args {
    /// Count the tool's events `instructions:u` by stopping after each instruction: exact, and tens of thousands of times
    /// slower
    #[arg(long)]
    single_step: bool,

    /// The tool and its arguments
    #[arg(
        value_name = "TOOL",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "pid"
    )]
    tool: Vec<OsString>,
    /// Tells records of context switches from the CPU time between samples: for tools that insist on them (samply,
    /// perf record --switch-events)
    #[arg(long)]
    estimate_switches: bool,
    /// A tool that runs already, which cannot be
    #[arg(short, long, value_name = "PID", hide = true)]
    pid: Option<String>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    if let Some(pid) = &args.pid {
        return Err(Failure::usage(format_args!(
            "a tool that runs already ({pid}) cannot be served: the kernel has answered its calls\n  \
             start it: perfuse run -- TOOL ..., or with a process to measure: perfuse run -- perf record -p {pid}\n  \
             measure it: perfuse stat -p {pid}, perfuse record -p {pid}"
        )));
    }
    let options =
        intercept::Options { single_step: args.single_step, estimate_switches: args.estimate_switches };
    let tell = |note: &intercept::Note| out::say(note);
    let status = intercept::run(&args.tool[0], &args.tool, options, tell).map_err(|error| {
        let tool = args.tool[0].to_string_lossy();
        let failure = Failure::new(format_args!("{tool}: {error}"));
        match error {
            Error::Start(Errno::ENOENT) if !tool.contains('/') => {
                Failure::new(format_args!("cannot run {tool}: no such program on the PATH (ENOENT)"))
                    .with_status(NOT_FOUND)
            }
            Error::Start(Errno::ENOENT) => failure.with_status(NOT_FOUND),
            Error::Start(_) => failure.with_status(NOT_EXECUTABLE),
            _ => failure,
        }
    })?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(0);
    Ok(ExitCode::from(code as u8))
}
