//! `perfuse trace`: system calls and events of a command, of processes or of the machine, as lines while they happen, and summed up.
//!
//! `perfuse-record` records, `perfuse-trace` joins, decodes and sums up; the lines are in [`lines`], the tables in [`tables`].

mod lines;
mod tables;

use crate::common::kernel::{Choice, Choices};
use crate::exit::{Failure, Result};
use crate::record;
use crate::recording::{self, expression};
use crate::term::foreign::foreign;
use crate::term::number::grouped;
use crate::term::out::{self, say};
use lines::Lines;
use perfuse::Perf;
use perfuse_abi::record::Sample;
use perfuse_abi::regs::Arch;
use perfuse_data::replay::{CallReplay, Heard, Lost, Replay, SampleField, SampleRecord, Step, sample_fields};
use perfuse_data::{Event, PerfData, ReadOptions};
use perfuse_events::glob;
use perfuse_record::{Beside, Ended, FileSink, Observer, Remark, Sink, Summed, SummingUp, Texts, streamed};
use perfuse_trace::{
    Asked, Call, CallQuestion, CallRecord, CallSet, Calls, Expr, ExprError, Question, Rows, Schema,
    call_schema,
};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tables::{Sums, What};

/// Options of `perfuse trace`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "perfuse trace [OPTIONS] [--] COMMAND [ARGS]...\n       perfuse trace [OPTIONS] -p PID | -t TID | -a | -C CPUS | -i FILE",
    after_help = "Examples:\n  perfuse trace -- ls                         each call as a line, as strace does\n  perfuse trace -c -- make                    a table of calls, errors and times\n  perfuse trace -e %file --if 'ret < 0' -- ./prog   calls with a path that fail\n  perfuse trace -p 1234 -e futex --show count,p99,hist\n  perfuse trace -a --by comm,name --top 10 sleep 5\n\nLines and tables go to standard error while a command runs, else to standard output. The exit status is the command's."
)]
pub(crate) struct Args {
    /// System calls (openat,close), groups (%file, %desc, %process, %network, %signal, %ipc, %memory), all but some (!futex), /REGEX, or other events (sched:sched_switch)
    #[arg(short, long, value_name = "LIST", allow_hyphen_values = true)]
    event: Vec<String>,
    /// Only calls for which this holds, such as 'count > 4096 && duration > 1ms': arguments by name or arg0 to arg5, name, ret, error, duration, pid, tid, cpu, time, comm, nr; fields of other events
    #[arg(long = "if", value_name = "EXPRESSION", value_parser = expression)]
    condition: Option<Expr>,
    /// Only calls that took so many milliseconds or more
    #[arg(long, value_name = "MS")]
    duration: Option<f64>,
    /// Only calls that failed
    #[arg(long)]
    failure: bool,
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
    /// A JSON object for each line, and one for the tables (schema perfuse.trace/1)
    #[arg(long)]
    json: bool,
    /// How long each call took, behind its line
    #[arg(short = 'T')]
    tells_duration: bool,
    /// The time since the first line, before each
    #[arg(short = 'r', long = "time")]
    tells_time: bool,
    /// Follow what the command starts, as always
    #[arg(short, hide = true)]
    follow: bool,
    /// These processes, by number or by name
    #[arg(short, long, value_name = "PID|NAME")]
    pid: Option<String>,
    /// These threads
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
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["pid", "tid", "uid", "all_cpus", "cpu", "cgroup", "output"])]
    input: Option<PathBuf>,
    /// Pages of each ring, or bytes such as 16M
    #[arg(short = 'm', long, value_name = "PAGES")]
    mmap_pages: Option<String>,
    /// The kernel that measures: by default Linux, and perfuse itself where Linux refuses
    #[arg(long, value_name = "KERNEL", value_parser = Choices)]
    kernel: Option<Choice>,
    /// The command to run
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Bytes that all rings take together, unless told.
const RINGS: usize = 64 << 20;

const RAW: [&str; 2] = ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"];

/// What `-e` asks for.
struct Wanted {
    calls: CallSet,
    /// Calls are asked for: where other events are named, they are not by themselves.
    has_calls: bool,
    events: Vec<String>,
}

