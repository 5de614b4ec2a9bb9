//! Things that all subcommands that read a recording share: opening it, names of its events, its records in the
//! order of time together with what was running then.

pub(crate) mod functions;
pub(crate) mod header;
pub(crate) mod passed;
pub(crate) mod progress;
pub(crate) mod stacks;

use crate::exit::Failure;
use crate::term::foreign::foreign;
use crate::term::out::{Complaints, say};
use passed::Passed;
use perfuse_data::describe::{self, DumpOptions};
use perfuse_data::feature::{Feature, FeatureId};
use perfuse_data::replay::{CpuRanges, Filter, Replay, Step, Switches, TimeSpans, event_names, sample_span};
use perfuse_data::{PerfData, Problem, ReadOptions};
use perfuse_export::{Begun, ImportFormat, import_or_begun};
use perfuse_profile::{Admitted, LocalSymbols, Lookup, Plan, Profile, Reading, TracepointTexts};
use perfuse_symbols::SymbolOptions;
use perfuse_trace::{Expr, ExprError};
use perfuse_unwind::Unwinder;
use progress::Progress;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Cursor, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The store of files by build-id that `--buildid-dir` names in front of a subcommand.
pub(crate) static STORE: OnceLock<PathBuf> = OnceLock::new();

/// Which recording.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Input {
    /// The recording: a file, a folder of perf record --threads, or - for standard input [default: perf.data, or standard input where it is a pipe]
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The same, without -i
    #[arg(value_name = "FILE", conflicts_with = "input")]
    file: Option<PathBuf>,
    /// Believe what other users' files (/tmp/perf-PID.map, jit-PID.dump) say of code made at run time
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// Whether a standard stream is a pipe, as both are in `perf record COMMAND | perf report`.
fn is_pipe(stream: impl std::os::fd::AsFd) -> bool {
    let found = rustix::fs::fstat(stream);
    found.is_ok_and(|found| rustix::fs::FileType::from_raw_mode(found.st_mode).is_fifo())
}

/// Whether a recording goes into the pipe that standard output is, as nobody has named a file. Where messages go into the same
/// pipe, as in logs, nobody reads a recording from it.
pub(crate) fn is_read_from_pipe() -> bool {
    let place = |found: rustix::fs::Stat| (found.st_dev, found.st_ino);
    let [out, errors] = [rustix::fs::fstat(std::io::stdout()), rustix::fs::fstat(std::io::stderr())];
    is_pipe(std::io::stdout()) && out.map(place) != errors.map(place)
}

impl Input {
    /// This recording.
    pub(crate) fn at(input: PathBuf, force: bool) -> Self {
        Input::named(Some(input), force)
    }

    /// The recording of this name, or the default where none was named.
    pub(crate) fn named(input: Option<PathBuf>, force: bool) -> Self {
        Input { input, file: None, force }
    }

    /// Its name, as it was given.
    pub(crate) fn path(&self) -> &Path {
        let default = || Path::new(if is_pipe(std::io::stdin()) { "-" } else { "perf.data" });
        self.file.as_deref().or(self.input.as_deref()).unwrap_or_else(default)
    }

    /// The same, of which the default is a file whatever standard input is.
    pub(crate) fn in_file(&self) -> Self {
        let named = self.file.as_ref().or(self.input.as_ref()).cloned();
        Input::at(named.unwrap_or_else(|| "perf.data".into()), self.force)
    }

