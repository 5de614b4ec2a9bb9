//! `perfuse trace`: system calls and events of a command, of processes or of the machine, as lines while they happen, and summed up.
//!
//! `perfuse-record` records, `perfuse-data` finds what is asked for, `perfuse-trace` decodes and sums up; the lines are in [`lines`],
//! the tables in [`tables`].

mod lines;
mod tables;

use crate::common::kernel::{self, Choice, Choices};
use crate::common::unsupported::{OfTrace, Unsupported};
use crate::exit::{Failure, Result};
use crate::record::{self, TraceEvents};
use crate::recording::{self, expression, header};
use crate::term::foreign::foreign;
use crate::term::number::grouped;
use crate::term::out::{self, say};
use lines::Lines;
use perfuse::Perf;
use perfuse_abi::regs::Arch;
use perfuse_data::feature::{Feature, FeatureId};
use perfuse_data::replay::{Lost, Replay, Step, Told, Traced};
use perfuse_data::session::Session;
use perfuse_data::{PerfData, ReadOptions};
use perfuse_export::script::Stamp;
use perfuse_record::{
    Arguments, Beside, Chains, Ended, FileSink, Observer, Plan, Remark, Sink, SummingUp, Texts,
    look_at_process, streamed,
};
use perfuse_trace::{
    CallQuestion, CallSet, Calls, Descriptors, Expr, Question, Rows, Statistic as What, Wanted,
};
use std::ffi::OsString;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tables::Sums;

