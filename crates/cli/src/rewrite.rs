//! `perfuse cut`, `merge`, `strip`, `seal`, `convert`: recordings made of recordings.

use crate::exit::{Failure, Result, reason};
use crate::recording::stacks;
use crate::recording::{self, FilterArgs, Input, MORE_ERRORS};
use crate::term::foreign::foreign;
use crate::term::out::{Complaints, say};
use perfuse_data::abi::Release;
use perfuse_data::rewrite::{self, Cut, RewriteError, Rewritten, Target};
use perfuse_data::{PerfData, ReplacedFile};
use perfuse_profile::SealOptions;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where to write.
#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// Write there, when all is done; - for a pipe
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

impl Output {
    /// To this file.
    pub(crate) fn at(output: PathBuf) -> Self {
        Output { output }
    }

    /// Has a recording written, into a file that is there when it is whole, or into a pipe.
    pub(crate) fn write(
        &self,
        input: &str,
        rewrite: impl FnOnce(Target<'_>) -> std::result::Result<Rewritten, RewriteError>,
    ) -> Result<Rewritten> {
        let path = &self.output;
        let failed = |error| failure(path, input, error);
        if path.as_os_str() == "-" {
            if io::stdout().is_terminal() {
                return Err(Failure::usage(
                    "a recording is nothing for a terminal: -o - wants a pipe or a file",
                ));
            }
            return rewrite(Target::pipe(io::stdout().lock())).map_err(failed);
        }
        let cannot = |error: io::Error| failed(RewriteError::Write(error));
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            let file = File::options().write(true).open(path).map_err(cannot)?;
            return rewrite(Target::pipe(file)).map_err(failed);
        }
        let mut file = ReplacedFile::new(path).map_err(|error| cannot(error.error))?;
        let done = rewrite(Target::file(file.file())).map_err(failed)?;
        file.commit().map_err(|error| cannot(error.error))?;
        Ok(done)
    }
}

/// Why there is no new recording.
fn failure(output: &Path, input: &str, error: RewriteError) -> Failure {
    match error {
        RewriteError::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => error.into(),
        RewriteError::Write(error) => Failure::new(format_args!(
            "cannot write {}: {}; the recording is as it was",
            output.display(),
            reason(&error)
        )),
        RewriteError::NoTimes(error) => Failure::new(format_args!("--time: {error}; seconds may be given")),
        error => Failure::new(format_args!("{input}: {error}")),
    }
}

/// Says what could not be read, and what became of the rest.
pub(crate) fn tell(done: &Rewritten, output: &Path) -> ExitCode {
    let mut complaints = Complaints::about(MORE_ERRORS);
    for problem in &done.problems {
        complaints.say(format_args!("{problem}; what can be read around it counts"));
    }
    drop(complaints);
    if output.as_os_str() != "-" {
        let Rewritten { kept, samples, .. } = done;
        say(format_args!("wrote {} ({kept} of {samples} samples)", output.display()));
    }
    ExitCode::SUCCESS
}

/// Options of `perfuse cut`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse cut --time 10%-20% -o part.data         a tenth of a recording\n  perfuse cut --comm nginx -i all.data -o nginx.data\n  perfuse cut -e cycles -C 0-3 -o - | perfuse report -i -"
)]
pub(crate) struct CutArgs {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only samples of these events, by their names in the recording
    #[arg(short, long = "event", value_name = "NAME,...", value_delimiter = ',')]
    events: Vec<String>,
}

/// Runs `perfuse cut`.
pub(crate) fn cut(args: &CutArgs) -> Result {
    let mut data = args.input.open()?;
    let mut cut = Cut::default();
    (cut.filter, cut.events) = (args.filter.of(&mut data, &args.input)?, args.events.clone());
    let done = args.output.write(&args.input.name(), |target| cut.run(data, target))?;
    Ok(tell(&done, &args.output.output))
}

/// Options of `perfuse merge`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse merge -o all.data monday.data tuesday.data\n  perfuse merge -o - a.data b.data | perfuse report -i -"
)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    output: Output,
    /// The recordings: files, or folders of perf record --threads
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Runs `perfuse merge`.
pub(crate) fn merge(args: &MergeArgs) -> Result {
    for file in &args.files {
        let is_stored = fs::metadata(file).map_or(true, |metadata| metadata.is_file() || metadata.is_dir());
        if file.as_os_str() == "-" || !is_stored {
            return Err(Failure::usage("merge reads its recordings twice: it wants files, and no pipes"));
        }
        Input::at(file.clone(), false).open()?;
    }
    let open = |index: usize| PerfData::open(&args.files[index]);
    let done = args.output.write("merge", |target| rewrite::merge(args.files.len(), open, target))?;
    Ok(tell(&done, &args.output.output))
}