    pub(crate) fn open(&self) -> Result<PerfData<'static>, Failure> {
        self.open_with(ReadOptions::default())
    }

    /// The same, or a profile of another tool as one; and the symbols to name its functions by, which are then its own.
    pub(crate) fn open_or_import(
        &self,
        symbols: LocalSymbols,
    ) -> Result<(PerfData<'static>, LocalSymbols), Failure> {
        let import = match self.begun()? {
            Some(Begun::Import(import)) => import,
            Some(Begun::Other(begun)) if self.path().as_os_str() == "-" || !self.path().is_file() => {
                let opened = PerfData::from_reader(begun, ReadOptions::default());
                return Ok((opened.map_err(|error| self.failure(&self.why_not(&error)))?, symbols));
            }
            _ => return Ok((self.open_named(&symbols)?, symbols)),
        };
        let (bytes, names) = import.recording().map_err(|error| self.failure(&error))?;
        if import.is_merged() {
            let samples = import.samples();
            say(format_args!(
                "{}: {samples} samples are too many to be told one by one; those that are alike are one",
                self.name()
            ));
        }
        let own = self::symbols(self.force);
        names.give(own.symbolizer());
        let opened = PerfData::from_seekable(Cursor::new(bytes), ReadOptions::default());
        Ok((opened.map_err(|error| self.failure(&error))?, own))
    }

    /// The profile of another tool, if it is one; of a file that cannot be opened, nothing.
    pub(crate) fn begun(&self) -> Result<Option<Begun<Box<dyn Read + Send>>>, Failure> {
        let from: Box<dyn Read + Send> = match self.path().as_os_str() == "-" {
            true => Box::new(std::io::stdin()),
            // A pipe is read once, as standard input is.
            false if !self.path().is_dir() => match File::open(self.path()) {
                Ok(file) => Box::new(file),
                Err(_) => return Ok(None),
            },
            false => return Ok(None),
        };
        import_or_begun(self.path(), from).map(Some).map_err(|error| self.failure(&error))
    }

    fn failure(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::new(format_args!("{}: {why}", self.name()))
    }

    pub(crate) fn open_with(&self, options: ReadOptions) -> Result<PerfData<'static>, Failure> {
        let opened = match self.path().as_os_str() == "-" {
            true => PerfData::from_reader(std::io::stdin(), options),
            false => PerfData::open_with(self.path(), options),
        };
        opened.map_err(|error| Failure::new(format_args!("{}: {}", self.name(), self.why_not(&error))))
    }

    /// Opens it, and takes in the names that it has inside if it was sealed.
    pub(crate) fn open_named(&self, symbols: &LocalSymbols) -> Result<PerfData<'static>, Failure> {
        let mut data = self.open()?;
        if symbols.take_sealed(&mut data) {
            log::info!("{}: sealed, with its names inside", self.name());
        }
        Ok(data)
    }

    /// Why it cannot be opened, and what would help.
    fn why_not(&self, error: &perfuse_data::Error) -> String {
        if self.path().as_os_str() == "-" {
            return match error.problem {
                Problem::Magic(found) => not_a_recording(found),
                Problem::Truncated { available: 0, .. } => "nothing came from standard input".to_owned(),
                _ => error.to_string(),
            };
        }
        let opened = std::fs::metadata(self.path()).and_then(|metadata| match metadata.is_file() {
            true => std::fs::File::open(self.path()).map(|_| metadata),
            false => Ok(metadata), // opening a FIFO would wait
        });
        match opened {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
                "no such file; `perfuse record COMMAND` makes a perf.data, -i names another".to_owned()
            }
            Err(why) if why.kind() == std::io::ErrorKind::PermissionDenied => {
                "this user may not read it; its owner, or root, can".to_owned()
            }
            Ok(metadata) if metadata.is_file() && metadata.len() == 0 => {
                "an empty file: nothing was recorded".to_owned()
            }
            Ok(metadata) if metadata.is_dir() && !self.path().join("data").exists() => {
                "a folder without the file data of `perf record --threads`; -i names another".to_owned()
            }
            _ => match error.problem {
                Problem::Magic(found) => match self.import_format() {
                    Some(format) => format!(
                        "{}, not a recording; report, flamegraph, diff, export and import read it",
                        format.name()
                    ),
                    None => not_a_recording(found),
                },
                Problem::Truncated { available: 0, .. } if error.location.offset == 0 => {
                    "it is empty: nothing was recorded".to_owned()
                }
                Problem::Truncated { available, .. } if error.structure == "file header" => {
                    let bytes = error.location.offset.saturating_add(available);
                    format!("not a perf.data file: it ends after {bytes} bytes")
                }
                _ => error.to_string(),
            },
        }
    }

    /// The format of another tool that the file begins in.
    pub(crate) fn import_format(&self) -> Option<ImportFormat> {
        let file = File::open(self.path()).ok().filter(|_| self.path().is_file())?;
        let mut start = Vec::new();
        file.take(ImportFormat::START).read_to_end(&mut start).ok()?;
        ImportFormat::of(self.path(), &start)
    }

    pub(crate) fn name(&self) -> String {
        self.path().to_string_lossy().into_owned()
    }
}