/// Options of `perfuse trace`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "perfuse trace [OPTIONS] [--] COMMAND [ARGS]...\n       perfuse trace [OPTIONS] -p PID | -t TID | -a | -C CPUS | -i FILE",
    after_help = "Examples:\n  perfuse trace -- ls                         each call as a line, as strace does\n  perfuse trace -c -- make                    a table of calls, errors and times\n  perfuse trace -e %file --if 'ret < 0' -- ./prog   calls with a path that fail\n  perfuse trace -p 1234 -e futex --show count,p99,hist\n  perfuse trace -a --by comm,name --top 10 sleep 5\n\nLines and tables go to standard error while a command runs, else to standard output. The exit status is the command's."
)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: TraceEvents,
    /// Only calls for which this holds, such as 'count > 4096 && duration > 1ms': arguments by name or arg0 to arg5, name, ret, error, duration, pid, tid, cpu, time, comm, nr; fields of other events
    #[arg(long = "if", value_name = "EXPRESSION", value_parser = expression)]
    condition: Option<Expr>,
    /// Only calls that took so many milliseconds or more
    #[arg(long, value_name = "MS")]
    duration: Option<f64>,
    /// Only calls that failed
    #[arg(short = 'Z', long, visible_alias = "failed-only")]
    failure: bool,
    /// Only calls that did not fail
    #[arg(short = 'z', long)]
    successful_only: bool,
    /// Only calls that are given this path, or a descriptor of it
    #[arg(short = 'P', long = "trace-path", value_name = "PATH")]
    paths: Vec<String>,
    /// Without the calls and events of these processes
    #[arg(long, value_name = "PID,...", value_delimiter = ',')]
    filter_pids: Vec<u32>,
    /// End after so many lines
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(u64).range(1..))]
    max_events: Option<u64>,
    /// Page faults, too: all, maj (those that wait for a disk), min
    #[arg(short = 'F', long = "pf", value_name = "WHICH", value_parser = ["all", "maj", "min"])]
    faults: Option<String>,
    /// No system calls: only other events and page faults
    #[arg(long)]
    no_syscalls: bool,
    /// Tables for each thread in place of lines: calls, errors, times
    #[arg(short, long)]
    summary: bool,
    /// The same below the lines
    #[arg(short = 'S', long)]
    with_summary: bool,
    /// One table for all threads, as strace's; times are those on the clock
    #[arg(short = 'c', long = "summary-only")]
    count: bool,
    /// Rows by these in place of lines: fields or expressions, such as comm,name or count/4096
    #[arg(long, value_name = "KEY,...", value_delimiter = ',', value_parser = expression)]
    by: Vec<Expr>,
    /// Sum up this of each call, in place of its duration
    #[arg(long, value_name = "EXPRESSION", value_parser = expression)]
    of: Option<Expr>,
    /// What rows tell: count, sum, avg, min, max, p50, p90, p99, hist
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', value_parser = What::named)]
    show: Vec<What>,
    /// Only so many rows, those with the most of the first thing that rows tell
    #[arg(long, value_name = "ROWS")]
    top: Option<usize>,
    /// Of -s, -S and -c only so many rows of each table
    #[arg(long, value_name = "ROWS", default_value_t = usize::MAX, hide_default_value = true)]
    max_summary: usize,
    /// Tables of -s and -S for each thread, or one as -c has it
    #[arg(long, value_name = "thread|total", default_value = "thread", hide_default_value = true, value_parser = ["thread", "total"])]
    summary_mode: String,
    /// The tables again each second, or so many, while it runs: in place of the last on a terminal, if no command writes there
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = seconds)]
    live: Option<Duration>,
    /// A JSON object for each line, and one for the tables (schema perfuse.trace/1)
    #[arg(long)]
    json: bool,
    /// How long each call took, behind its line
    #[arg(short = 'T')]
    tells_duration: bool,
    /// The time since the first line, before each
    #[arg(short = 'r', long = "time")]
    tells_time: bool,
    /// The stack of each call below its line, found as -g of record does
    #[arg(short = 'k', long = "stack-trace")]
    stacks: bool,
    /// The same, by frame pointers, unwound, by the hardware, or what the programs need
    #[arg(long, value_name = "auto|fp|unwound[,BYTES]|lbr")]
    call_graph: Option<String>,
    /// The kernel's part of stacks, too
    #[arg(long)]
    kernel_syscall_graph: bool,
    /// At most so many frames of a stack
    #[arg(long, value_name = "FRAMES", default_value_t = perfuse_profile::Plan::MAX_STACK, hide_default_value = true)]
    max_stack: usize,
    /// Paths and addresses of sockets behind descriptors
    #[arg(short = 'y', long = "decode-fds", action = clap::ArgAction::Count)]
    descriptors: u8,
    /// The number of each call, before it
    #[arg(short = 'n', long = "syscall-number")]
    numbers: bool,
    /// The cpu, before each line
    #[arg(long)]
    show_cpu: bool,
    /// The name of each thread, before each line
    #[arg(long)]
    comm: bool,
    /// Follow what the command starts, as always
    #[arg(short, hide = true, action = clap::ArgAction::Count)]
    follow: u8,
    /// Do not follow what the command or the processes start
    #[arg(long)]
    no_inherit: bool,
    /// Begin so many milliseconds after the command
    #[arg(short = 'D', long, value_name = "MS")]
    delay: Option<u64>,
    /// These processes, by number or by name
    #[arg(short, long, value_name = "PID|NAME")]
    pid: Option<String>,
    /// These threads; -tt and -ttt are strace's: the time of day before each line, or seconds since 1970
    #[arg(short, long, value_name = "TID")]
    tid: Option<String>,
    /// The processes of this user
    #[arg(short, long, value_name = "USER")]
    uid: Option<String>,
    /// The whole system
    #[arg(short, long)]
    all_cpus: bool,
    /// All that runs on these cpus
    #[arg(short = 'C', long, value_name = "CPUS")]
    cpu: Option<String>,
    /// The tasks of this cgroup, a container say
    #[arg(short = 'G', long, value_name = "CGROUP")]
    cgroup: Option<String>,
    /// Keep the same events in a recording, to ask again later
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Tell of a recording in place of what happens now; - for a pipe
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["pid", "uid", "all_cpus", "cpu", "cgroup", "output"])]
    input: Option<PathBuf>,
    /// Pages of each ring, or bytes such as 16M
    #[arg(short = 'm', long, value_name = "PAGES")]
    mmap_pages: Option<String>,
    /// The kernel that measures: by default Linux, and perfuse itself where Linux refuses
    #[arg(long, value_name = "KERNEL", value_parser = Choices)]
    kernel: Option<Choice>,
    #[command(flatten)]
    _untaken: Unsupported<OfTrace>,
    /// The command to run
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Bytes that all rings take together, unless told.
const RINGS: usize = 64 << 20;

