//! `perfuse compare`: which of several commands takes less, and how sure is that?
//!
//! [`commands`] makes commands of the command line, `perfuse-stat` runs them and tells differences from chance, and
//! [`text`] shows what it says to people.

mod args;
mod commands;
mod profile;
mod progress;
mod text;

use crate::common::{self, events};
use crate::exit::{Failure, Result, reason};
use crate::stat;
use crate::term::out::{Out, wants_colours};
pub(crate) use args::Args;
use perfuse::Perf;
use perfuse_stat::CommandEvents;
use perfuse_stat::compare::{self as compared, ComparePlan, Comparison, Gate, Passed, Saved, Unit, advice};
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
    if let Some(path) = &args.load {
        let saved = Saved::read(path, args.by.as_deref()).map_err(Failure::new)?;
        let measured: Vec<_> =
            saved.done.comparison.measures.iter().map(|m| (m.id.as_str(), m.unit)).collect();
        check_measures(args, &measured, saved.done.comparison.candidates.len())?;
        return finish(args, saved, None);
    }
    let kernel = args.kernel.decide()?;
    args.events_dir.decide()?;
    if args.profile {
        kernel.tell();
        return profile::run(args, &kernel);
    }
    let (plan, mut warnings) = plan(args, &kernel)?;
    let mut measured = vec![("wall", Unit::Nanoseconds), ("cpu", Unit::Nanoseconds), ("rss", Unit::Bytes)];
    measured.extend(plan.events.iter().map(|(name, unit)| match unit {
        perfuse_events::Unit::Nanoseconds => (name, Unit::Nanoseconds),
        perfuse_events::Unit::Count => (name, Unit::Count),
    }));
    check_measures(args, &measured, plan.entries.len() + usize::from(plan.baseline.is_some()))?;
    kernel.tell();
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
    let shell = args.shell.as_deref().map_or("no shell".to_owned(), |shell| format!("in {shell}"));
    finish(args, Saved::here(done, plan.warmup, plan.seed, warnings), Some(&shell))
}

/// Looks at the limits, and writes everything.
fn finish(args: &Args, mut saved: Saved, shell: Option<&str>) -> Result {
    let (passed, unclear) = verdicts(&args.gates, &saved.done.comparison);
    saved.warnings.extend(passed.iter().chain(&unclear).cloned());
    write(args, &saved, shell)?;
    let fails = !passed.is_empty() || (args.fail_if_unclear && !unclear.is_empty());
    Ok(match () {
        () if fails => ExitCode::from(PASSED),
        () if saved.done.interrupted => ExitCode::from(INTERRUPTED),
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
        until_certain: args.until.is_none() && args.runs.is_none() && args.gates.is_empty(),
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
fn check_measures(args: &Args, known: &[(&str, Unit)], commands: usize) -> Result<()> {
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
    if commands < 2 && (!args.gates.is_empty() || args.until.is_some()) {
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

fn write(args: &Args, saved: &Saved, shell: Option<&str>) -> Result<()> {
    let comparison = &saved.done.comparison;
    let json = || compared::json(saved, &args.gates);
    let save = |path: &Path, text: String| {
        fs::write(path, text).map_err(|error| {
            Failure::new(format_args!("cannot write {}: {}", path.display(), reason(&error)))
        })
    };
    args.save.as_deref().map_or(Ok(()), |path| save(path, json()))?;
    args.export_markdown.as_deref().map_or(Ok(()), |path| save(path, compared::markdown(comparison)))?;
    args.export_csv.as_deref().map_or(Ok(()), |path| save(path, compared::csv(comparison)))?;
    let text = match args.json {
        true => json(),
        false => {
            let glyphs = crate::term::glyphs::of_the_locale();
            let options = text::Options { glyphs, quiet: args.quiet, columns: common::columns() };
            text::format(saved, &facts(saved, shell, glyphs.dot), &options)
        }
    };
    let coloured = wants_colours(stat::colors(args.color), &std::io::stdout());
    let mut out = Out::new(std::io::stdout().lock(), coloured);
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// The number of commands and runs, and how they ran, in one line.
fn facts(saved: &Saved, shell: Option<&str>, dot: &str) -> String {
    let done = &saved.done;
    let commands = done.comparison.candidates.len();
    let mut facts = vec![match commands {
        1 => "1 command".to_owned(),
        commands => format!("{commands} commands"),
    }];
    facts.push(match (commands, done.comparison.apart) {
        (1, _) => format!("{} runs", done.rounds),
        (_, true) => format!("{} runs against a baseline", done.rounds),
        (_, false) => format!("{} runs each in shuffled rounds", done.rounds),
    });
    if saved.warmup > 0 {
        facts.push(format!("{} warm-up", saved.warmup));
    }
    facts.extend(shell.map(str::to_owned));
    facts.push(format!("{:.1} s", done.elapsed.as_secs_f64()));
    if done.certain {
        facts.push("certain".to_owned());
    }
    if done.interrupted {
        facts.push("interrupted".to_owned());
    }
    facts.join(&format!(" {dot} "))
}