/// Where symbols are looked for, if not on this machine.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SymbolFiles {
    /// Look for programs, debug files and .debug, the store of build-ids, below this folder: the root of a copied system
    #[arg(long, value_name = "FOLDER")]
    symfs: Option<PathBuf>,
    /// Name the kernel's functions by this copy of /proc/kallsyms
    #[arg(long, value_name = "FILE")]
    kallsyms: Option<PathBuf>,
    /// Name the kernel's functions by its ELF file
    #[arg(short = 'k', long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
}

impl SymbolFiles {
    /// The names that these files have.
    pub(crate) fn symbols(&self, any_owner: bool) -> LocalSymbols {
        let mut options = symbol_options(any_owner);
        if let Some(root) = &self.symfs {
            options = options.below(root.clone());
        }
        options.kallsyms.clone_from(&self.kallsyms);
        options.vmlinux.clone_from(&self.vmlinux);
        options.into()
    }

    /// The same as options of a command line.
    pub(crate) fn words(&self) -> impl Iterator<Item = OsString> {
        let given = [("--symfs", &self.symfs), ("--kallsyms", &self.kallsyms), ("--vmlinux", &self.vmlinux)];
        given
            .into_iter()
            .flat_map(|(name, file)| file.iter().flat_map(move |file| [name.into(), file.into()]))
    }
}

/// The names that this machine's files have. The list of the kernel's symbols is kept in the user's folder of caches.
pub(crate) fn symbols(any_owner: bool) -> LocalSymbols {
    symbol_options(any_owner).into()
}

/// The places where symbols are looked for.
pub(crate) fn symbol_options(any_owner: bool) -> SymbolOptions {
    let mut options = SymbolOptions::default();
    options.any_owner = any_owner;
    options.build_id_store = STORE.get().cloned().or(options.build_id_store);
    options.cache = cache();
    options
}

/// The user's folder of what was found out before.
pub(crate) fn cache() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    Some(caches?.join("perfuse"))
}

/// A file that begins in another way than recordings do.
fn not_a_recording(magic: [u8; 8]) -> String {
    let begins = magic.escape_ascii();
    format!("not a perf.data file: it begins with \"{begins}\" in place of \"PERFILE2\"")
}

/// The words for all errors but the first.
pub(crate) const MORE_ERRORS: &str = "further errors; what can be read around them counts";

/// Goes through a recording, and hands each record to `visit`.
///
/// Ends quietly where a recording is cut off or broken: what came before counts, and the place is said on
/// standard error.
pub(crate) fn replay<'i>(
    replay: Replay<'i>,
    mut visit: impl FnMut(&Step<'_>) -> Result<(), Failure>,
) -> Result<Replay<'i>, Failure> {
    replay_until(replay, |step| visit(step).map(ControlFlow::Continue))
}

/// The same until `visit` has seen enough.
pub(crate) fn replay_until<'i>(
    replay: Replay<'i>,
    mut visit: impl FnMut(&Step<'_>) -> Result<ControlFlow<()>, Failure>,
) -> Result<Replay<'i>, Failure> {
    let mut complaints = Complaints::about(MORE_ERRORS);
    let mut replay = replay.joined();
    // An end without a failure is that of somebody who has seen enough.
    let ended = replay.each(|step| {
        let error = step.as_ref().map_or_else(Some, |step| step.broken.as_ref());
        if let Some(error) = error {
            complaints.say(format_args!("{error}; what can be read around it counts"));
        }
        match step.map_or(Ok(ControlFlow::Continue(())), |step| visit(&step)) {
            Ok(ControlFlow::Continue(())) => Ok(()),
            Ok(ControlFlow::Break(())) => Err(None),
            Err(failure) => Err(Some(failure)),
        }
    });
    drop(complaints);
    if let Err(Some(failure)) = ended {
        return Err(failure);
    }
    if replay.late() > 0 {
        say(format_args!("{} records came later than younger ones", replay.late()));
    }
    if replay.session().dropped() > 0 {
        say(format_args!(
            "{} records told of more threads, mappings or names than are kept; samples there have no name",
            replay.session().dropped()
        ));
    }
    Ok(replay)
}