const RAW: [&str; 2] = ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"];

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "seconds, 0.1 at least, such as 2 or 0.5".to_owned())
}

impl Args {
    fn wanted(&self, table: &Calls) -> Result<Wanted> {
        let lists = &self.selection.0.lists;
        let lists = lists.iter().map(|list| (list.events.as_str(), list.filter.as_deref()));
        let successful = self.successful_only.then_some(("status=successful", None));
        let wanted = Wanted::parse(lists.chain(successful), table);
        let mut wanted = wanted.map_err(|error| Failure::usage(format_args!("-e: {error}")))?;
        let faults = [("maj", "major-faults"), ("min", "minor-faults")];
        let is_asked =
            |(word, _): &&(&str, &str)| self.faults.iter().any(|which| which == "all" || which == word);
        let has_calls = wanted.has_calls && !self.no_syscalls && !wanted.calls.is_empty();
        wanted.has_calls = has_calls;
        wanted.events.extend(faults.iter().filter(is_asked).map(|(_, event)| ((*event).to_owned(), None)));
        if !has_calls && wanted.events.is_empty() {
            return Err(Failure::usage(
                "no system calls leave nothing: -e names other events, --pf page faults",
            ));
        }
        if !has_calls && (self.summary || self.count) && !self.has_rows() {
            return Err(Failure::usage(
                "-c and -s are tables of system calls, and none are asked for: --by name --show count counts these events",
            ));
        }
        let shows_counts = !self.show.is_empty() && self.show.iter().all(|what| *what == What::Count);
        if !has_calls && self.has_rows() && self.of.is_none() && !shows_counts {
            return Err(Failure::usage(
                "rows tell durations of system calls, and none are asked for: --show count counts these events, --of FIELD sums up",
            ));
        }
        if self.live.is_some() && (self.has_lines() || self.input.is_some()) {
            return Err(Failure::usage("--live is for tables of what happens now: with -c, -s or --by"));
        }
        if self.input.is_some() && wanted.events.iter().any(|(_, filter)| filter.is_some()) {
            return Err(Failure::usage(
                "--filter is for the kernel; --if chooses among what a recording has",
            ));
        }
        Ok(wanted)
    }

    /// The calls to record: more than are wanted, where it takes others to know what descriptors are.
    fn recorded(&self, wanted: &Wanted, table: &Calls) -> CallSet {
        match self.tells_descriptors() {
            true => wanted.calls.or(&Descriptors::calls(table)),
            false => wanted.calls.clone(),
        }
    }

    /// Events as `-e` and `--filter` of `record`. Entries of calls that have texts are an event of their own, the first: those are read
    /// at once; and so are ends of calls that give an address back.
    fn events(&self, wanted: &Wanted, table: &Calls) -> Vec<OsString> {
        let all = self.recorded(wanted, table);
        // The stack of a call is that of its end.
        let entry = if self.has_stacks() { format!("{}/call-graph=no/", RAW[0]) } else { RAW[0].to_owned() };
        let parts = |apart: CallSet| match self.wants_texts(table) {
            true => [all.within(&apart), all.within(&apart.others())],
            false => [CallSet::Only(Default::default()), all.clone()],
        };
        let named = |name: String, apart| parts(apart).map(|set| (name.clone(), set));
        let raw = [named(entry, table.with_texts()), named(RAW[1].to_owned(), table.with_peers())];
        let raw = raw.into_iter().flatten().filter(|(_, set)| wanted.has_calls && !set.is_empty());
        let raw = raw.map(|(name, set)| match name == RAW[1] {
            true => (name, set.filter_of_exits(table)),
            false => (name, set.filter()),
        });
        let others = wanted.events.iter().cloned();
        let without: Vec<String> =
            self.filter_pids.iter().map(|pid| format!("common_pid != {pid}")).collect();
        let words = raw.chain(others).flat_map(|(name, filter)| {
            let filter = filter.into_iter().map(|filter| format!("({filter})"));
            let is_tracepoint = name.contains(':');
            let filter: Vec<String> =
                filter.chain(without.iter().filter(|_| is_tracepoint).cloned()).collect();
            let filter = (!filter.is_empty()).then(|| format!("--filter={}", filter.join(" && ")));
            [Some(format!("--event={name}")), filter]
        });
        words.flatten().map(OsString::from).collect()
    }

