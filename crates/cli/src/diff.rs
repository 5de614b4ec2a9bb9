//! `perfuse diff`: the functions whose share differs between two recordings, and how sure that is; or the table of `perf diff`.

use crate::common;
use crate::common::pages::{self, Paging};
use crate::common::style;
use crate::common::unsupported::{OfDiff, Unsupported};
use crate::exit::{Failure, Result};
use crate::recording::functions::FunctionArgs;
use crate::recording::{self, FilterArgs, Input, SymbolFiles};
use crate::stat;
use crate::term::foreign::foreign;
use crate::term::glyphs;
use crate::term::out::{say, wants_colours};
use clap::ColorChoice;
use perfuse_diff::{Classic, Compute, Looks, Named, Weights, by_function, is_time, of_recordings, text};
use perfuse_profile::{Frames, Key, LocalSymbols, Names, Plan, Profile, View, ViewPlan};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER: &str = "\
Examples:
  perfuse diff                             perf.data.old and perf.data
  perfuse diff before.data after.data
  perfuse diff -s dso,symbol a.data b.data c.data
  perfuse diff --markdown a.data b.data    a table for a pull request
  perfuse diff -c ratio a.data b.data      perf's table: how many times as much

Two recordings tell shares: a function whose share has grown is not slower if all others have become faster. The \
interval of a difference is Newcombe's for two proportions; verdicts are corrected for the number of functions \
(Holm's method), so that in less than one of a hundred comparisons of a program with itself any function is called. \
Rounds are the better evidence.";

/// Options of `perfuse diff`.
#[derive(Debug, clap::Args)]
// The letters are those of perf diff: -c is --compute there, and -C is --comms.
#[command(after_help = AFTER, mut_arg("comm", |arg| arg.short('C')), mut_arg("cpu", |arg| arg.short(None)))]
pub(crate) struct Args {
    /// The recording before and those after, each compared with it [default: perf.data.old perf.data; of one alone, it is the one after]
    #[arg(value_name = "FILE", num_args = 0..)]
    files: Vec<PathBuf>,
    /// Tell functions apart by these, as in perfuse report [default: symbol, in perf's table dso,symbol]
    #[arg(short, long, value_name = "KEY,...", value_delimiter = ',', value_parser = key)]
    sort: Vec<Key>,
    #[command(flatten)]
    classic: ClassicArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    functions: FunctionArgs,
    /// This event only, by its name
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// At most so many functions
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 30)]
    lines: usize,
    /// Only functions that differ
    #[arg(long)]
    called: bool,
    /// Believe what other users' files (/tmp/perf-PID.map, jit-PID.dump) say of code made at run time
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    symbol_files: SymbolFiles,
    /// Names as they are in the files
    #[arg(long)]
    no_demangle: bool,
    /// One JSON object a line for each event (schema perfuse.diff/1) in place of text
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// A table in Markdown of the functions that differ, in place of text
    #[arg(long)]
    markdown: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
    #[command(flatten)]
    paging: Paging,
}

/// Options that make the table perf's.
#[derive(Debug, clap::Args)]
struct ClassicArgs {
    /// perf's table with this: delta, delta-abs, ratio, wdiff:W1,W2
    #[arg(short = 'c', long, value_name = "HOW")]
    compute: Option<Compute>,
    /// perf's table by what is computed (1), or by the share before (0)
    #[arg(short, long, value_name = "COLUMN", value_parser = clap::value_parser!(u8).range(..2))]
    order: Option<u8>,
    /// perf's table without functions that are new
    #[arg(short, long)]
    baseline_only: bool,
    /// perf's table with the occurrences of the event
    #[arg(short, long)]
    period: bool,
    /// perf's table with each computation
    #[arg(short = 'F', long)]
    formula: bool,
    /// perf's table with this between columns, without padding
    #[arg(short = 't', long, value_name = "TEXT")]
    field_separator: Option<String>,
    /// No lines that begin with #, in perf's table
    #[arg(short, long)]
    quiet: bool,
    /// Base of percentages in perf's table: all samples, or relative to those that filters leave
    #[arg(long, value_name = "HOW", default_value = "absolute", hide_default_value = true, value_parser = ["absolute", "relative"])]
    percentage: String,
    #[command(flatten)]
    _untaken: Unsupported<OfDiff>,
}

impl ClassicArgs {
    /// Whether perf's table is shown.
    fn is_wanted(&self) -> bool {
        let given =
            [self.compute.is_some(), self.order.is_some(), self.baseline_only, self.period, self.formula];
        let has_text = self.field_separator.is_some() || self.percentage == "relative";
        has_text || given.contains(&true) || style::is_perfs(false)
    }

    fn looks(&self) -> Classic {
        Classic {
            compute: self.compute.unwrap_or_default(),
            by_baseline: self.order == Some(0),
            baseline_only: self.baseline_only,
            period: self.period,
            formula: self.formula,
            is_relative: self.percentage == "relative",
            separator: self.field_separator.clone(),
            quiet: self.quiet,
        }
    }
}

fn key(text: &str) -> std::result::Result<Key, String> {
    let key = Key::named(text).ok_or("is no key; comm, dso, symbol, srcline, cpu and others are");
    let key = key.and_then(|key| {
        if key.is_of_branch() { Err("is of branches, and samples are compared") } else { Ok(key) }
    });
    key.map_err(|why| format!("'{text}' {why}"))
}

/// The recording before the last one, as record leaves it.
const OLD: &str = "perf.data.old";

