//! `perfuse top`: a profile while it is made, on the terminal, or as a table or a JSON object for each interval.
//!
//! The options are those of `record`, which makes the plan; `perfuse-tui` watches and draws.

use crate::annotate;
use crate::common::kernel::{Choice, Choices};
use crate::common::style;
use crate::common::unsupported::{OfTop, Unsupported};
use crate::exit::{Failure, Result};
use crate::record;
use crate::recording::SymbolFiles;
use crate::term::out::{print, say};
use perfuse_annotate::Annotator;
use perfuse_profile::{Frames, Key, LocalSymbols, Names, Plan, Profile};
use perfuse_record::{Chains, Observer, Remark};
use perfuse_tui::{CodeOf, Shown, Span, State, Tables, Windows, follow, watch};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::time::Duration;

/// The keys that every sample of a recording has.
pub(crate) const KEYS: [Key; 8] =
    [Key::Comm, Key::Dso, Key::Symbol, Key::Pid, Key::Tgid, Key::Cpu, Key::Srcline, Key::Srcfile];

/// Rows of a table, unless told.
const ROWS: usize = 20;

/// Options of `perfuse top`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "perfuse top [OPTIONS] [-a | -C CPUS | -p PID | -t TID | -u USER]\n       perfuse top [OPTIONS] [--] COMMAND [ARGS]...",
    after_help = "Examples:\n  perfuse top                            the whole system\n  perfuse top -g -p 1234                 a process, with callers\n  perfuse top --stdio -n 3 -- ./prog     three tables of a command\n  perfuse top --json -d 10 -p 1234 | jq .events[0].entries[0]\n\nA command has nothing to read, and its output goes nowhere. The exit status is the command's, if it ends by itself."
)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: record::Selection,
    /// Samples a second; max: as many as the kernel allows
    #[arg(short = 'F', long, value_name = "HZ", conflicts_with = "count")]
    freq: Option<String>,
    /// One sample every so many events
    #[arg(short, long, value_name = "PERIOD")]
    count: Option<String>,
    /// With callchains, as --call-graph auto
    #[arg(short = 'g')]
    chains: bool,
    /// With callchains: by frame pointers, unwound, by the hardware, or what the programs need
    #[arg(long, value_name = "auto|fp|unwound[,BYTES]|lbr")]
    call_graph: Option<String>,
    /// These processes, by number or by name
    #[arg(short, long, value_name = "PID|NAME")]
    pid: Option<String>,
    /// These threads
    #[arg(short, long, value_name = "TID")]
    tid: Option<String>,
    /// The processes of this user
    #[arg(short, long, value_name = "USER")]
    uid: Option<String>,
    /// The whole system, which is the default
    #[arg(short, long)]
    all_cpus: bool,
    /// All that runs on these cpus
    #[arg(short = 'C', long, value_name = "CPUS")]
    cpu: Option<String>,
    /// Without the threads and processes that these start
    #[arg(short = 'i', long)]
    no_inherit: bool,
    /// Not the kernel; hides its samples
    #[arg(short = 'K', long = "hide_kernel_symbols", conflicts_with = "hide_user")]
    hide_kernel: bool,
    /// The kernel alone; hides samples of programs
    #[arg(short = 'U', long = "hide_user_symbols")]
    hide_user: bool,
    /// Only threads of these names
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    comms: Vec<String>,
    /// Only samples in these objects
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    dsos: Vec<String>,
    /// Only samples in these functions
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    symbols: Vec<String>,
    /// Take only so many frames of a callchain
    #[arg(long, value_name = "NUMBER", default_value_t = Plan::MAX_STACK, hide_default_value = true)]
    max_stack: usize,
    /// Size of each cpu's ring: a number of pages, or bytes with B, K or M behind
    #[arg(short, long, value_name = "SIZE")]
    mmap_pages: Option<String>,
    /// Read at this real-time priority
    #[arg(short, long, value_name = "PRIORITY")]
    realtime: Option<String>,
    #[command(flatten)]
    symbol_files: SymbolFiles,
    #[command(flatten)]
    _untaken: Unsupported<OfTop>,
    /// Seconds of an interval
    #[arg(short, long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
    delay: Duration,
    /// Add intervals up, or let older ones fade, on the terminal; z there changes it
    #[arg(long, value_name = "HOW", default_value = "window", value_parser = ["window", "fading", "sum"])]
    span: String,
    /// Tell rows apart by: comm, dso, symbol, pid, tgid, cpu, srcline, srcfile
    #[arg(short, long, value_name = "KEY,...", value_delimiter = ',', default_value = "dso,symbol", value_parser = key)]
    sort: Vec<Key>,
    /// Rows of a table; 20 unless told
    #[arg(short = 'E', long, value_name = "ROWS")]
    entries: Option<usize>,
    /// End after so many tables, or objects
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    tables: Option<u64>,
    /// Only functions of at least this share
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, hide_default_value = true)]
    percent_limit: f64,
    /// In tables: the number of samples
    #[arg(long)]
    show_nr_samples: bool,
    /// In tables: the occurrences of the event that samples stand for
    #[arg(long)]
    show_total_period: bool,
    /// A table after the other, as where there is no terminal
    #[arg(long)]
    stdio: bool,
    /// The screen, which is the default on a terminal
    #[arg(long, conflicts_with_all = ["stdio", "json", "tables"])]
    tui: bool,
    /// One JSON object (schema perfuse.top/1) a line for each interval
    #[arg(long, conflicts_with = "stdio")]
    json: bool,
    /// The kernel that measures: by default Linux, and perfuse itself where Linux refuses
    #[arg(long, value_name = "KERNEL", value_parser = Choices)]
    kernel: Option<Choice>,
    /// The command to run
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn interval(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "seconds, 0.1 at least, such as 2 or 0.5".to_owned())
}

