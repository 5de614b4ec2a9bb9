//! `perfuse annotate`: the instructions and source lines of the hottest functions, with their costs.

use crate::common;
use crate::common::pages::{self, Paging};
use crate::common::style;
use crate::common::unsupported::{OfAnnotate, Unsupported};
use crate::exit::{self, Failure, Result};
use crate::recording::passed::Passed;
use crate::recording::{self, FilterArgs, Input, SymbolFiles};
use crate::term::{foreign::foreign, glyphs, out, table::wrap};
use perfuse_annotate::text::{self, Looks, OfEvent, Value};
use perfuse_annotate::{Annotated, Annotator, Function, Sampled, Skid, Sources, Syntax};
use perfuse_data::Event;
use perfuse_data::replay::{Replay, Step};
use perfuse_profile::{Admitted, Frames, LocalSymbols, Names, Plan, Profile, Reading};
use perfuse_tui::{CodeOf, Loading, RowOrder, State, Tables};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Options of `perfuse annotate`.
///
/// Samples are those in a function itself, without what it calls. Percentages are of the function.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse annotate                   the hottest functions, instruction by instruction\n  perfuse annotate parse --lines     source lines of one function\n  perfuse annotate --json | jq .function.name"
)]
pub(crate) struct Args {
    /// Only functions of this name
    #[arg(value_name = "SYMBOL")]
    name: Option<String>,
    /// The recording: a file, a folder of perf record --threads, or - for standard input [default: perf.data, or standard input where it is a pipe]
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Believe what other users' files (/tmp/perf-PID.map, jit-PID.dump) say of code made at run time
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    symbol_files: SymbolFiles,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only functions of this name, as the argument
    #[arg(short, long, value_name = "SYMBOL", conflicts_with = "name")]
    symbol: Option<String>,
    /// Only functions of these objects, by name with or without folders
    #[arg(short, long, visible_alias = "dsos", value_name = "NAME,...", value_delimiter = ',')]
    dso: Vec<String>,
    /// Only this event
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// At most so many functions of an event
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    functions: usize,
    /// Leave out functions below this many percent of the event
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    percent_limit: f64,
    /// Take percentages of the function (local) or the event (global), by period or by number of samples (hits)
    #[arg(long, value_name = "TYPE", default_value = "local-period", value_parser = ["local-period", "local-hits", "global-period", "global-hits"])]
    percent_type: String,
    /// The number of samples in place of percentages
    #[arg(short = 'n', long)]
    show_nr_samples: bool,
    /// The occurrences of the event in place of percentages
    #[arg(long, conflicts_with = "show_nr_samples")]
    show_total_period: bool,
    /// Source lines alone, without instructions
    #[arg(long, conflicts_with_all = ["no_source", "asm_raw"])]
    lines: bool,
    /// Instructions alone, without source lines
    #[arg(long)]
    no_source: bool,
    /// List all source lines by their cost, not only the first
    #[arg(short = 'l', long)]
    print_line: bool,
    /// Long stretches of instructions without samples, too
    #[arg(long)]
    cold: bool,
    /// The bytes of instructions
    #[arg(long)]
    asm_raw: bool,
    /// How instructions of x86 are written: att or intel
    #[arg(short = 'M', long, value_name = "STYLE", default_value = "att", value_parser = ["att", "intel"])]
    disassembler_style: String,
    /// Paths of source files as they are in debug information
    #[arg(short = 'P', long)]
    full_paths: bool,
    /// Look for source files below this folder
    #[arg(long, value_name = "FOLDER")]
    prefix: Option<PathBuf>,
    /// Without so many of the first folders of their paths
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "prefix")]
    prefix_strip: usize,
    /// Names as they are in the files
    #[arg(long)]
    no_demangle: bool,
    /// No notes
    #[arg(short, long)]
    quiet: bool,
    /// Look around on the terminal, which is the default there
    #[arg(long, conflicts_with_all = ["json", "stdio"])]
    tui: bool,
    #[command(flatten)]
    text: style::Text,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    unsupported: Unsupported<OfAnnotate>,
    /// One JSON object a line for each function (schema perfuse.annotate/1) in place of text
    #[arg(long)]
    json: bool,
}

impl Args {
    fn input(&self) -> Input {
        Input::named(self.input.clone(), self.force)
    }

    /// Whether something was asked for that only text or an object has.
    fn is_of_text(&self) -> bool {
        let shape = self.asm_raw || self.no_source || self.print_line || self.cold || self.full_paths;
        self.json || self.quiet || shape || self.percent_limit > 0.0 || self.percent_type != "local-period"
    }