    /// The same options in the words of `record`.
    fn words(&self, wanted: &Wanted, table: &Calls, kernel: Option<&Choice>) -> Vec<OsString> {
        let mut words: Vec<OsString> =
            ["perfuse", "record", "--no-follow", "-c1"].map(OsString::from).to_vec();
        words.extend(self.events(wanted, table));
        let kernel = kernel.map(|kernel| kernel.word().to_string_lossy().into_owned());
        let auto = self.stacks.then(|| "auto".to_owned());
        let delay = self.delay.map(|ms| ms.to_string());
        for (name, value) in [
            ("--pid", self.pid.as_ref()),
            ("--tid", self.tid()),
            ("--uid", self.uid.as_ref()),
            ("--cpu", self.cpu.as_ref()),
            ("--cgroup", self.cgroup.as_ref()),
            ("--mmap-pages", self.mmap_pages.as_ref()),
            ("--kernel", kernel.as_ref()),
            ("--delay", delay.as_ref()),
            ("--call-graph", self.call_graph.as_ref().or(auto.as_ref())),
        ] {
            words.extend(value.map(|value| format!("{name}={value}").into()));
        }
        let flags = [
            (self.is_of_cpus(), "--exclude-perf"),
            (self.all_cpus, "--all-cpus"),
            (self.no_inherit, "--no-inherit"),
            (self.has_stacks() && !self.kernel_syscall_graph, "--user-callchains"),
        ];
        words.extend(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| flag.into()));
        words.push("--".into());
        words.extend(self.command.iter().cloned());
        words
    }

    /// The kernel to ask. Where the user may not look Linux's tracepoints up, the embedded kernel tells of system calls,
    /// births, new programs and ends of threads.
    fn kernel(&self, wanted: &Wanted) -> Result<Option<Choice>> {
        let own = perfuse::tracefs::of_embedded();
        let is_told = |(event, _): &(String, Option<String>)| {
            own.iter().any(|(name, _)| event == name)
                || ["uprobe:", "uretprobe:", "usdt:"].iter().any(|kind| event.starts_with(kind))
        };
        let can_tell = wanted.events.iter().all(is_told) && !self.is_of_cpus();
        if !can_tell || !kernel::is_free(self.kernel.as_ref())? || Perf::linux_refuses().is_some() {
            return Ok(self.kernel.clone());
        }
        let Err(why) = perfuse::tracefs::root() else { return Ok(None) };
        say(format_args!(
            "perfuse itself tells of {} (--kernel embedded): {}",
            if wanted.has_calls { "system calls" } else { "these events" },
            why.diagnosis().explanation
        ));
        Ok(Some(Choice::Embedded))
    }

    /// The threads; `-tt` and `-ttt` are none.
    fn tid(&self) -> Option<&String> {
        self.tid.as_ref().filter(|tid| !["t", "tt"].contains(&tid.as_str()))
    }

    /// The form of the time before lines. By the clock of the recording it is `since` nanoseconds earlier than since 1970.
    fn stamp(&self, since: u64) -> Option<Stamp> {
        match (self.tid.as_deref(), self.tells_time) {
            (Some("t"), _) => {
                Some(Stamp::TimeOfDay(since, |moment| header::local_time(moment).strftime("%T").to_string()))
            }
            (Some("tt"), _) => Some(Stamp::SinceEpoch(since)),
            (_, true) => Some(Stamp::SinceStart),
            _ => None,
        }
    }

    fn has_stacks(&self) -> bool {
        self.stacks || self.call_graph.is_some() || self.kernel_syscall_graph
    }

    fn tells_descriptors(&self) -> bool {
        self.descriptors > 0 && self.has_lines() || !self.paths.is_empty()
    }

    fn is_of_cpus(&self) -> bool {
        let none =
            self.pid.is_none() && self.tid().is_none() && self.uid.is_none() && self.command.is_empty();
        self.all_cpus || self.cpu.is_some() || self.cgroup.is_some() || none
    }

    fn has_rows(&self) -> bool {
        !self.by.is_empty() || self.of.is_some() || !self.show.is_empty() || self.top.is_some()
    }

    /// One table in place of one for each thread.
    fn is_total(&self) -> bool {
        self.count || self.summary_mode == "total"
    }

    fn has_lines(&self) -> bool {
        self.with_summary || !(self.summary || self.count || self.has_rows())
    }

    /// Whether texts that calls were given are told, or asked for.
    fn wants_texts(&self, table: &Calls) -> bool {
        let mut names = self.condition.iter().chain(&self.by).chain(&self.of).flat_map(Expr::names);
        self.has_lines() || !self.paths.is_empty() || names.any(|name| table.has_text(name))
    }

    /// What `--duration` asks for.
    fn least(&self) -> Result<Option<Duration>> {
        let least = self.duration.map(|ms| Duration::try_from_secs_f64(ms / 1000.0)).transpose();
        least.map_err(|why| Failure::usage(format_args!("--duration: {why}")))
    }

    /// The question for sums in the kernel, or why they cannot answer it; `None` where no tables are asked for.
    fn in_kernel(
        &self,
        wanted: &Wanted,
        table: &Calls,
    ) -> Result<Option<std::result::Result<CallQuestion, &str>>> {
        if self.has_lines() || self.output.is_some() || !wanted.has_calls || !wanted.events.is_empty() {
            return Ok(None);
        }
        let has_more = wanted.condition.is_some() || !self.filter_pids.is_empty() || !self.paths.is_empty();
        let rows = match (self.condition.is_some(), self.has_rows(), self.summary || self.count) {
            (true, ..) => Err("its programs know no --if"),
            _ if has_more => Err("its programs know no -P, -z, status= or --filter-pids"),
            _ if self.no_inherit => Err("its programs follow all that is started"),
            (_, true, true) => Err("its programs make one table"),
            (_, true, false) => {
                let of = self.question(wanted)?.of;
                let spread = self.show.is_empty() || self.show.iter().any(|what| what.is_spread());
                let rows = Rows::by_keys(&self.by, of.as_ref(), spread, &wanted.calls, table);
                rows.ok_or("its programs do not know these keys")
            }
            _ if self.is_total() && !self.json => Ok((Rows::ByCall, wanted.calls.clone())),
            _ => Ok((Rows::ByThread, wanted.calls.clone())),
        };
        let least_ns = self.least()?.map_or(0, |least| u64::try_from(least.as_nanos()).unwrap_or(u64::MAX));
        let failed = self.failure;
        Ok(Some(rows.map(|(rows, wanted)| CallQuestion { wanted, failed, least_ns, rows })))
    }

    /// The condition with what other options add to it.
    fn question(&self, wanted: &Wanted) -> Result<Question> {
        let mut parts: Vec<String> = self.condition.iter().map(|expr| format!("({expr})")).collect();
        parts.extend(self.least()?.map(|least| format!("duration >= {}", least.as_nanos())));
        parts.extend(self.failure.then(|| "error != ''".to_owned()));
        parts.extend(wanted.condition.clone());
        let without: Vec<String> = self.filter_pids.iter().map(u32::to_string).collect();
        parts.extend((!without.is_empty()).then(|| format!("pid not in {{{}}}", without.join(", "))));
        let condition = match (&self.condition, parts.len()) {
            (Some(expr), 1) => Some(expr.clone()),
            (_, 0) => None,
            _ => Some(parts.join(" && ").parse()?),
        };
        let duration: Expr = "duration".parse()?;
        let of = self.of.clone().or_else(|| {
            Some(duration)
                .filter(|_| self.show.iter().any(|what| *what != What::Count) || self.show.is_empty())
        });
        Ok(Question { condition, keys: self.by.clone(), of: of.filter(|_| self.has_rows()) })
    }
}

