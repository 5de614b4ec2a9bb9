//! `perfuse compare`: which of several commands takes less, and how sure is that?
//!
//! [`commands`] makes commands of the command line, `perfuse-stat` runs them and tells differences from chance, and
//! [`text`] shows what it says to people.

mod args;
mod commands;
mod progress;
mod text;

use crate::common::events;
use crate::exit::{Failure, Result};
use crate::stat;
use crate::term::out::{Out, wants_colours};
pub(crate) use args::Args;
use perfuse::Perf;
use perfuse_stat::CommandEvents;
use perfuse_stat::compare::{self as compared, ComparePlan, Comparison, Done, Gate, Passed, Unit, advice};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The exit status when a limit is passed.
const PASSED: u8 = 3;
/// The exit status after Ctrl-C.
const INTERRUPTED: u8 = 128 + 2;
/// Rounds start for so long, for each command, if nothing else is asked for.
const TIME: Duration = Duration::from_secs(3);
const EVENTS: &str = "instructions,cycles,branch-misses,page-faults,context-switches";

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let kernel = args.kernel.decide()?;
    args.events_dir.decide()?;
    let (plan, mut warnings) = plan(args, &kernel)?;
    check_measures(args, &plan)?;
    if let Some(setup) = &args.setup {
        compared::run_aside(&commands::words(setup, args.shell.as_deref())?, "the set-up")?;
    }
    warnings.extend(advice::before());
    let done = compared::compare(&plan, &mut progress::Progress::new(args.quiet));
    if let Some(cleanup) = &args.cleanup {
        compared::run_aside(&commands::words(cleanup, args.shell.as_deref())?, "the clean-up")?;
    }
    let done = done?;
    if done.rounds == 0 {
        return match done.interrupted {
            true => Ok(ExitCode::from(INTERRUPTED)),
            false => Err(Failure::new("no round was finished")),
        };
    }
    warnings.extend(advice::after(&plan, &done));
    let (passed, unclear) = verdicts(&args.gates, &done.comparison);
    warnings.extend(passed.iter().chain(&unclear).cloned());
    write(args, &plan, &done, &warnings)?;
    let fails = !passed.is_empty() || (args.fail_if_unclear && !unclear.is_empty());
    Ok(match () {
        () if fails => ExitCode::from(PASSED),
        () if done.interrupted => ExitCode::from(INTERRUPTED),
        () => ExitCode::SUCCESS,
    })
}

fn plan(args: &Args, kernel: &Perf) -> Result<(ComparePlan, Vec<String>)> {
    let entries = commands::entries(args)?;
    let name = &entries[0].candidate.name;
    let baseline = args
        .baseline
        .as_deref()
        .map(|path| compared::read_baseline(path, name))
        .transpose()
        .map_err(Failure::new)?;
    let (baseline, warnings) = match baseline {
        Some((baseline, warnings)) => (Some(baseline), warnings),
        None => (None, Vec::new()),
    };
    let events = match args.events.is_empty() {
        true => CommandEvents::new(kernel, &[EVENTS.to_owned()], &events::machine())?,
        false => CommandEvents::new(kernel, &args.events, &events::machine())?,
    };
    let (least, most) = match args.runs {
        Some(runs) => (runs, runs),
        None => (args.min_runs, args.max_runs.max(args.min_runs)),
    };
    // Until something is known, time is no reason to stop.
    let time = args.time.or(match (&args.until, args.runs) {
        (None, None) => Some(TIME * entries.len() as u32),
        _ => None,
    });
    let plan = ComparePlan {
        entries,
        events,
        warmup: args.warmup,
        least,
        most,
        time,
        until: args.until.clone(),
        by: args.by.clone(),
        ignore_failure: args.ignore_failure,
        input: args.input.clone(),
        show_output: args.show_output,
        seed: args.seed.unwrap_or_else(|| fastrand::u64(..)),
        baseline,
    };
    Ok((plan, warnings))
}