impl Wanted {
    fn of(lists: &[String], table: &Calls) -> Result<Self> {
        let (mut calls, mut events, mut any) = (CallSet::All, Vec::new(), false);
        for list in lists {
            let list = ["trace=", "t="].iter().find_map(|word| list.strip_prefix(word)).unwrap_or(list);
            let (turned, words) = list.strip_prefix('!').map_or(("", list), |rest| ("!", rest));
            let (named, of_calls): (Vec<&str>, Vec<&str>) = words
                .split(',')
                .filter(|word| !word.is_empty())
                .partition(|word| word.contains(':') && !word.starts_with('/'));
            events.extend(named.into_iter().map(str::to_owned));
            if !of_calls.is_empty() {
                let set = CallSet::parse(&format!("{turned}{}", of_calls.join(",")), table);
                calls = calls.and(set.map_err(|error| Failure::usage(format_args!("-e: {error}")))?);
                any = true;
            }
        }
        Ok(Wanted { calls, has_calls: any || events.is_empty(), events })
    }

    /// As `-e` and `--filter` of `record`. Entries of calls that are given texts are an event of their own, the first: those are read
    /// at once.
    fn words(&self, texts: Option<CallSet>) -> Vec<OsString> {
        let all = self.calls.clone();
        let entries = match texts {
            Some(texts) => vec![all.within(&texts), all.within(&texts.others())],
            None => vec![all.clone()],
        };
        let raw =
            entries.into_iter().map(|set| (RAW[0], set)).chain([(RAW[1], all)]).filter(|_| self.has_calls);
        let calls = raw.flat_map(|(name, set)| {
            [Some(format!("--event={name}")), set.filter().map(|filter| format!("--filter={filter}"))]
        });
        let calls = calls.flatten();
        calls.chain(self.events.iter().map(|name| format!("--event={name}"))).map(OsString::from).collect()
    }
}

impl Args {
    /// The same options in the words of `record`.
    fn words(&self, wanted: &Wanted, table: &Calls) -> Vec<OsString> {
        let mut words: Vec<OsString> =
            ["perfuse", "record", "--no-follow", "-c1"].map(OsString::from).to_vec();
        words.extend(wanted.words(self.wants_texts(table).then(|| table.with_texts())));
        let kernel = self.kernel.as_ref().map(|kernel| kernel.word().to_string_lossy().into_owned());
        for (name, value) in [
            ("--pid", self.pid.as_ref()),
            ("--tid", self.tid.as_ref()),
            ("--uid", self.uid.as_ref()),
            ("--cpu", self.cpu.as_ref()),
            ("--cgroup", self.cgroup.as_ref()),
            ("--mmap-pages", self.mmap_pages.as_ref()),
            ("--kernel", kernel.as_ref()),
        ] {
            words.extend(value.map(|value| format!("{name}={value}").into()));
        }
        if self.is_of_cpus() {
            words.push("--exclude-perf".into());
        }
        words.extend(self.all_cpus.then(|| "--all-cpus".into()));
        words.push("--".into());
        words.extend(self.command.iter().cloned());
        words
    }

    fn is_of_cpus(&self) -> bool {
        let none = self.pid.is_none() && self.tid.is_none() && self.uid.is_none() && self.command.is_empty();
        self.all_cpus || self.cpu.is_some() || self.cgroup.is_some() || none
    }

    fn has_rows(&self) -> bool {
        !self.by.is_empty() || self.of.is_some() || !self.show.is_empty() || self.top.is_some()
    }

    fn has_lines(&self) -> bool {
        self.with_summary || !(self.summary || self.count || self.has_rows())
    }