/// Runs the subcommand, by the options that `record_args` finds in words.
pub(crate) fn run(args: &Args, record_args: &dyn Fn(Vec<OsString>) -> Result<Box<record::Args>>) -> Result {
    if args.command.first().is_some_and(|word| word == "record") {
        // As with perf: all calls, in a recording.
        let words =
            ["perfuse", "record", "-R", "-c1", "-m16M", "-e", RAW[0], "-e", RAW[1]].map(OsString::from);
        let words = words.into_iter().chain(args.command[1..].iter().cloned());
        return record::run(&*record_args(words.collect())?);
    }
    let native =
        Arch::NATIVE.ok_or_else(|| Failure::new("system calls of this architecture are not known"))?;
    if let Some(path) = &args.input {
        return tell(args, path, native);
    }
    let table = Calls::of(native);
    let mut wanted = args.wanted(table)?;
    let kernel = args.kernel(&wanted)?;
    // They are gone when all is told.
    let _probes = Arguments::make(&mut wanted.events, kernel::is_embedded(kernel.as_ref())?)?;
    let texts = Texts::default();
    let mut traced = Traced::new(wanted.clone(), args.question(&wanted)?, table)?.of_all_events();
    let (kernel, mut plan, remarks) =
        record::plan(&*record_args(args.words(&wanted, table, kernel.as_ref()))?)?;
    drop(kernel);
    remarks.into_iter().for_each(say);
    arrange(&mut plan, args);
    // The embedded kernel has no programs that could.
    let is_linux = !plan.kernel.facts().is_embedded;
    let records = |why: &dyn std::fmt::Display| is_linux.then(|| format!("summed up from records: {why}"));
    let way = match args.in_kernel(&wanted, table)? {
        None => None,
        Some(Err(why)) => records(&why),
        Some(Ok(question)) => match SummingUp::prepare(&plan, &question, table) {
            Ok(summing) => return told_by_kernel(args, table, summing, &plan),
            Err(why) => records(&why),
        },
    };
    let mut file = args.output.as_ref().map(FileSink::new);
    traced = traced.without_process(std::process::id()).of_paths(args.paths.clone());
    let mut beside = Beside {
        reader_goes_first: true,
        sink: file.as_mut().map(|file| file as &mut dyn Sink),
        texts: None,
    };
    if args.wants_texts(table) && wanted.has_calls {
        beside.texts = Some((table, texts.clone(), args.recorded(&wanted, table)));
        traced = traced.with_texts(Box::new(move |tid, time| texts.take(tid, time)));
    }
    if args.tells_descriptors() {
        traced = traced.with_descriptors(Descriptors::new(Box::new(look_at_process)));
    }
    let enough = Arc::new(AtomicBool::new(false));
    let mut heard = Remarks { texts: Vec::new(), enough: enough.clone() };
    let clock = |number| perfuse_sys::clock::read_ns(number).unwrap_or(0);
    let since = clock(0).saturating_sub(clock(1));
    let (ended, read) = streamed(&plan, beside, &mut heard, |stream| {
        // A recording that never began has nothing to tell; the recorder says why.
        let Ok(data) = PerfData::from_reader(stream, ReadOptions::default()) else { return Ok(0) };
        let machine = std::env::consts::ARCH;
        let mut reader = Reader::new(args, table, traced, !args.command.is_empty(), since, machine);
        let mut failed = None;
        let mut replay = Replay::new(data).joined();
        let told = replay.each(|step| match step {
            // Records that cannot be read are left out.
            Err(_) => Ok(()),
            Ok(step) => {
                let done = reader.step(&step).map_err(|failure| failed = Some(failure));
                enough.fetch_or(reader.left == 0, Ordering::Relaxed);
                done
            }
        });
        match (told, failed) {
            (Err(()), Some(failure)) => Err(failure),
            _ => reader.finish(replay.session()),
        }
    });
    let told = read.unwrap_or(Ok(0)).map(|lost| tell_losses(lost, &heard.texts));
    let ended: Ended = match (ended, told) {
        // Where nobody reads what is told, nobody reads the recording any more.
        (_, Err(failure)) if failure.is_unread() => return Err(failure),
        (ended, told) => {
            let ended = ended?;
            told?;
            ended
        }
    };
    way.into_iter().for_each(say);
    if let Some(path) = &args.output {
        let path = foreign(path.as_os_str().as_encoded_bytes());
        say(format_args!("kept in {path}, as a recording, not as text: perfuse trace -i {path} tells of it"));
    }
    Ok(record::exit_code(&ended))
}