/// One recording.
struct Read {
    name: String,
    profile: Profile,
    frames: Frames,
    events: Vec<String>,
}

impl Args {
    fn keys(&self) -> &[Key] {
        match &self.sort[..] {
            [] if self.classic.is_wanted() => &[Key::Dso, Key::Symbol],
            [] => &[Key::Symbol],
            keys => keys,
        }
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let (before, later) = match &args.files[..] {
        [] | [_] if !Path::new(OLD).exists() => {
            return Err(Failure::usage(format_args!(
                "two recordings are compared, and there is no {OLD}\n  try: perfuse diff BEFORE AFTER"
            )));
        }
        [] => (OLD.into(), vec!["perf.data".into()]),
        [after] => (OLD.into(), vec![after.clone()]),
        [before, later @ ..] => (before.clone(), later.to_vec()),
    };
    let symbols = args.symbol_files.symbols(args.force);
    let before = read(args, before, &symbols)?;
    let is_coloured = wants_colours(stat::colors(args.color), &std::io::stdout());
    pages::paged(args.paging, is_coloured, |out| {
        for (at, after) in later.into_iter().enumerate() {
            compare(args, &before, &read(args, after, &symbols)?, at == 0, out)?;
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Writes what differs between two recordings.
fn compare(args: &Args, before: &Read, after: &Read, is_first: bool, out: &mut impl Write) -> Result<()> {
    let (columns, glyphs) = (common::columns(), glyphs::of_the_locale());
    let looks = Looks { columns, glyphs, lines: args.lines, called: args.called };
    for (at, (old, new)) in pairs(args, before, after)?.into_iter().enumerate() {
        if args.classic.is_wanted() && !args.json && !args.markdown {
            let event = after.events[new].as_str();
            let views = [view(args, before, old), view(args, after, new)];
            let (several, is_first) = (args.files.len() > 2, is_first && at == 0);
            if several && at == 0 && !args.classic.quiet {
                let (line, names) =
                    (if is_first { "" } else { "\n" }, [&before.name, &after.name].map(foreign));
                writeln!(out, "{line}# Data files:\n#  [0] {} (Baseline)\n#  [1] {}\n#", names[0], names[1])?;
            }
            let is_first = is_first || several && at == 0;
            let table = args.classic.looks().table(event, [&views[0], &views[1]], args.keys(), is_first);
            out.write_all(table.as_bytes())?;
            continue;
        }
        let weights = [weights(args, before, old), weights(args, after, new)];
        let report = of_recordings(&weights[0], &weights[1]);
        let event = after.events[new].as_str();
        let named =
            Named { report: &report, sides: [&before.name, &after.name], event, is_time: is_time(event) };
        let text = match (args.json, args.markdown) {
            (true, _) => perfuse_diff::json(&named),
            (_, true) => perfuse_diff::markdown(&named),
            _ => text(&named, &looks),
        };
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

fn read(args: &Args, input: PathBuf, symbols: &LocalSymbols) -> Result<Read> {
    let input = Input::at(input, args.force);
    let mut plan = Plan::new(args.keys());
    plan.chains = false;
    plan.code = Some(symbols.symbolizer().clone());
    let by_line = plan.keys.iter().any(|key| key.is_of_line());
    let by_address = plan.keys.iter().any(|key| key.is_of_address());
    let symbols = symbols.clone().with_debug_info(false, by_line);
    let (mut profile, symbols, passed) = recording::profile(&input, plan, symbols, &args.filter)?;
    let frames = |profile: &Profile| {
        let names = Names::new(profile, &symbols).mangled(args.no_demangle);
        names.look_up_all();
        Frames::new(&names, by_address)
    };
    if !args.functions.admits_all() {
        let all = frames(&profile);
        args.functions.apply(&mut profile, &all);
    }
    if profile.samples().is_empty() {
        let none = passed.none_left(&args.filter, &args.functions.words());
        none.into_iter().for_each(|why| say(format_args!("{}: {why}", input.name())));
    }
    let events = (0..profile.events().len()).map(|event| profile.event_name(event).into_owned()).collect();
    Ok(Read { name: input.name(), frames: frames(&profile), profile, events })
}

/// The events that both have, as their numbers in each.
fn pairs(args: &Args, before: &Read, after: &Read) -> Result<Vec<(usize, usize)>> {
    let has_samples = |read: &Read, at: usize| read.profile.event(at).samples > 0;
    let is_wanted = |&(old, new): &(usize, usize)| {
        args.event.as_ref().is_none_or(|name| [&before.events[old], &after.events[new]].contains(&name))
            && (has_samples(before, old) || has_samples(after, new))
    };
    let mut pairs = perfuse_diff::pairs(&before.events, &after.events);
    pairs.retain(is_wanted);
    let names = |read: &Read| match read.events.is_empty() {
        true => "no samples".to_owned(),
        false => read.events.join(", "),
    };
    match pairs.is_empty() {
        false => Ok(pairs),
        true => Err(Failure::new(format_args!(
            "no event{} with samples is in both recordings\n{} has {}, {} has {}",
            args.event.as_ref().map_or(String::new(), |name| format!(" '{name}'")),
            before.name,
            names(before),
            after.name,
            names(after)
        ))),
    }
}

fn view<'r>(args: &Args, read: &'r Read, event: usize) -> View<'r> {
    View::new(&read.profile, &read.frames, event, &ViewPlan::new(args.keys()))
}

fn weights(args: &Args, read: &Read, event: usize) -> Weights {
    by_function(&view(args, read, event), args.keys())
}