    /// Whether texts that calls were given are told, or asked for.
    fn wants_texts(&self, table: &Calls) -> bool {
        let mut names = self.condition.iter().chain(&self.by).chain(&self.of).flat_map(Expr::names);
        self.has_lines() || names.any(|name| table.has_text(name))
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
        let rows = match (self.condition.is_some(), self.has_rows(), self.summary || self.count) {
            (true, ..) => Err("its programs know no --if"),
            (_, true, true) => Err("its programs make one table"),
            (_, true, false) => {
                let of = self.question()?.of;
                let spread = self.show.is_empty() || self.show.iter().any(|what| what.is_spread());
                let rows = Rows::by_keys(&self.by, of.as_ref(), spread, &wanted.calls, table);
                rows.ok_or("its programs do not know these keys")
            }
            _ if self.count && !self.json => Ok((Rows::ByCall, wanted.calls.clone())),
            _ => Ok((Rows::ByThread, wanted.calls.clone())),
        };
        let least_ns = self.least()?.map_or(0, |least| u64::try_from(least.as_nanos()).unwrap_or(u64::MAX));
        let failed = self.failure;
        Ok(Some(rows.map(|(rows, wanted)| CallQuestion { wanted, failed, least_ns, rows })))
    }

    /// The condition with what `--duration` and `--failure` add to it.
    fn question(&self) -> Result<Question> {
        let mut parts: Vec<String> = self.condition.iter().map(|expr| format!("({expr})")).collect();
        parts.extend(self.least()?.map(|least| format!("duration >= {}", least.as_nanos())));
        parts.extend(self.failure.then(|| "error != ''".to_owned()));
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
    let native =
        Arch::NATIVE.ok_or_else(|| Failure::new("system calls of this architecture are not known"))?;
    if let Some(path) = &args.input {
        if !args.command.is_empty() {
            return Err(Failure::usage("-i tells of a recording; a command would be another one"));
        }
        let input = recording::Input::at(path.clone(), false);
        let mut data = input.open()?;
        let machine = perfuse_data::describe::machine(&mut data);
        let table = Calls::of(Arch::from_machine(&machine).unwrap_or(native));
        let mut reader = Reader::new(args, table, false)?;
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
        recording::replay(replay, |step| reader.step(step))?;
        reader.finish(&[])?;
        return Ok(ExitCode::SUCCESS);
    }
    let table = Calls::of(native);
    let wanted = Wanted::of(&args.event, table)?;
    let mut reader = Reader::new(args, table, !args.command.is_empty())?;
    let may = |kernel: &Perf| match kernel.facts().is_embedded && wanted.has_calls {
        true => Err(Failure::new(
            "the embedded kernel has no tracepoints of system calls yet, so that trace needs Linux's: root, or CAP_PERFMON and tracefs",
        )),
        false => Ok(()),
    };
    let (kernel, mut plan, remarks) = record::plan(&*record_args(args.words(&wanted, table))?, may)?;
    drop(kernel);
    remarks.into_iter().for_each(say);
    (plan.build_ids, plan.bpf, plan.fields.cpu) = (false, false, true);
    plan.synth = perfuse_record::Synth { tasks: true, maps: args.output.is_some(), cgroups: false };
    if plan.pages.is_none() {
        // A program that does nothing but calls fills four megabytes in some hundredths of a second.
        let rings = plan.kernel.surroundings().online_cpus().len().next_power_of_two();
        plan.pages = Some((RINGS / rings).clamp(1 << 19, 16 << 20) / perfuse_sys::page_size());
    }
    plan.read_every = Duration::from_millis(if args.has_lines() { 10 } else { 100 });
    let records = |why: &dyn std::fmt::Display| Some(format!("summed up from records: {why}"));
    let way = match args.in_kernel(&wanted, table)? {
        None => None,
        Some(Err(why)) => records(&why),
        Some(Ok(question)) => match SummingUp::prepare(&plan, &question, table) {
            Ok(summing) => return told_by_kernel(args, table, summing.run(&plan, table)?),
            Err(why) => records(&why),
        },
    };
    let mut file = args.output.as_ref().map(FileSink::new);
    let texts = (args.wants_texts(table) && wanted.has_calls)
        .then(|| (table, reader.texts.clone(), wanted.calls.clone()));
    let beside =
        Beside { reader_goes_first: true, sink: file.as_mut().map(|file| file as &mut dyn Sink), texts };
    let mut heard = Remarks::default();
    let (ended, read) = streamed(&plan, beside, &mut heard, |stream| {
        // A recording that never began has nothing to tell; the recorder says why.
        let Ok(data) = PerfData::from_reader(stream, ReadOptions::default()) else { return Ok(None) };
        let mut failed = None;
        let mut replay = Replay::new(data).joined();
        let told = replay.each(|step| match step {
            // Records that cannot be read are left out.
            Err(_) => Ok(()),
            Ok(step) => reader.step(&step).map_err(|failure| failed = Some(failure)),
        });
        match (told, failed) {
            (Err(()), Some(failure)) => Err(failure),
            _ => Ok(Some(reader)),
        }
    });
    let told = match read {
        Some(Ok(Some(mut reader))) => reader.finish(&heard.texts),
        Some(Err(failure)) => Err(failure),
        _ => Ok(()),
    };
    let ended: Ended = ended?;
    told?;
    way.into_iter().for_each(say);
    Ok(record::exit_code(&ended))
}

/// Writes the tables of what the kernel has summed up.
fn told_by_kernel(args: &Args, table: &Calls, summed: Summed) -> Result {
    put(&Sums::of(summed.rows).text(args, table), !args.command.is_empty())?;
    summed.no_room.told().iter().for_each(say);
    say("summed up in the kernel (BPF): no records, none lost");
    Ok(record::exit_code(&summed.ended))
}

/// Writes tables where lines would be.
fn put(text: &str, to_stderr: bool) -> Result<()> {
    match to_stderr {
        true => out::stderr().write_all(text.as_bytes())?,
        false => out::print(text.as_bytes())?,
    }
    Ok(())
}

/// Remarks of the recording, told when it is over, below lines and tables.
#[derive(Default)]
struct Remarks {
    texts: Vec<String>,
}

impl Observer for Remarks {
    fn remark(&mut self, remark: &Remark) {
        self.texts.push(remark.to_string());
    }
}

/// Takes a recording in, writes lines, and sums up.
struct Reader<'a> {
    args: &'a Args,
    table: &'static Calls,
    wanted: Wanted,
    question: Question,
    calls: CallReplay,
    /// The question for each call by its number, and for each other event; nothing where it lacks a field.
    asked: HashMap<(bool, u64), Option<Arc<Asked>>>,
    texts: Texts,
    wants_texts: bool,
    lines: Option<Lines>,
    sums: Sums,
    lost: Lost,
    /// Why a question could not be asked of some calls or events, if it could not of any.
    refused: Option<ExprError>,
    to_stderr: bool,
}