/// Makes the plan one for reading while it is recorded.
fn arrange(plan: &mut Plan, args: &Args) {
    (plan.build_ids, plan.bpf, plan.fields.cpu) = (false, false, true);
    plan.fields.data = plan.events.iter().any(|event| event.spec.name.ends_with("faults"));
    let has_places = args.has_stacks() || plan.events.iter().any(|event| !event.is_tracepoint());
    let maps = args.output.is_some() || has_places;
    plan.synth = perfuse_record::Synth { tasks: true, maps, cgroups: false };
    if let Some(Chains::Stack(bytes)) = plan.chains {
        // Nobody unwinds them later.
        plan.chains = Some(Chains::Unwound(Some(bytes)));
    }
    if plan.pages.is_none() {
        // A program that does nothing but calls fills four megabytes in some hundredths of a second.
        let rings = plan.kernel.surroundings().online_cpus().len().next_power_of_two();
        plan.pages = Some((RINGS / rings).clamp(1 << 19, 16 << 20) / perfuse_sys::page_size());
    }
    plan.read_every = Duration::from_millis(if args.has_lines() { 10 } else { 100 });
}

/// Tells of a recording.
fn tell(args: &Args, path: &std::path::Path, native: Arch) -> Result {
    if !args.command.is_empty() {
        return Err(Failure::usage("-i tells of a recording; a command would be another one"));
    }
    if args.tid().is_some() {
        return Err(Failure::usage(
            "-t is for threads that run; --if 'tid == ...' chooses among those of a recording",
        ));
    }
    let input = recording::Input::at(path.to_owned(), false);
    let mut data = input.open()?;
    let machine = perfuse_data::describe::machine(&mut data);
    let since = match recording::feature(&mut data, FeatureId::CLOCK_DATA) {
        Some(Feature::Clock(clock)) => clock.wall_ns.saturating_sub(clock.clock_ns),
        _ => 0,
    };
    let table = Calls::of(Arch::from_machine(&machine).unwrap_or(native));
    let wanted = args.wanted(table)?;
    let mut traced =
        Traced::new(wanted.clone(), args.question(&wanted)?, table)?.of_paths(args.paths.clone());
    if args.tells_descriptors() {
        traced = traced.with_descriptors(Descriptors::new(Box::new(|_, _| None)));
    }
    let mut reader = Reader::new(args, table, traced, false, since, &machine);
    let mut replay = Replay::new(data);
    let cut = "the recording was cut short before the formats of its tracepoints";
    match perfuse_record::take_formats(&mut replay) {
        None => {}
        Some(true) => say(format_args!("{cut}: those of this machine are taken")),
        Some(false) => {
            let path = foreign(path.as_os_str().as_encoded_bytes());
            return Err(Failure::new(format_args!("{path}: {cut}, and this machine tells none")));
        }
    }
    let replay = recording::replay(replay, |step| reader.step(step))?;
    tell_losses(reader.finish(replay.session())?, &[]);
    Ok(ExitCode::SUCCESS)
}

