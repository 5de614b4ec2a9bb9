//! `perfuse export`, `perfuse import` and `perfuse flamegraph`: a recording in the formats of other tools, and back.

use crate::exit::{Failure, Result};
use crate::record;
use crate::recording::{self, Input, SymbolFiles};
use crate::term::out::{Out, say};
use perfuse_data::text::foreign;
use perfuse_export::{Begun, Format};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `perfuse export`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse export -o cpu.pb.gz                    for go tool pprof\n  perfuse export -o prog.speedscope.json         for speedscope\n  perfuse export -o prog.profile.json.gz         for profiler.firefox.com\n  perfuse export -o prog.trace.json              for Perfetto and chrome://tracing\n  perfuse export -o prog.otlp                    for OpenTelemetry\n  perfuse export -f folded | grep main           a line for each stack\n  perfuse export -i old.folded -o old.pb.gz      a profile of another tool"
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
    /// Which format, in place of the one that FILE's ending tells
    #[arg(short, long, value_name = "FORMAT", value_parser = format_named)]
    format: Option<Format>,
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
    format: Option<Format>,
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
    /// Where to draw it, as SVG, or as a page of perfuse report --html if it ends in .html; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "perf.svg")]
    output: PathBuf,
    /// Record this command first, with callchains as its programs need them (record --call-graph auto), into the file that -i names
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn format_named(name: &str) -> std::result::Result<Format, String> {
    Format::named(name).ok_or_else(|| {
        let known: Vec<&str> = Format::ALL.iter().map(|(_, name)| *name).collect();
        format!("formats are {}", known.join(", "))
    })
}

/// Exports a recording.
pub(crate) fn export(args: &Args) -> Result {
    let format = args.format.or_else(|| Format::of_path(&args.output)).ok_or_else(|| {
        Failure::usage(format_args!(
            "which format? -f {}; or a file -o NAME.pb.gz",
            Format::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
        ))
    })?;
    if !format.is_text() {
        let why = format!("{} is no text for a terminal; a file is named by -o", format.name());
        refuse_terminal(&args.output, &why)?;
    }
    write(&Input::named(args.input.clone(), args.force), &args.symbol_files, format, &args.output)
}

/// Imports a profile of another tool, or tells what is in it.
pub(crate) fn import(args: &ImportArgs) -> Result {
    let input = Input::at(args.file.clone(), false);
    if args.output.is_some() || args.format.is_some() {
        let output = args.output.clone().unwrap_or_else(|| "-".into());
        if args.format.is_none() && Format::of_path(&output).is_none() {
            return Err(Failure::usage(format_args!(
                "-o {}: a recording has no place for names of functions, so {} cannot become one\n\
                 perfuse report -i {1} reads it as it is; -o NAME.pb.gz or -f writes another format",
                output.display(),
                args.file.display()
            )));
        }
        let (input, symbol_files) = (args.file.clone(), SymbolFiles::default());
        return export(&Args { input: Some(input), force: false, symbol_files, format: args.format, output });
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
            report(words.chain(files).chain(force).chain(args.symbol_files.words()).collect())
        }
        false => write(&input, &args.symbol_files, Format::Flamegraph, &args.output),
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
fn write(input: &Input, files: &SymbolFiles, format: Format, output: &Path) -> Result {
    let symbols = files.symbols(input.force).with_debug_info(format.tells_lines(), format.tells_lines());
    let (profile, symbols) = recording::profile(input, format.plan(), symbols)?;
    let samples = profile.events().iter().map(|event| event.samples).sum();
    if samples == 0 {
        return Err(Failure::new(format_args!("{}: there are no samples to export", input.name())));
    }
    let title = input.name();
    write_to(output, samples, |out| match format.is_packed(output) {
        true => {
            perfuse_export::packed(out, |out| perfuse_export::write(&profile, &symbols, format, &title, out))
        }
        false => perfuse_export::write(&profile, &symbols, format, &title, out),
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
    if is_stdout(output) {
        let mut out = BufWriter::new(std::io::stdout().lock());
        write(&mut out)?;
        out.flush()?;
    } else {
        let file = File::create(output).map_err(|error| failed(output, &error))?;
        let mut out = BufWriter::new(file);
        let written = write(&mut out).and_then(|()| out.flush());
        written.map_err(|error| failed(output, &error))?;
        say(format_args!("wrote {} ({samples} samples)", output.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format_args!("{}: {error}", path.display()))
}