impl<'a> Reader<'a> {
    fn new(args: &'a Args, table: &'static Calls, to_stderr: bool) -> Result<Self> {
        let question = args.question()?;
        let wanted = Wanted::of(&args.event, table)?;
        // Faults that all calls would have are told before anything runs.
        if wanted.has_calls && wanted.events.is_empty() {
            let all: Vec<_> = table
                .names()
                .filter_map(|name| table.number(name))
                .filter(|&number| wanted.calls.has(number))
                .collect();
            let mut extras = call_schema(None);
            for number in all {
                let more = call_schema(table.get(number)).into_iter();
                let known: Vec<&str> = extras.iter().map(|extra| extra.name).collect();
                let new: Vec<_> = more.filter(|extra| !known.contains(&extra.name)).collect();
                extras.extend(new);
            }
            match question.bind(&Schema::of_extras(&extras)) {
                Err(error) if error.is_unknown_name() => return Err(error.into()),
                _ => {}
            }
        }
        let lines = args.has_lines().then(|| Lines::new(args, to_stderr));
        let sums = Sums::new(args);
        Ok(Reader {
            args,
            table,
            wanted,
            question,
            calls: CallReplay::default(),
            asked: HashMap::new(),
            texts: Texts::default(),
            wants_texts: args.wants_texts(table) && args.input.is_none(),
            lines,
            sums,
            lost: Lost::default(),
            refused: None,
            to_stderr,
        })
    }

    fn step(&mut self, step: &Step<'_>) -> Result<()> {
        self.lost.add(step);
        let mut calls = std::mem::take(&mut self.calls);
        let mut done = Ok(());
        calls.step(step, &mut |heard| {
            if done.is_ok() {
                done = match heard {
                    Heard::Entered(..) => Ok(()),
                    Heard::Call(call) => self.call(call, Some(step)),
                    Heard::Sample(event, sample) => self.sample(event, sample, step),
                };
            }
        });
        self.calls = calls;
        done
    }