/// Tells the remarks of a recording, and how many records it lost.
fn tell_losses(lost: u64, remarks: &[String]) {
    remarks.iter().for_each(say);
    if lost > 0 && remarks.iter().all(|remark| !remark.contains("lost")) {
        say(format_args!(
            "{} records were lost: counts are too low; larger rings (-m 16M) lose fewer",
            grouped(lost)
        ));
    }
}

/// Has the kernel sum up, and writes the tables.
fn told_by_kernel(args: &Args, table: &Calls, summing: SummingUp, plan: &Plan) -> Result {
    let mut tables = Tables::new(!args.command.is_empty());
    let summed = match args.live {
        None => summing.run(plan, table)?,
        Some(every) => summing.run_watched(plan, table, every, &mut |rows| {
            tables.put(&Sums::of(rows).text(args, table), false)
        })?,
    };
    tables.put(&Sums::of(summed.rows).text(args, table), true)?;
    summed.no_room.told().iter().for_each(say);
    say("summed up in the kernel (BPF): no records, none lost");
    Ok(record::exit_code(&summed.ended))
}

/// Where tables are written: where lines would be.
struct Tables {
    to_stderr: bool,
    drawn: out::Redrawn,
    due: Instant,
}

impl Tables {
    fn new(to_stderr: bool) -> Self {
        Tables { to_stderr, drawn: out::Redrawn::default(), due: Instant::now() }
    }