/// Every measure that the options name has to be measured, and every limit has to fit the unit of its measure.
fn check_measures(args: &Args, plan: &ComparePlan) -> Result<()> {
    let mut known = vec![("wall", Unit::Nanoseconds), ("cpu", Unit::Nanoseconds), ("rss", Unit::Bytes)];
    known.extend(plan.events.iter().map(|(name, unit)| match unit {
        perfuse_events::Unit::Nanoseconds => (name, Unit::Nanoseconds),
        perfuse_events::Unit::Count => (name, Unit::Count),
    }));
    let unit_of = |name: &str, option: &str| {
        let found = known.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit);
        found.ok_or_else(|| {
            let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
            Failure::usage(format_args!("{option}: '{name}' is not measured; there are {}", names.join(", ")))
        })
    };
    if let Some(by) = &args.by {
        unit_of(by, "--by")?;
    }
    if let Some(measure) = args.until.as_ref().and_then(|until| until.measure.as_ref()) {
        unit_of(measure, "--until")?;
    }
    for gate in &args.gates {
        let fits = gate.fits(unit_of(&gate.measure, "--fail-if")?);
        fits.map_err(|why| Failure::usage(format_args!("--fail-if '{}': {why}", gate.text)))?;
    }
    let alone = plan.entries.len() + usize::from(plan.baseline.is_some()) < 2;
    if alone && (!args.gates.is_empty() || args.until.is_some()) {
        return Err(Failure::usage("one command alone has no difference: give a second one, or --baseline"));
    }
    Ok(())
}

/// Sentences about the limits that are passed, and about those that more runs would have to decide.
fn verdicts(gates: &[Gate], comparison: &Comparison) -> (Vec<String>, Vec<String>) {
    let (mut passed, mut unclear) = (Vec::new(), Vec::new());
    for gate in gates {
        match gate.passed(comparison) {
            Passed::Yes => passed.push(format!("The limit '{}' is passed.", gate.text)),
            Passed::Unclear => unclear.push(format!(
                "Whether the limit '{}' is passed is unclear: more runs would tell.",
                gate.text
            )),
            Passed::No => {}
        }
    }
    (passed, unclear)
}

fn write(args: &Args, plan: &ComparePlan, done: &Done, warnings: &[String]) -> Result<()> {
    let json = || compared::json(done, &args.gates, warnings, plan.warmup, plan.seed);
    let save = |path: &Path, text: String| {
        fs::write(path, text)
            .map_err(|error| Failure::new(format_args!("cannot write {}: {error}", path.display())))
    };
    args.save.as_deref().map_or(Ok(()), |path| save(path, json()))?;
    args.export_markdown
        .as_deref()
        .map_or(Ok(()), |path| save(path, compared::markdown(&done.comparison)))?;
    args.export_csv.as_deref().map_or(Ok(()), |path| save(path, compared::csv(&done.comparison)))?;
    let text = match args.json {
        true => json(),
        false => {
            let options = text::Options { glyphs: crate::term::glyphs::of_the_locale(), quiet: args.quiet };
            text::format(done, &facts(args, plan, done, options.glyphs.dot), warnings, &options)
        }
    };
    let coloured = wants_colours(stat::colors(args.color), &std::io::stdout());
    let mut out = Out::new(std::io::stdout().lock(), coloured);
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// The number of commands and runs, and how they ran, in one line.
fn facts(args: &Args, plan: &ComparePlan, done: &Done, dot: &str) -> String {
    let commands = done.comparison.candidates.len();
    let mut facts = vec![match commands {
        1 => "1 command".to_owned(),
        commands => format!("{commands} commands"),
    }];
    facts.push(match (commands, plan.baseline.is_some()) {
        (1, _) => format!("{} runs", done.rounds),
        (_, true) => format!("{} runs against a baseline", done.rounds),
        (_, false) => format!("{} runs each in shuffled rounds", done.rounds),
    });
    if plan.warmup > 0 {
        facts.push(format!("{} warm-up", plan.warmup));
    }
    facts.push(args.shell.as_deref().map_or("no shell".to_owned(), |shell| format!("in {shell}")));
    facts.push(format!("{:.1} s", done.elapsed.as_secs_f64()));
    if done.interrupted {
        facts.push("interrupted".to_owned());
    }
    facts.join(&format!(" {dot} "))
}
