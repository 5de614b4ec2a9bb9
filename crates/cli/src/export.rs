//! `perfuse export`, `perfuse import` and `perfuse flamegraph`: a recording in the formats of other tools, and back.

use crate::exit::{Failure, Result};
use crate::record;
use crate::recording::functions::FunctionArgs;
use crate::recording::{self, FilterArgs, Input, SymbolFiles};
use crate::term::out::{Out, say};
use perfuse_data::replay::Replay;
use perfuse_data::text::foreign;
use perfuse_export::{Begun, BranchFormat, Branches, Format, WritePlan};
use perfuse_profile::{Admitted, Frames, Key, Names};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `perfuse export`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse export -o cpu.pb.gz                    for go tool pprof\n  perfuse export -o prog.speedscope.json         for speedscope\n  perfuse export -o prog.profile.json.gz         for profiler.firefox.com\n  perfuse export -o prog.trace.json              for Perfetto and chrome://tracing\n  perfuse export -o prog.otlp                    for OpenTelemetry\n  perfuse export -f folded | grep main           a line for each stack\n  perfuse export -i old.folded -o old.pb.gz      a profile of another tool\n  perfuse export -f markdown --percent-limit 1   a table of functions\n  perfuse export -c prog --time 10%-20% -o part.pb.gz\n  perfuse export -i branches.data -o prog.afdo   for clang -fprofile-sample-use\n  perfuse export -i branches.data -o prog.fdata  for llvm-bolt"
)]
pub(crate) struct Args {
    /// The recording, - for standard input; or a profile of another tool, as perfuse import takes it [default: perf.data, or standard input where it is a pipe]
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Believe what other users' files (/tmp/perf-PID.map, jit-PID.dump) say of code made at run time
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    symbol_files: SymbolFiles,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    functions: FunctionArgs,
    #[command(flatten)]
    looks: Looks,
    /// Of branches (autofdo, bolt): the program or library, by its path or name [default: the one with most of them]
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
    /// Which format, in place of the one that FILE's ending tells
    #[arg(short, long, value_name = "FORMAT", value_parser = format_named)]
    format: Option<Wanted>,
    /// Where to write it; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

/// The outermost frames of a profile in another format, and the least share that it shows.
#[derive(Clone, Debug, Default, clap::Args)]
struct Looks {
    /// The outermost frame of each stack: comm (default), pid (the thread), tgid (the process), cpu; symbol: no such frame
    #[arg(short, long, value_name = "KEY,...", value_delimiter = ',', value_parser = outermost)]
    sort: Vec<Key>,
    /// Of tables (csv, markdown) and flame graphs (SVG): leave out what is below this many percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    percent_limit: f64,
}

/// Options of `perfuse import`.
///
/// report, report --html, flamegraph, diff and export read the same files without an import. Their first bytes tell what they are;
/// they may be packed by gzip.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse import cpu.pb.gz                       what is in it\n  perfuse import cpu.pb.gz -o cpu.speedscope.json\n  perf script | perfuse import - -o cpu.svg      text of perf script\n  perfuse report -i cpu.pb.gz                    as of a recording"
)]
pub(crate) struct ImportArgs {
    /// Folded stacks, a profile of pprof, speedscope or Firefox Profiler, or the text of perf script; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write it in the format that -f or this file's ending tells
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Which format, in place of the one that the ending of -o tells
    #[arg(short, long, value_name = "FORMAT", value_parser = format_named)]
    format: Option<Wanted>,
}

/// A key of the outermost frame.
fn outermost(name: &str) -> std::result::Result<Key, String> {
    let known = [Key::Comm, Key::Pid, Key::Tgid, Key::Cpu, Key::Symbol];
    let found = Key::named(name).filter(|key| known.contains(key));
    found.ok_or_else(|| "keys are comm, pid, tgid, cpu, symbol".to_owned())
}

impl Looks {
    fn is_usual(&self) -> bool {
        self.sort.is_empty() && self.percent_limit == 0.0
    }

    /// The keys of the outermost frame.
    fn keys(&self) -> Vec<Key> {
        match self.sort.is_empty() {
            true => vec![Key::Comm],
            false => self.sort.iter().copied().filter(|key| *key != Key::Symbol).collect(),
        }
    }