    fn put(&mut self, text: &str, is_last: bool) -> std::io::Result<()> {
        match self.to_stderr {
            true => out::stderr().write_all(text.as_bytes()),
            false => self.drawn.draw(text, is_last),
        }
    }
}

/// Remarks of the recording, told when it is over, below lines and tables.
struct Remarks {
    texts: Vec<String>,
    /// There are as many lines as were asked for.
    enough: Arc<AtomicBool>,
}

impl Observer for Remarks {
    fn remark(&mut self, remark: &Remark) {
        self.texts.push(remark.to_string());
    }

    fn progress(&mut self, _: perfuse_record::Sums) -> ControlFlow<()> {
        if self.enough.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Takes a recording in, writes lines, and sums up.
struct Reader<'a> {
    args: &'a Args,
    table: &'static Calls,
    traced: Traced,
    lines: Option<Lines>,
    /// So many lines are still wanted.
    left: u64,
    sums: Sums,
    lost: Lost,
    tables: Tables,
}

impl<'a> Reader<'a> {
    fn new(
        args: &'a Args,
        table: &'static Calls,
        traced: Traced,
        to_stderr: bool,
        since: u64,
        machine: &str,
    ) -> Self {
        let lines = args.has_lines().then(|| Lines::new(args, to_stderr, args.stamp(since), machine));
        let left = args.max_events.unwrap_or(u64::MAX);
        let (sums, mut tables) = (Sums::new(args), Tables::new(to_stderr));
        tables.due += args.live.unwrap_or_default();
        Reader { args, table, traced, lines, left, sums, lost: Lost::default(), tables }
    }

    fn step(&mut self, step: &Step<'_>) -> Result<()> {
        self.lost.add(step);
        // The end of a round is no sample: what came before it is told.
        if step.decoded.is_none() {
            self.lines.as_mut().map_or(Ok(()), |lines| lines.flush(0))?;
            let now = Instant::now();
            if let (Some(every), true) = (self.args.live, now >= self.tables.due) {
                self.tables.due = now + every;
                self.tables.put(&self.sums.text(self.args, self.table), false)?;
            }
        }
        let Reader { traced, lines, left, sums, .. } = self;
        traced.step(step, &mut |told| Self::told(lines.as_mut(), left, sums, &told))
    }

    fn told(lines: Option<&mut Lines>, left: &mut u64, sums: &mut Sums, told: &Told<'_>) -> Result<()> {
        if *left == 0 {
            return Ok(());
        }
        sums.add(told);
        let Some(lines) = lines else { return Ok(()) };
        *left -= 1;
        lines.tell(told)
    }

    /// Tells what never returned, and the tables; how many records were lost.
    fn finish(&mut self, session: &Session) -> Result<u64> {
        let Reader { traced, lines, left, sums, .. } = self;
        traced.rest(session, &mut |told| Self::told(lines.as_mut(), left, sums, &told))?;
        if let Some(lines) = lines {
            lines.flush(0)?;
        }
        self.tables.put(&self.sums.text(self.args, self.table), true)?;
        match self.traced.fault() {
            Some(error) => Err(error.into()),
            None => Ok(self.lost.total()),
        }
    }
}