fn key(name: &str) -> std::result::Result<Key, String> {
    let known = Key::named(name).filter(|key| KEYS.contains(key));
    known.ok_or_else(|| {
        let names: Vec<&str> = KEYS.iter().map(|key| key.name()).collect();
        format!("keys are {}", names.join(", "))
    })
}

impl Args {
    fn span(&self) -> Span {
        match self.span.as_str() {
            "fading" => Span::Fading,
            "sum" => Span::Sum,
            _ => Span::Window,
        }
    }

    fn tells_lines(&self) -> bool {
        self.sort.iter().any(|key| key.is_of_address())
    }

    /// The tables that are asked for.
    fn shown(&self) -> Tables {
        let mut tables = Tables::new(&self.sort);
        tables.filter.objects.clone_from(&self.dsos);
        tables.filter.symbols.clone_from(&self.symbols);
        tables.least_percent = self.percent_limit;
        tables.numbers = [self.show_nr_samples, self.show_total_period];
        tables
    }

    /// The same options in the words of `record`.
    fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = ["perfuse", "record"].map(OsString::from).to_vec();
        let kernel = self.kernel.as_ref().map(|kernel| kernel.word().to_string_lossy().into_owned());
        words.extend(self.selection.words());
        for (name, value) in [
            ("--freq", self.freq.as_ref()),
            ("--count", self.count.as_ref()),
            ("--call-graph", self.call_graph.as_ref()),
            ("--pid", self.pid.as_ref()),
            ("--tid", self.tid.as_ref()),
            ("--uid", self.uid.as_ref()),
            ("--cpu", self.cpu.as_ref()),
            ("--mmap-pages", self.mmap_pages.as_ref()),
            ("--realtime", self.realtime.as_ref()),
            ("--kernel", kernel.as_ref()),
        ] {
            words.extend(value.map(|value| format!("{name}={value}").into()));
        }
        let flags = [
            (self.chains, "-g"),
            (self.all_cpus, "--all-cpus"),
            (self.no_inherit, "--no-inherit"),
            (self.hide_kernel, "--all-user"),
            (self.hide_user, "--all-kernel"),
        ];
        words.extend(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| flag.into()));
        words.push("--".into());
        words.extend(self.command.iter().cloned());
        words
    }
}

/// Runs the subcommand, by the options that `record_args` finds in words.
pub(crate) fn run(args: &Args, record_args: &dyn Fn(Vec<OsString>) -> Result<Box<record::Args>>) -> Result {
    let (_kernel, mut plan, remarks) = record::plan(&*record_args(args.words())?)?;
    if let Some(Chains::Stack(bytes)) = plan.chains {
        // Nothing is kept that could be unwound later.
        plan.chains = Some(Chains::Unwound(Some(bytes)));
    }
    (plan.silent, plan.build_ids) = (true, false);
    let is_drawn = !(args.stdio || args.json || args.tables.is_some())
        && io::stdout().is_terminal()
        && io::stdin().is_terminal()
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    let mut heard = Heard { is_held: is_drawn, texts: Vec::new() };
    remarks.into_iter().for_each(|remark| heard.hear(remark));
    let lines = args.tells_lines();
    let symbols = args.symbol_files.symbols(false).with_debug_info(false, lines);
    let mut collected = Plan::new(&args.sort);
    (collected.max_stack, collected.tasks.comms) = (args.max_stack, args.comms.clone());
    collected.chains = plan.chains.is_some();
    // On the screen code is shown too, by address, and threads and cpus are chosen.
    (collected.code, collected.by_function) = (Some(symbols.symbolizer().clone()), !is_drawn && !lines);
    if is_drawn {
        let more = [Key::Pid, Key::Cpu].into_iter().filter(|key| !args.sort.contains(key));
        collected.keys.extend(more);
    }
    let watched = watch(&plan, &collected, args.delay, &mut heard, |windows| match is_drawn {
        true => {
            let state = State::new("perfuse top", args.shown())
                .with_looks(style::screen_looks())
                .with_span(args.span());
            let annotator = Annotator::new(&symbols);
            let mut code = |of: &CodeOf, profile: &Profile| {
                annotate::near(profile, &symbols, &annotator, false, of).map_err(|why| why.to_string())
            };
            follow(windows, &symbols, state, &mut code).map_err(Failure::from)
        }
        false => tables(windows, &symbols, args),
    });
    heard.texts.iter().for_each(say);
    let (ended, shown) = watched?;
    shown?;
    Ok(record::exit_code(&ended))
}

/// Remarks of the recording; those that would stand in the middle of a drawing wait for its end.
struct Heard {
    is_held: bool,
    texts: Vec<String>,
}

impl Heard {
    fn hear(&mut self, text: String) {
        if self.is_held { self.texts.push(text) } else { say(text) }
    }
}

impl Observer for Heard {
    fn remark(&mut self, remark: &Remark) {
        self.hear(remark.to_string());
    }
}

/// Writes each window, until there are enough.
fn tables(windows: &Windows, symbols: &LocalSymbols, args: &Args) -> Result<()> {
    let mut count = 0;
    while let Some(window) = windows.wait() {
        let names = Names::new(&window.profile, symbols);
        names.look_up_all();
        let frames = Frames::new(&names, args.tells_lines());
        let shown = Shown::new(&window, &frames, &args.shown());
        let text = match args.json {
            true => shown.json(args.entries) + "\n",
            false => shown.text(args.entries.unwrap_or(ROWS)),
        };
        print(text.as_bytes())?;
        count += 1;
        if args.tables.is_some_and(|tables| count >= tables) {
            break;
        }
    }
    Ok(())
}
