//! `perfuse compare --profile`: both commands are sampled in each round, and the time of each function is compared.

use super::args::Args;
use super::{INTERRUPTED, commands};
use crate::common;
use crate::exit::{Failure, Result, reason};
use crate::stat;
use crate::term::glyphs;
use crate::term::out::{self, Out, wants_colours};
use perfuse::Perf;
use perfuse_diff::Looks;
use perfuse_diff::{Named, RoundsPlan, SampleError, of_rounds, sample_rounds};
use std::fs;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Rounds start for so long, for each command, if nothing else is asked for.
const TIME: Duration = Duration::from_secs(10);
/// Fewer rounds tell little of functions.
const LEAST: u32 = 10;

/// Samples both commands in turns.
pub(super) fn run(args: &Args, kernel: &Perf) -> Result {
    let entries = commands::entries(args)?;
    let [before, after] = &entries[..] else {
        return Err(Failure::usage("--profile compares two commands"));
    };
    let words = [before, after].map(|entry| entry.words.iter().map(Into::into).collect());
    let mut record = perfuse_record::Plan::new(perfuse_record::Target::Command, Vec::new());
    record.kernel = kernel.clone();
    record.silent = !args.show_output;
    record.bpf = false;
    record.build_ids = false;
    let mut plan = RoundsPlan::new(record, words);
    plan.warmup = args.warmup;
    (plan.least, plan.most) = match args.runs {
        Some(runs) => (runs, runs),
        None => (args.min_runs.max(LEAST), args.max_runs.max(LEAST)),
    };
    plan.time = args.time.or((args.runs.is_none()).then_some(TIME * 2));
    plan.seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    plan.ignore_failure = args.ignore_failure;
    let shows_progress = !args.quiet && std::io::stderr().is_terminal();
    let sampled = sample_rounds(&plan, &mut |done| {
        if shows_progress {
            out::progress(&format!(" round {done}"));
        }
    });
    if shows_progress {
        out::progress_ends();
    }
    let sampled = sampled.map_err(|error| match error {
        SampleError::Failed(side, status) => Failure::new(format_args!(
            "'{}' failed ({status}); -i goes on regardless, --show-output shows why",
            entries[side].candidate.name
        )),
        SampleError::Record(error) => error.into(),
        error => Failure::new(error),
    })?;
    let report = of_rounds(&sampled.weights[0], &sampled.weights[1]);
    let event = sampled.event.as_str();
    let named = Named {
        report: &report,
        sides: [&before.candidate.name, &after.candidate.name],
        event,
        is_time: perfuse_diff::is_time(event),
    };
    if let Some(path) = &args.export_markdown {
        fs::write(path, perfuse_diff::markdown(&named)).map_err(|error| {
            Failure::new(format_args!("cannot write {}: {}", path.display(), reason(&error)))
        })?;
    }
    let looks =
        Looks { columns: common::columns(), glyphs: glyphs::of_the_locale(), lines: 30, called: false };
    let text = if args.json { perfuse_diff::json(&named) } else { perfuse_diff::text(&named, &looks) };
    let coloured = wants_colours(stat::colors(args.color), &std::io::stdout());
    let mut out = Out::new(std::io::stdout().lock(), coloured);
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(if sampled.interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}