    fn call(&mut self, call: &Call, step: Option<&Step<'_>>) -> Result<()> {
        // A recording has what it has, whatever is asked of it now.
        let is_wanted = self.wanted.has_calls && self.wanted.calls.has(call.number);
        if !is_wanted || call.at.pid == std::process::id() {
            return Ok(());
        }
        let comm = step.and_then(|step| Some(step.session.comm(step.session.comm_of(call.at.tid)?)));
        let texts = match self.wants_texts {
            true => self.texts.take(call.at.tid, call.at.time),
            false => Vec::new(),
        };
        let text = |index| texts.iter().find(|(place, _)| *place == index).map(|(_, text)| text.clone());
        let record = CallRecord { call, calls: self.table, comm: comm.unwrap_or_default(), text: &text };
        let table = self.table;
        let Some(asked) = self.asked((false, call.number), |question| {
            question.bind(&Schema::of_extras(&call_schema(table.get(call.number))))
        }) else {
            return Ok(());
        };
        if !asked.admits(&record) {
            return Ok(());
        }
        self.sums.call(&asked, &record);
        match &mut self.lines {
            Some(lines) => lines.call(&record),
            None => Ok(()),
        }
    }

    fn sample(&mut self, event: &Event, sample: &Sample<'_>, step: &Step<'_>) -> Result<()> {
        let texts = [SampleField::Comm, SampleField::Event];
        let (fields, extras) = sample_fields(event.attr.sample_type, &texts);
        let format = step.formats.get(event.attr.config).map(|(_, format)| format);
        let Some(asked) = self
            .asked((true, event.attr.config), |question| question.bind(&Schema { format, extras: &extras }))
        else {
            return Ok(());
        };
        let name = step.formats.event_name(event);
        let events = &self.wanted.events;
        if !events.is_empty() && !events.iter().any(|wanted| glob(wanted, &name)) {
            return Ok(());
        }
        let comm = sample.tid.and_then(|tid| step.session.comm_of(tid.tid));
        let comm = comm.map_or(&b""[..], |comm| step.session.comm(comm));
        let text = |field| match field {
            SampleField::Comm => Some(comm.to_vec()),
            _ => Some(name.clone().into_bytes()),
        };
        let order = event.format.order;
        let record =
            SampleRecord { sample, period: event.weight(sample), order, fields: &fields, text: &text };
        if !asked.admits(&record) {
            return Ok(());
        }
        self.sums.sample(&asked, &record);
        match &mut self.lines {
            Some(lines) => lines.sample(&name, event, sample, step, comm),
            None => Ok(()),
        }
    }

    /// The question for calls or events of a kind.
    fn asked(
        &mut self,
        kind: (bool, u64),
        bind: impl FnOnce(&Question) -> std::result::Result<Asked, ExprError>,
    ) -> Option<Arc<Asked>> {
        let Reader { asked, question, refused, .. } = self;
        let bound = asked
            .entry(kind)
            .or_insert_with(|| bind(question).map(Arc::new).map_err(|error| *refused = Some(error)).ok());
        bound.clone()
    }

    /// Tells what never returned, the tables, and what was lost.
    fn finish(&mut self, remarks: &[String]) -> Result<()> {
        for call in self.calls.rest() {
            self.call(&call, None)?;
        }
        if let Some(lines) = &mut self.lines {
            lines.flush()?;
        }
        put(&self.sums.text(self.args, self.table), self.to_stderr)?;
        if let Some(error) = self.refused.take().filter(|_| self.asked.values().all(Option::is_none)) {
            return Err(error.into());
        }
        remarks.iter().for_each(say);
        let lost = self.lost.total();
        if lost > 0 && remarks.iter().all(|remark| !remark.contains("lost")) {
            say(format_args!(
                "{} records were lost: counts are too low; larger rings (-m 16M) lose fewer",
                grouped(lost)
            ));
        }
        Ok(())
    }
}
