//! `perfuse export`, `perfuse import` and `perfuse flamegraph`: a recording in the formats of other tools, and back.

use crate::exit::{Failure, Result};
use crate::record;
use crate::recording::{self, FilterArgs, Input, SymbolFiles};
use crate::term::out::{Out, say};
use perfuse_data::replay::Replay;
use perfuse_data::text::foreign;
use perfuse_export::{Begun, BranchFormat, Branches, Format};
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
    /// Of tables (csv, markdown): leave out functions below this many percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    percent_limit: f64,
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
    after_help = "Examples:\n  perfuse flamegraph                    of perf.data, into perf.svg\n  perfuse flamegraph -i old.data -o old.svg\n  perfuse flamegraph -o perf.html       as a page of perfuse report --html\n  perfuse flamegraph -- ./program       records it with callchains first"
)]
pub(crate) struct FlamegraphArgs {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    symbol_files: SymbolFiles,
    #[command(flatten)]
    filter: FilterArgs,
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
    if args.percent_limit != 0.0 && !format.is_table() {
        let why = "other formats have all functions, so that their sums are right";
        return Err(Failure::usage(format_args!("--percent-limit is of csv and markdown: {why}")));
    }
    if args.program.is_some() {
        return Err(Failure::usage(
            "--program is of autofdo and bolt; -c takes samples of some commands alone",
        ));
    }
    if !format.is_text() {
        let why = format!("{} is no text for a terminal; a file is named by -o", format.name());
        refuse_terminal(&args.output, &why)?;
    }
    write(&input, &args.symbol_files, &args.filter, (format, args.percent_limit), &args.output)
}

/// Writes the branches of a program.
fn branches(args: &Args, input: &Input, format: BranchFormat) -> Result {
    let (mut data, symbols) = input.open_or_import(args.symbol_files.symbols(input.force))?;
    let filter = args.filter.of(&mut data)?;
    let mut branches = Branches::new(symbols);
    recording::replay(Replay::new(data), |step| {
        branches.step(step, &filter);
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
            percent_limit: 0.0,
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
    let input = if args.command.is_empty() { args.input.clone() } else { args.input.in_file() };
    let draw = || match is_page {
        true => {
            let words = ["perfuse", "report", "--html"].map(OsString::from).into_iter();
            let files = [args.output.clone().into(), "-i".into(), input.path().into()];
            let force = args.input.force.then(|| OsString::from("--force"));
            let filter = args.filter.arguments();
            report(words.chain(files).chain(force).chain(args.symbol_files.words()).chain(filter).collect())
        }
        false => write(&input, &args.symbol_files, &args.filter, (Format::Flamegraph, 0.0), &args.output),
    };
    if args.command.is_empty() {
        return draw();
    }
    let to = input.path().as_os_str().to_owned();
    let words = ["perfuse", "record", "--call-graph=auto", "-o"].map(OsString::from).into_iter();
    let words = words.chain([to, "--".into()]).chain(args.command.iter().cloned());
    let status = record::run(&*record_args(words.collect())?)?;
    draw()?;
    Ok(status)
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a recording, or a profile of another tool, in a format; packed, if the name of the file says so.
fn write(
    input: &Input,
    files: &SymbolFiles,
    filter: &FilterArgs,
    (format, least_percent): (Format, f64),
    output: &Path,
) -> Result {
    let symbols = files.symbols(input.force).with_debug_info(format.tells_lines(), format.tells_lines());
    let (profile, symbols) = recording::profile(input, format.plan(), symbols, filter)?;
    // Events have all samples, rows those that pass.
    let samples = profile.samples().iter().map(|row| row.samples).sum();
    if samples == 0 {
        let words = filter.words();
        let passing =
            if words.is_empty() { String::new() } else { format!(" that pass {}", words.join(" ")) };
        return Err(Failure::new(format_args!("{}: there are no samples{passing} to export", input.name())));
    }
    let title = input.name();
    let write = |out: &mut dyn Write| {
        perfuse_export::write_from(&profile, &symbols, format, &title, least_percent, out)
    };
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

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format_args!("{}: {error}", path.display()))
}