/// The profile of what passes of a recording or of another tool, with stacks unwound of which samples have copies, and the symbols for its names.
pub(crate) fn profile(
    input: &Input,
    mut plan: Plan,
    symbols: LocalSymbols,
    filter: &FilterArgs,
) -> Result<(Profile, LocalSymbols, Passed), Failure> {
    let mut progress = Progress::new(input.path());
    let (mut data, symbols) = input.open_or_import(symbols)?;
    let mut wanted = Admitted::new(filter.of(&mut data, input)?, &symbols);
    plan.tasks.comms.clone_from(&filter.comm);
    plan.tasks.pids.clone_from(&filter.pid);
    plan.tasks.tids.clone_from(&filter.tid);
    let unwinder = Unwinder::new(symbols.symbolizer().clone(), &describe::machine(&mut data));
    let texts = TracepointTexts::new(&plan.keys, &[], false);
    let lookup = Lookup::new(symbols.clone(), true);
    let mut reading = Reading::new(plan).with_texts(texts, lookup).unwinding(unwinder);
    let mut passed = Passed::default();
    let replay = replay(Replay::new(data), |step| {
        progress.at(step.entry.location.offset);
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
    progress.finish();
    reading.unwinder().into_iter().for_each(stacks::say);
    Ok((reading.finish(replay.session()), symbols, passed))
}

/// Prints every record with its contents.
pub(crate) fn dump(out: &mut impl Write, input: &Input, with_tasks: bool) -> Result<(), Failure> {
    let (data, name) = (input.open()?, input.name());
    let options = DumpOptions { name: &name, with_tasks, made_code: perfuse_profile::made_code };
    let mut complaints = Complaints::about(MORE_ERRORS);
    Ok(describe::dump(out, data, &options, &mut |error| complaints.say(error))?)
}

/// A feature section, if the recording has it and it can be read.
pub(crate) fn feature<'d>(data: &'d mut PerfData<'_>, id: FeatureId) -> Option<Feature<'d>> {
    data.feature(id).ok().flatten().map(|section| section.feature)
}

/// An option with its value, if it has one.
pub(crate) fn word(name: &str, value: &str) -> Option<String> {
    let value = foreign(value);
    let quote = if value.contains(' ') { "'" } else { "" };
    (!value.is_empty()).then(|| format!("{name} {quote}{value}{quote}"))
}

/// Which samples count.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct FilterArgs {
    /// Only samples of these commands
    #[arg(short = 'c', long, visible_alias = "comms", value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) comm: Vec<String>,
    /// Only samples of these processes
    #[arg(long, value_name = "PID,...", value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Only samples of these threads
    #[arg(long, value_name = "TID,...", value_delimiter = ',')]
    pub(crate) tid: Vec<u32>,
    /// Only samples of these cpus, such as 0,2-4
    #[arg(short = 'C', long, value_name = "CPUS")]
    pub(crate) cpu: Option<CpuRanges>,
    /// Only samples between two times in seconds: [START],[END]; or in parts of the recording: 10%/2, 0%-10%
    #[arg(long, value_name = "SPAN")]
    pub(crate) time: Option<TimeSpans>,
    /// Only samples for which this holds, such as 'prev_pid > 7 && comm ~ "ba*"': fields of tracepoints, pid, tid, cpu, time, period, addr, ip, weight, comm, event, sym, dso
    #[arg(long, value_name = "EXPRESSION", value_parser = expression)]
    pub(crate) filter: Option<Expr>,
    /// Only samples from the first one of this event on
    #[arg(long, value_name = "EVENT")]
    pub(crate) switch_on: Option<String>,
    /// Only samples up to the first one of this event, or to the next behind each --switch-on
    #[arg(long, value_name = "EVENT")]
    pub(crate) switch_off: Option<String>,
    /// The samples that switch, too
    #[arg(long)]
    pub(crate) show_on_off_events: bool,
}

/// An expression, or the place where it makes no sense.
pub(crate) fn expression(text: &str) -> Result<Expr, String> {
    text.parse().map_err(|error: ExprError| error.explain())
}

impl FilterArgs {
    /// All of them, as a program takes them.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let cpu = self.cpu.as_ref().map(ToString::to_string).unwrap_or_default();
        let time = self.time.as_ref().map(|spans| spans.text().to_owned()).unwrap_or_default();
        let (comm, pid, tid) = (self.comm.join(","), list(&self.pid), list(&self.tid));
        let filter = self.filter.as_ref().map(ToString::to_string).unwrap_or_default();
        let (on, off) =
            (self.switch_on.clone().unwrap_or_default(), self.switch_off.clone().unwrap_or_default());
        let given = [
            ("comm", comm),
            ("pid", pid),
            ("tid", tid),
            ("cpu", cpu),
            ("time", time),
            ("filter", filter),
            ("switch-on", on),
            ("switch-off", off),
        ];
        let given = given.into_iter().filter(|(_, value)| !value.is_empty());
        let shows = self.show_on_off_events.then(|| "--show-on-off-events".into());
        given.map(|(name, value)| format!("--{name}={value}").into()).chain(shows).collect()
    }

    /// All of them, as options of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        [self.words_of_tasks(), self.words_of_moments()].concat()
    }

    /// Those of commands, processes and threads, as options of a command line.
    pub(crate) fn words_of_tasks(&self) -> Vec<String> {
        let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let given = [("-c", self.comm.join(",")), ("--pid", list(&self.pid)), ("--tid", list(&self.tid))];
        given.iter().filter_map(|(name, value)| word(name, value)).collect()
    }

    /// Those of cpus, times and the samples between others.
    pub(crate) fn words_of_moments(&self) -> Vec<String> {
        let cpus = self.cpu.as_ref().and_then(|cpus| word("-C", &cpus.to_string()));
        let time = self.time.as_ref().and_then(|spans| word("--time", spans.text()));
        let filter = self.filter.as_ref().map(|filter| format!("--filter '{}'", foreign(filter.as_str())));
        let switches = [("--switch-on", &self.switch_on), ("--switch-off", &self.switch_off)];
        let switches = switches.into_iter().filter_map(|(name, event)| word(name, event.as_deref()?));
        cpus.into_iter().chain(time).chain(filter).chain(switches).collect()
    }

    /// For one recording, which may be read once more to find out when it began and ended.
    pub(crate) fn of(&self, data: &mut PerfData<'_>, input: &Input) -> Result<Filter, Failure> {
        let mut time = self.time.clone();
        if let Some(spans) = &mut time {
            let failure = |why, spans: &TimeSpans| {
                Failure::new(format_args!("--time {}: {why}; seconds may be given", spans.text()))
            };
            if let Err(why) = spans.settle(data) {
                let again = input.path().is_file().then(|| input.open().ok()).flatten();
                let span = again.and_then(|mut data| sample_span(&mut data));
                spans.settle_in(span.ok_or_else(|| failure(why, spans))?);
            }
        }
        let Self { comm: comms, pid: pids, tid: tids, cpu: cpus, filter: expr, .. } = self.clone();
        let Self { switch_on: on, switch_off: off, show_on_off_events: are_shown, .. } = self.clone();
        let switches = Switches { on, off, are_shown };
        let names = event_names(data);
        // The events of a pipe are not known yet.
        if let Some(name) = switches.unknown(&names).filter(|_| !names.is_empty()) {
            let is_on = switches.on.as_deref() == Some(name);
            let option = if is_on { "--switch-on" } else { "--switch-off" };
            let names = foreign(names.join(", ").as_bytes()).to_string();
            let why = format!("{option} {}: the recording has no such event; it has {names}", foreign(name));
            return Err(Failure::new(why));
        }
        Ok(Filter { comms, pids, tids, cpus, time, expr, switches })
    }
}