/// Options of `perfuse strip`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse strip --private -o public.data\n  perfuse strip --private -i all.data -o public.data"
)]
pub(crate) struct StripArgs {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: Output,
    /// Without names that tell of people and of what they run: paths, threads, command line, host, data of tracepoints, stacks
    #[arg(long, required = true)]
    private: bool,
}

/// Runs `perfuse strip`.
pub(crate) fn strip(args: &StripArgs) -> Result {
    let data = args.input.open()?;
    let done = args.output.write(&args.input.name(), |target| rewrite::strip(data, target))?;
    Ok(tell_changes(&done, &args.output.output))
}

/// The same, after what became otherwise.
fn tell_changes(done: &Rewritten, output: &Path) -> ExitCode {
    for (change, count) in &done.changes {
        say(format_args!("{change}: {count}"));
    }
    tell(done, output)
}

/// Texts of source files take no more bytes than this together.
const MOST_SOURCES: usize = 32 << 20;

/// Objects without names that are told of.
const MOST_MISSING: usize = 5;

/// Options of `perfuse seal`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse seal -o sealed.data                    opens on any machine, with names and lines\n  perfuse seal --sources -i all.data -o sealed.data\n  perfuse report -i sealed.data"
)]
pub(crate) struct SealArgs {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: Output,
    /// With the texts of the source files that samples were in
    #[arg(long)]
    sources: bool,
}

/// Runs `perfuse seal`.
pub(crate) fn seal(args: &SealArgs) -> Result {
    let symbols = recording::symbols(args.input.force);
    let data = args.input.open_named(&symbols)?;
    let mut options = SealOptions::default();
    if args.sources {
        options = options.with_sources(MOST_SOURCES);
    }
    let mut told = None;
    let done = args.output.write(&args.input.name(), |target| {
        let (sealed, unwinder) = perfuse_profile::seal(data, target, &symbols, options)?;
        let rewritten = std::mem::take(&mut told.insert((sealed, unwinder)).0.rewritten);
        Ok(rewritten)
    })?;
    if let Some((sealed, unwinder)) = told {
        for (object, why) in sealed.missing.iter().take(MOST_MISSING) {
            say(format_args!("{}: not all names are inside: {}", foreign(object), foreign(why)));
        }
        if sealed.missing.len() > MOST_MISSING {
            say(format_args!("and {} more objects", sealed.missing.len() - MOST_MISSING));
        }
        stacks::say(&unwinder);
        let sources = if args.sources { format!(", {} source files", sealed.sources) } else { String::new() };
        let unwound =
            if sealed.stacks > 0 { format!(", {} stacks unwound", sealed.stacks) } else { String::new() };
        say(format_args!(
            "sealed {} functions of {} objects{sources}, in {} KiB{unwound}",
            sealed.functions,
            sealed.objects,
            sealed.bytes.div_ceil(1024)
        ));
    }
    Ok(tell(&done, &args.output.output))
}

/// Options of `perfuse convert`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perfuse convert --for perf-6.1 -o old.data     so that the perf of Debian 12 reads it\n  perfuse convert --for perf-5.10 -i new.data -o - | perf report -i -"
)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: Output,
    /// The perf that is to read it, such as perf-6.1
    #[arg(long = "for", value_name = "PERF", value_parser = perf_release)]
    reader: Release,
}

fn perf_release(text: &str) -> std::result::Result<Release, String> {
    let release = Release::parse(text.strip_prefix("perf-").unwrap_or(text));
    let release = release.filter(|release| *release >= Release::v2_6(31));
    release.ok_or_else(|| "a perf such as perf-6.1, from perf-2.6.31 on".to_owned())
}

/// Runs `perfuse convert`.
pub(crate) fn convert(args: &ConvertArgs) -> Result {
    let data = args.input.open()?;
    let done = args.output.write(&args.input.name(), |target| rewrite::convert(data, target, args.reader))?;
    Ok(tell_changes(&done, &args.output.output))
}