    /// Refuses what a format cannot show.
    fn refuse_for(&self, format: Format) -> Result<()> {
        if self.percent_limit != 0.0 && !format.can_leave_out() {
            let why = "other formats have all functions, so that their sums are right";
            return Err(Failure::usage(format_args!(
                "--percent-limit is of csv, markdown and flamegraph: {why}"
            )));
        }
        if !self.sort.is_empty() && format.tells_threads() {
            return Err(Failure::usage(format_args!(
                "-s: {} has each thread by itself in any case",
                format.name()
            )));
        }
        Ok(())
    }
}

/// The target, the event and the rate of the recording that flamegraph makes first.
#[derive(Clone, Debug, Default, clap::Args)]
struct FirstRecord {
    /// Record these processes first, by number or by name, until Ctrl-C or until COMMAND ends
    #[arg(short = 'p', long = "record-pid", value_name = "PID|NAME", conflicts_with = "all_cpus")]
    of: Option<String>,
    /// Record the whole system first, as -p does a process
    #[arg(short, long)]
    all_cpus: bool,
    /// Record this event, as -e of record does
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    /// Record so many samples a second
    #[arg(short = 'F', long = "freq", value_name = "HZ")]
    frequency: Option<String>,
}

impl FirstRecord {
    /// The options of record for these.
    fn words(&self) -> Vec<OsString> {
        let given = [("-p", &self.of), ("-e", &self.event), ("-F", &self.frequency)];
        let given =
            given.into_iter().flat_map(|(name, value)| value.iter().flat_map(move |value| [name, value]));
        given.chain(self.all_cpus.then_some("-a")).map(Into::into).collect()
    }

    fn is_wanted(&self, args: &FlamegraphArgs) -> bool {
        !args.command.is_empty() || self.of.is_some() || self.all_cpus
    }
}

/// A format for profiles, or one for branches.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Profile(Format),
    Branches(BranchFormat),
}

impl Wanted {
    fn of_path(path: &Path) -> Option<Self> {
        let branches = || BranchFormat::of_path(path).map(Wanted::Branches);
        Format::of_path(path).map(Wanted::Profile).or_else(branches)
    }
}

/// Options of `perfuse flamegraph`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse flamegraph                    of perf.data, into perf.svg\n  perfuse flamegraph -i old.data -o old.svg\n  perfuse flamegraph -o perf.html       as a page of perfuse report --html\n  perfuse flamegraph -c prog -s pid     a graph for each thread, side by side\n  perfuse flamegraph -- ./program       records it with callchains first\n  perfuse flamegraph -p 1234 -- sleep 5 records a process for five seconds"
)]
pub(crate) struct FlamegraphArgs {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    symbol_files: SymbolFiles,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    functions: FunctionArgs,
    #[command(flatten)]
    looks: Looks,
    #[command(flatten)]
    record: FirstRecord,
    /// Where to draw it, as SVG, or as a page of perfuse report --html if it ends in .html; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "perf.svg")]
    output: PathBuf,
    /// Record this command first, with callchains as its programs need them (record --call-graph auto), into the file that -i names
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The names of all formats.
pub(crate) fn formats() -> Vec<&'static str> {
    let profiles = Format::ALL.iter().map(|(_, name)| *name);
    profiles.chain(BranchFormat::ALL.iter().map(|(_, name)| *name)).collect()
}

fn names() -> String {
    formats().join(", ")
}

fn format_named(name: &str) -> std::result::Result<Wanted, String> {
    let branches = || BranchFormat::named(name).map(Wanted::Branches);
    let found = Format::named(name).map(Wanted::Profile).or_else(branches);
    found.ok_or_else(|| format!("formats are {}", names()))
}

/// Exports a recording.
pub(crate) fn export(args: &Args) -> Result {
    let wanted = args.format.or_else(|| Wanted::of_path(&args.output)).ok_or_else(|| {
        Failure::usage(format_args!("which format? -f {}; or a file -o NAME.pb.gz", names()))
    })?;
    let input = Input::named(args.input.clone(), args.force);
    let format = match wanted {
        Wanted::Profile(format) => format,
        Wanted::Branches(format) => return branches(args, &input, format),
    };
    args.looks.refuse_for(format)?;
    if args.program.is_some() {
        return Err(Failure::usage(
            "--program is of autofdo and bolt; -c takes samples of some commands alone",
        ));
    }
    if !format.is_text() {
        let why = format!("{} is no text for a terminal; a file is named by -o", format.name());
        refuse_terminal(&args.output, &why)?;
    }
    write(&input, &args.symbol_files, (&args.filter, &args.functions), (format, &args.looks), &args.output)
}

