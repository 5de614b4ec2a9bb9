//! `perfuse sim`: plays scenarios on a machine that exists only in memory.

use crate::exit::{Failure, Result, reason};
use crate::term::out;
use perfuse_sim::scenario::{
    EventOutcome, NamedSwitch, Outcome, RecordValue, Scenario, ScenarioError, ScenarioRecord, play,
};
use serde_json::{Map, Value, json};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `perfuse sim`.
#[derive(Debug, clap::Args)]
#[command(after_help = "A scenario describes a machine, programs, events and what is done to them:\n\n  \
                  program worker\n    compute 10ms cycles=3000\n  end\n  start worker\n  open c cycles on worker\n  \
                  run 20ms\n  expect c 30000000\n  show counts\n\n\
                  The exit status is 1 if something was not as expected, 2 if a text is no scenario. \
                  docs/scenarios.md has all statements.\n\n\
                  Examples:\n  \
                  perfuse sim rotation.scenario             plays one\n  \
                  perfuse sim -q scenarios/                 all of a folder; says what was not as expected\n  \
                  perfuse sim --json a.scenario | jq .events    counts and records for other programs\n  \
                  perfuse sim --seed 7 a.scenario           what is left to chance comes out in another way")]
pub(crate) struct Args {
    /// Files with scenarios, or folders of *.scenario files; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Say only what was not as expected
    #[arg(short = 'q', long)]
    quiet: bool,

    /// Print what came of each scenario as a line of JSON: counts, records, who ran when
    #[arg(long, conflicts_with = "quiet")]
    json: bool,

    /// The seed of all chance, in place of those in the scenarios
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Status of a text that is no scenario.
const NO_SCENARIO: u8 = 2;

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let mut files = Vec::new();
    for file in &args.files {
        files.extend(scenarios(file)?);
    }
    let mut out = out::stdout();
    let several = files.len() > 1;
    let (mut met, mut missed, mut wrong) = (0, 0, 0);
    for file in &files {
        let mut scenario = match read(file)? {
            Ok(scenario) => scenario,
            Err(error) => {
                out::say(format_args!("{}: {}", file.display(), error.explain()));
                wrong += 1;
                continue;
            }
        };
        scenario.setup.seed = args.seed.unwrap_or(scenario.setup.seed);
        let outcome = play(&scenario);
        if args.json {
            writeln!(out, "{}", object(file, &outcome))?;
        } else if !args.quiet && !outcome.text.is_empty() {
            if several {
                writeln!(out, "{}:", file.display())?;
            }
            out.write_all(outcome.text.as_bytes())?;
        }
        for (line, found) in &outcome.failed {
            let _ = writeln!(out::stderr(), "{}:{line}: {found}", file.display());
        }
        met += outcome.met;
        missed += outcome.failed.len();
    }
    if several && !args.quiet && !args.json {
        let expectations = format!("{met} expectations met, {missed} not");
        let not = if wrong > 0 { format!(", {wrong} no scenarios") } else { String::new() };
        writeln!(out, "{} scenarios: {expectations}{not}", files.len() - wrong)?;
    }
    Ok(match (wrong, missed) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::FAILURE,
        _ => ExitCode::from(NO_SCENARIO),
    })
}

/// The file, or the scenarios of a folder by their names.
fn scenarios(file: &Path) -> std::result::Result<Vec<PathBuf>, Failure> {
    if !file.is_dir() {
        return Ok(vec![file.to_owned()]);
    }
    let failed = |error| Failure::new(format_args!("cannot read {}: {}", file.display(), reason(&error)));
    let mut all = Vec::new();
    for entry in std::fs::read_dir(file).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "scenario") {
            all.push(path);
        }
    }
    if all.is_empty() {
        return Err(Failure::new(format_args!("{} has no file *.scenario", file.display())));
    }
    all.sort();
    Ok(all)
}

/// The scenario of a file, or why it is none.
pub(crate) fn read(file: &Path) -> Result<std::result::Result<Scenario, ScenarioError>> {
    Ok(text(file)?.parse())
}

fn text(file: &Path) -> std::result::Result<String, Failure> {
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(file).map(|read| text = read)
    };
    read.map_err(|error| Failure::new(format_args!("cannot read {}: {}", file.display(), reason(&error))))?;
    Ok(text)
}

/// The outcome of a scenario, as JSON.
fn object(file: &Path, outcome: &Outcome) -> Value {
    let failed = outcome.failed.iter().map(|(line, problem)| json!({ "line": line, "problem": problem }));
    let switch = |switch: &NamedSwitch| {
        let task = switch.task.as_ref().map(|(task, name)| json!({ "tid": task.0, "name": name }));
        json!({ "at_ns": switch.at, "cpu": switch.cpu, "task": task })
    };
    json!({
        "file": file.to_string_lossy(),
        "ns": outcome.ns,
        "steps": outcome.steps,
        "met": outcome.met,
        "failed": failed.collect::<Vec<_>>(),
        "events": outcome.events.iter().map(event).collect::<Vec<_>>(),
        "turns": outcome.switches.iter().map(switch).collect::<Vec<_>>(),
    })
}

fn event(event: &EventOutcome) -> Value {
    let [value, enabled, running] = match event.values {
        Some(values) => values.map(Value::from),
        None => [Value::Null, Value::Null, Value::Null],
    };
    json!({
        "name": event.name,
        "refused": event.refused.map(|errno| errno.name().map_or_else(|| errno.0.to_string(), str::to_owned)),
        "state": event.state.map(|state| format!("{state:?}").to_lowercase()),
        "value": value,
        "enabled_ns": enabled,
        "running_ns": running,
        "records": event.records.iter().map(record).collect::<Vec<_>>(),
    })
}

fn record(record: &std::result::Result<ScenarioRecord, String>) -> Value {
    let seen = match record {
        Ok(seen) => seen,
        Err(problem) => return json!({ "problem": problem }),
    };
    let mut fields = Map::new();
    fields.insert("kind".to_owned(), seen.kind.to_string().into());
    for (name, value) in &seen.fields {
        let value = match value {
            RecordValue::Number(number) | RecordValue::Address(number) => Value::from(*number),
            RecordValue::Text(text) => Value::from(text.as_str()),
            RecordValue::Numbers(numbers) => Value::from(numbers.as_slice()),
        };
        fields.insert((*name).to_owned(), value);
    }
    Value::Object(fields)
}