    /// The functions that were asked for by name.
    fn wanted(&self) -> Option<&str> {
        self.name.as_deref().or(self.symbol.as_deref())
    }

    fn syntax(&self) -> Syntax {
        if self.disassembler_style == "intel" { Syntax::Intel } else { Syntax::Att }
    }

    /// Annotates functions as the options say.
    fn annotator<'s>(&self, symbols: &'s LocalSymbols) -> Annotator<'s> {
        let sources = Sources::new().below(self.prefix.clone(), self.prefix_strip).sealed(symbols);
        Annotator::new(symbols)
            .with_sources((!self.no_source).then_some(sources))
            .with_syntax(self.syntax())
            .mangled(self.no_demangle)
    }
}

/// A line of JSON.
#[derive(serde::Serialize)]
struct Json<'j> {
    schema: &'static str,
    event: &'j str,
    skid: Skid,
    samples: u64,
    period: u64,
    function: &'j Annotated,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    style::can_have_screen(args.tui, "the output")?;
    if args.tui || (style::has_screen(&args.text, args.paging) && !args.is_of_text()) {
        return look_around(args);
    }
    pages::paged(args.paging, args.text.is_coloured(), |out| {
        show(out, args)?;
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Shows the hottest function on the terminal, or the one that was named, for somebody who goes on from there.
fn look_around(args: &Args) -> Result {
    let symbols = args.symbol_files.symbols(args.force);
    let annotator = args.annotator(&symbols);
    let mut code = |of: &CodeOf, profile: &Profile| {
        near(profile, &symbols, &annotator, args.no_demangle, of).map_err(|why| why.to_string())
    };
    let mut tables = Tables::default();
    (tables.order, tables.filter.objects) = (RowOrder::Own, args.dso.clone());
    let state = State::new(&args.input().name(), tables).with_looks(style::screen_looks());
    if args.input().path().is_file() {
        args.input().open()?;
    }
    let held = out::hold();
    let read = perfuse_tui::browse(state, |sender| load(args, &symbols, sender), &mut code, exit::left);
    drop(held);
    read??;
    Ok(ExitCode::SUCCESS)
}

/// Reads the recording for the terminal, and the first function from near.
fn load(args: &Args, symbols: &LocalSymbols, sender: &Sender<Loading>) -> Result<()> {
    let (profile, events, passed) = read(args, symbols)?;
    let is_wanted = |index: &usize| {
        let name = events.get(*index).map(Event::display_name);
        profile.event(*index).samples > 0 && (args.event.is_none() || args.event == name)
    };
    let Some(event) = (0..events.len()).find(is_wanted) else { return Err(nothing(args, &events, &passed)) };
    let names = Names::new(&profile, symbols).mangled(args.no_demangle);
    let sampled = Sampled::of(&profile, &names, event);
    let Some(function) = sampled.chosen(args.wanted(), &args.dso).into_iter().next() else {
        let known: Vec<String> = sampled.functions.iter().map(|function| function.name.clone()).collect();
        let missing = missing(&profile, &names);
        let failure = |wanted| unknown(wanted, &known, &missing);
        return Err(args.wanted().map_or_else(|| none_chosen(args, &missing), failure));
    };
    let of = CodeOf::new(event, &function.name, &function.path);
    let code = args.annotator(symbols).annotate(&profile, function);
    let frames = Frames::new(&names, false);
    drop(names);
    // Nobody takes it who has left.
    let _ = sender.send(Loading::All(Arc::new((profile, frames))));
    let _ = sender.send(Loading::Code(of, Box::new(Ok(code))));
    Ok(())
}

fn show(out: &mut impl Write, args: &Args) -> Result<()> {
    let symbols = args.symbol_files.symbols(args.force);
    let (profile, events, passed) = read(args, &symbols)?;
    let names = Names::new(&profile, &symbols).mangled(args.no_demangle);
    let annotator = args.annotator(&symbols);
    let looks = looks(args);
    let wanted = args.wanted();
    let (mut is_empty, mut is_found, mut known) = (true, false, Vec::new());
    for (index, event) in events.iter().enumerate() {
        let name = event.display_name();
        if profile.event(index).samples == 0 || args.event.as_ref().is_some_and(|wanted| *wanted != name) {
            continue;
        }
        is_empty = false;
        let sampled = Sampled::of(&profile, &names, index);
        let (whole, nameless) = (sampled.whole, sampled.nameless);
        let told = OfEvent { name: &name, skid: Skid::of(&event.attr), whole, nameless };
        let all = whole.weight.max(1) as f64;
        let is_enough =
            |function: &&Function| 100.0 * function.cost.weight as f64 / all >= args.percent_limit;
        let chosen: Vec<&Function> =
            sampled.chosen(wanted, &args.dso).into_iter().filter(is_enough).collect();
        is_found |= !chosen.is_empty();
        if wanted.is_some() && chosen.is_empty() {
            known.extend(sampled.functions.iter().map(|function| function.name.clone()));
        }
        for function in chosen.iter().take(args.functions) {
            let annotated = annotator.annotate(&profile, function);
            if args.json {
                let (samples, period) = (whole.samples, whole.weight);
                let (schema, skid, function) = ("perfuse.annotate/1", told.skid, &annotated);
                let line = Json { schema, event: &name, skid, samples, period, function };
                serde_json::to_writer(&mut *out, &line).map_err(std::io::Error::from)?;
                writeln!(out)?;
            } else {
                out.write_all(text::text(&annotated, &told, &looks).as_bytes())?;
            }
        }
        if !args.json && !args.quiet && !chosen.is_empty() {
            let left_out = chosen.get(args.functions..).unwrap_or_default();
            out.write_all(text::remarks(&told, left_out, &looks).as_bytes())?;
        }
    }
    match (is_empty, wanted) {
        (true, _) => Err(nothing(args, &events, &passed)),
        (false, Some(wanted)) if !is_found => Err(unknown(wanted, &known, &missing(&profile, &names))),
        (false, None) if !is_found => Err(none_chosen(args, &missing(&profile, &names))),
        _ if args.json || args.quiet => Ok(()),
        _ => {
            // Functions that are not shown may be in there.
            for why in missing(&profile, &names) {
                let words = wrap(&format!(" {} ", looks.glyphs.dot), &why, looks.words);
                out.write_all(words.as_bytes())?;
            }
            Ok(())
        }
    }
}

fn looks(args: &Args) -> Looks {
    let is_told = std::io::stdout().is_terminal() || std::env::var_os("COLUMNS").is_some();
    let columns = common::columns();
    Looks {
        limit: is_told.then_some(columns.max(40)),
        words: columns.min(common::WHOLE),
        glyphs: glyphs::of_the_locale(),
        value: match (args.show_nr_samples, args.show_total_period) {
            (true, _) => Value::Samples,
            (_, true) => Value::Period,
            _ => Value::Percent,
        },
        of_event: args.percent_type.starts_with("global"),
        of_samples: args.percent_type.ends_with("hits"),
        lines: args.lines,
        no_source: args.no_source,
        all_lines: args.print_line,
        cold: args.cold,
        raw: args.asm_raw,
        full_paths: args.full_paths,
    }
}

/// Reads all samples, each with its address.
fn read(args: &Args, symbols: &LocalSymbols) -> Result<(Profile, Vec<Event>, Passed)> {
    read_from(&args.input(), &args.filter, symbols, |step| args.unsupported.heed(step))
}

/// The same of any input.
fn read_from(
    input: &Input,
    filter: &FilterArgs,
    symbols: &LocalSymbols,
    heed: impl Fn(&Step<'_>) -> Result<()>,
) -> Result<(Profile, Vec<Event>, Passed)> {
    let mut data = input.open_named(symbols)?;
    let mut plan = Plan::new(&[]);
    plan.chains = false;
    plan.code = Some(symbols.symbolizer().clone());
    plan.tasks.comms.clone_from(&filter.comm);
    plan.tasks.pids.clone_from(&filter.pid);
    plan.tasks.tids.clone_from(&filter.tid);
    let mut wanted = Admitted::new(filter.of(&mut data, input)?, symbols);
    let (mut reading, mut passed) = (Reading::new(plan), Passed::default());
    let replay = recording::replay(Replay::new(data), |step| {
        heed(step)?;
        if let Some(sample) = step.sample() {
            let passes = wanted.admits(step, sample)?;
            passed.count(sample, passes);
            if !passes {
                return Ok(());
            }
        }
        reading.step(step);
        Ok(())
    })?;
    let (data, session) = replay.into_parts();
    let events = data.events().iter().cloned().collect();
    Ok((reading.finish(&session), events, passed))
}

/// Functions of a recording from near, one at a time: the recording is read when the first is asked for.
pub(crate) struct FromNear<'i> {
    input: &'i Input,
    filter: &'i FilterArgs,
    is_mangled: bool,
    symbols: LocalSymbols,
    profile: Option<Profile>,
}

impl<'i> FromNear<'i> {
    pub(crate) fn of(
        input: &'i Input,
        filter: &'i FilterArgs,
        files: &SymbolFiles,
        is_mangled: bool,
    ) -> Self {
        FromNear { input, filter, is_mangled, symbols: files.symbols(input.force), profile: None }
    }

    /// A function.
    pub(crate) fn show(&mut self, of: &CodeOf) -> Result<Annotated> {
        if self.input.path().as_os_str() == "-" {
            let why = "standard input has been read: code is shown of a recording in a file";
            return Err(Failure::new(why));
        }
        if self.profile.is_none() {
            self.profile = Some(read_from(self.input, self.filter, &self.symbols, |_| Ok(()))?.0);
        }
        let annotator = Annotator::new(&self.symbols).mangled(self.is_mangled);
        near(self.profile.get_or_insert_default(), &self.symbols, &annotator, self.is_mangled, of)
    }
}

/// A function of a profile that has addresses, or one into which it was inlined.
pub(crate) fn near(
    profile: &Profile,
    symbols: &LocalSymbols,
    annotator: &Annotator<'_>,
    is_mangled: bool,
    of: &CodeOf,
) -> Result<Annotated> {
    let names = Names::new(profile, symbols).mangled(is_mangled);
    let sampled = Sampled::of(profile, &names, of.event);
    let objects = [of.object.clone()];
    if let Some(found) = sampled.chosen(Some(&of.function), &objects).first() {
        return Ok(annotator.annotate(profile, found));
    }
    // Or those into which it was inlined, where the most samples are.
    let others = sampled.chosen(None, &objects).into_iter().take(MOST_LOOKED_INTO);
    let has_it = |found: &Annotated| {
        found.inlined.iter().any(|call| call.name == of.function && call.cost.samples > 0)
    };
    let found = others.map(|other| annotator.annotate(profile, other)).find(has_it);
    found.ok_or_else(|| Failure::new("no samples are in the function itself"))
}

/// So many functions are looked into for one that was inlined.
const MOST_LOOKED_INTO: usize = 32;

fn nothing(args: &Args, events: &[Event], passed: &Passed) -> Failure {
    let input = args.input().name();
    let names: Vec<String> = events.iter().map(Event::display_name).collect();
    match &args.event {
        Some(wanted) if !names.contains(wanted) => Failure::new(format_args!(
            "{input} has no event '{}'; it has {}",
            foreign(wanted),
            foreign(&names.join(", "))
        )),
        _ => match passed.none(&args.filter, &[]) {
            Some(none) => Failure::new(format_args!("{input}: {none}")),
            None => Failure::new(format_args!("{input}: there are no samples to show")),
        },
    }
}

/// No function is shown, though there are samples.
fn none_chosen(args: &Args, missing: &[String]) -> Failure {
    let mut words = args.filter.words_of_tasks();
    words.extend(recording::word("-d", &args.dso.join(",")));
    words.extend((args.percent_limit > 0.0).then(|| format!("--percent-limit {}", args.percent_limit)));
    let why = match words.is_empty() {
        true => "no sample is in a function whose name is known; perfuse report tells why".to_owned(),
        false => format!("no function passes {}", words.join(" ")),
    };
    Failure::new(format_args!("{}: {why}{}", args.input().name(), below(missing)))
}

/// So many files without names are told.
const MOST_MISSING: usize = 4;

/// Why files have no names: that they are gone, or of another build than the one that ran.
fn missing(profile: &Profile, names: &Names<'_>) -> Vec<String> {
    let told = names.missing().take(MOST_MISSING).map(|(object, why)| {
        let path = profile.object_path(object);
        let told = if why.starts_with(path.as_ref()) { why } else { format!("{path}: {why}") };
        foreign(&told).into_owned()
    });
    told.collect()
}

/// Lines below a message.
fn below(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

fn unknown(wanted: &str, known: &[String], missing: &[String]) -> Failure {
    let near = perfuse_events::nearest(wanted, known.iter().map(String::as_str));
    let hint = match (near.is_empty(), PathBuf::from(wanted).is_file()) {
        (_, true) => "; a recording is named by -i".to_owned(),
        (false, _) => format!("; did you mean {}?", foreign(&near.join(" or "))),
        _ => "; perfuse report --no-children lists functions".to_owned(),
    };
    // Which they are is too much for a refusal.
    let nameless = match missing.len() {
        0 => String::new(),
        1 => "; one file lacks names, and perfuse report tells which".to_owned(),
        count => format!("; {count} files lack names, and perfuse report tells which"),
    };
    Failure::new(format_args!("no samples are in a function '{}'{hint}{nameless}", foreign(wanted)))
}