/// Writes the branches of a program.
fn branches(args: &Args, input: &Input, format: BranchFormat) -> Result {
    if !args.functions.admits_all() || !args.looks.is_usual() {
        let why =
            "all branches of one program count: --program, -c, --pid, --tid, -C and --time choose in it";
        return Err(Failure::usage(format_args!("autofdo and bolt: {why}")));
    }
    let (mut data, symbols) = input.open_or_import(args.symbol_files.symbols(input.force))?;
    let mut wanted = Admitted::new(args.filter.of(&mut data, input)?, &symbols);
    let mut branches = Branches::new(symbols);
    recording::replay(Replay::new(data), |step| {
        let passes = step.sample().map_or(Ok(true), |sample| wanted.admits(step, sample))?;
        if passes {
            branches.step(step, wanted.filter());
        }
        Ok(())
    })?;
    if format == BranchFormat::AutoFdo && !branches.has_branches() {
        let hint = "autofdo is made of branches, which perfuse record -b records";
        return Err(Failure::new(format_args!("{} has no branches: {hint}", input.name())));
    }
    let programs = branches.programs();
    let is_named = |path: &str, name: &str| path == name || path.rsplit('/').next() == Some(name);
    let found =
        programs.iter().find(|(_, path, _)| args.program.as_ref().is_none_or(|name| is_named(path, name)));
    let Some(&(program, path, count)) = found else {
        let paths: Vec<String> =
            programs.iter().take(4).map(|(_, path, _)| foreign(path).to_string()).collect();
        let why = match paths.is_empty() {
            true => {
                "no program of its samples is here as it was recorded; --symfs names a copy of its system"
                    .to_owned()
            }
            false => format!("nothing is of that program; there are {}", paths.join(", ")),
        };
        return Err(Failure::new(format_args!("{}: {why}", input.name())));
    };
    let all: u64 = programs.iter().map(|(_, _, count)| count).sum();
    let what = if branches.has_branches() { "branches" } else { "samples" };
    let mut written = Default::default();
    write_file(&args.output, |out| {
        written = branches.write(program, format, out)?;
        Ok(())
    })?;
    say(format_args!(
        "{}: {count} of {all} {what} are of it, in {} functions",
        foreign(path),
        written.functions
    ));
    if written.functions == 0 {
        let why = "no function of it is known; autofdo needs its debug information (-g), and the build that was recorded";
        return Err(Failure::new(format_args!("{}: {why}", foreign(path))));
    }
    Ok(ExitCode::SUCCESS)
}

/// Imports a profile of another tool, or tells what is in it.
pub(crate) fn import(args: &ImportArgs) -> Result {
    let input = Input::at(args.file.clone(), false);
    if args.output.is_some() || args.format.is_some() {
        let output = args.output.clone().unwrap_or_else(|| "-".into());
        if args.format.is_none() && Wanted::of_path(&output).is_none() {
            return Err(Failure::usage(format_args!(
                "-o {}: a recording has no place for names of functions, so {} cannot become one\n\
                 perfuse report -i {1} reads it as it is; -o NAME.pb.gz or -f writes another format",
                output.display(),
                args.file.display()
            )));
        }
        let (input, symbol_files) = (args.file.clone(), SymbolFiles::default());
        let filter = FilterArgs::default();
        return export(&Args {
            input: Some(input),
            force: false,
            symbol_files,
            filter,
            functions: FunctionArgs::default(),
            looks: Looks::default(),
            program: None,
            format: args.format,
            output,
        });
    }
    let import = match input.begun()? {
        Some(Begun::Import(import)) => import,
        Some(Begun::Other(_)) => {
            let is_recording = input.path().as_os_str() != "-" && input.open().is_ok();
            return Err(Failure::new(format_args!(
                "{}: {}",
                input.name(),
                match is_recording {
                    true => "a recording, which needs no import: perfuse report -i shows it",
                    false =>
                        "no profile of pprof, speedscope or Firefox Profiler, text of perf script or folded stacks",
                }
            )));
        }
        None => return input.open().map(|_| ExitCode::SUCCESS),
    };
    let mut out = Out::new(std::io::stdout().lock(), false);
    writeln!(out, "{}: {}", input.name(), import.format().name())?;
    writeln!(
        out,
        "{:>12} samples, {} stacks, {} functions",
        import.samples(),
        import.stack_count(),
        import.function_count()
    )?;
    for (event, weight) in import.events() {
        writeln!(out, "{weight:>12} {}", foreign(event))?;
    }
    writeln!(out, "perfuse report -i {}", input.name())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Draws a recording, which it may make first by the options that `record_args` finds in words. A page of HTML is a report, which
/// `report` makes by words.
pub(crate) fn flamegraph(
    args: &FlamegraphArgs,
    record_args: &dyn Fn(Vec<OsString>) -> Result<Box<record::Args>>,
    report: &dyn Fn(Vec<OsString>) -> Result,
) -> Result {
    let is_page = args.output.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("html"));
    let records = args.record.is_wanted(args);
    if !records && !args.record.words().is_empty() {
        return Err(Failure::usage("-e and -F are of recording: -- COMMAND, -p PID or -a says of what"));
    }
    if is_page && !args.looks.is_usual() {
        return Err(Failure::usage(
            "-s and --percent-limit are of SVG; in a page threads are chosen by hand",
        ));
    }
    let input = if records { args.input.in_file() } else { args.input.clone() };
    let draw = || match is_page {
        true => {
            let words = ["perfuse", "report", "--html"].map(OsString::from).into_iter();
            let files = [args.output.clone().into(), "-i".into(), input.path().into()];
            let force = args.input.force.then(|| OsString::from("--force"));
            let filter = [args.filter.arguments(), args.functions.arguments()].concat();
            report(words.chain(files).chain(force).chain(args.symbol_files.words()).chain(filter).collect())
        }
        false => {
            let filters = (&args.filter, &args.functions);
            write(&input, &args.symbol_files, filters, (Format::Flamegraph, &args.looks), &args.output)
        }
    };
    if !records {
        return draw();
    }
    let to = input.path().as_os_str().to_owned();
    let words = ["perfuse", "record", "--call-graph=auto", "-o"].map(OsString::from).into_iter();
    let words = words.chain([to]).chain(args.record.words());
    let words =
        words.chain((!args.command.is_empty()).then(|| "--".into())).chain(args.command.iter().cloned());
    let status = record::run(&*record_args(words.collect())?)?;
    draw()?;
    Ok(status)
}

pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a recording, or a profile of another tool, in a format; packed, if the name of the file says so.
fn write(
    input: &Input,
    files: &SymbolFiles,
    (filter, functions): (&FilterArgs, &FunctionArgs),
    (format, looks): (Format, &Looks),
    output: &Path,
) -> Result {
    let symbols = files.symbols(input.force).with_debug_info(format.tells_lines(), format.tells_lines());
    let (mut plan, keys) = (format.plan(), looks.keys());
    if !format.tells_threads() {
        plan.keys.clone_from(&keys);
    }
    let (mut profile, symbols, passed) = recording::profile(input, plan, symbols, filter)?;
    if !functions.admits_all() {
        let frames = Frames::new(&Names::new(&profile, &symbols), false);
        functions.apply(&mut profile, &frames);
    }
    // Events have all samples, rows those that pass.
    let samples = profile.samples().iter().map(|row| row.samples).sum();
    if samples == 0 {
        let none = passed.none_left(filter, &functions.words());
        let why = none.unwrap_or_else(|| "there are no samples to export".to_owned());
        return Err(Failure::new(format_args!("{}: {why}", input.name())));
    }
    let title = input.name();
    let plan = WritePlan::new(&title).least(looks.percent_limit).by(&keys);
    let write = |out: &mut dyn Write| perfuse_export::write_by(&profile, &symbols, format, &plan, out);
    write_to(output, samples, |out| match format.is_packed(output) {
        true => perfuse_export::packed(out, write),
        false => write(out),
    })
}

/// Refuses to write to a terminal, for the reason that is given.
pub(crate) fn refuse_terminal(output: &Path, why: &str) -> Result<()> {
    match is_stdout(output) && std::io::stdout().is_terminal() {
        true => Err(Failure::usage(why)),
        false => Ok(()),
    }
}

/// Writes to a file, and says so with the number of samples in it, or to standard output.
pub(crate) fn write_to(
    output: &Path,
    samples: u64,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result {
    write_file(output, write)?;
    if !is_stdout(output) {
        say(format_args!("wrote {} ({samples} samples)", output.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes to a file, or to standard output.
fn write_file(output: &Path, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    if is_stdout(output) {
        let mut out = BufWriter::new(std::io::stdout().lock());
        write(&mut out)?;
        out.flush()?;
    } else {
        let file = File::create(output).map_err(|error| failed(output, &error))?;
        let mut out = BufWriter::new(file);
        let written = write(&mut out).and_then(|()| out.flush());
        written.map_err(|error| failed(output, &error))?;
    }
    Ok(())
}

pub(crate) fn failed(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format_args!("{}: {error}", path.display()))
}
