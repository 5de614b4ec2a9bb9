//! Lines of calls, as strace writes them, and of other events.

use super::Args;
use crate::exit::Result;
use crate::recording::header::local_time;
use crate::recording::symbols;
use crate::term::foreign::foreign;
use crate::term::out;
use perfuse_abi::record::Sample;
use perfuse_data::Event;
use perfuse_data::describe::{AskedFields, Fields};
use perfuse_data::replay::{Step, Told, TracedSample};
use perfuse_export::script::{self, LinesOptions};
use perfuse_profile::Lookup;
use perfuse_trace::CallRecord;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

/// What stands for the time before a line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stamp {
    /// The time since the first line.
    Start,
    /// The time of day. It is so many nanoseconds later than by the recording's clock.
    Day(u64),
    /// The time since 1970.
    Epoch(u64),
}

/// Writes lines.
pub(super) struct Lines {
    json: bool,
    tells_duration: bool,
    stamp: Option<Stamp>,
    tells_cpu: bool,
    tells_number: bool,
    /// Threads have names where they are not those of one command.
    names_threads: bool,
    has_stacks: bool,
    to_stderr: bool,
    /// The first thread: others are told from it.
    first: Option<u32>,
    begin: Option<u64>,
    waiting: String,
    /// Nobody reads the lines any more.
    is_unread: bool,
    /// Names places.
    places: script::Lines,
}

impl Lines {
    pub(super) fn new(args: &Args, to_stderr: bool, stamp: Option<Stamp>, machine: &str) -> Self {
        let lookup = Lookup::new(symbols(false).with_debug_info(false, false), true);
        let options =
            LinesOptions { max_stack: args.max_stack, machine: machine.to_owned(), ..LinesOptions::default() };
        Lines {
            json: args.json,
            tells_duration: args.tells_duration,
            stamp,
            tells_cpu: args.show_cpu,
            tells_number: args.numbers,
            names_threads: args.comm || args.command.is_empty() || args.is_of_cpus(),
            has_stacks: args.has_stacks(),
            to_stderr,
            first: None,
            begin: None,
            waiting: String::new(),
            is_unread: false,
            places: script::Lines::new(lookup, options),
        }
    }

    pub(super) fn tell(&mut self, told: &Told<'_>) -> Result<()> {
        match *told {
            Told::Call(record, _, step) => {
                self.call(record)?;
                self.stack(step)
            }
            Told::Sample(sample, _, step) => {
                self.sample(&sample, step)?;
                self.stack(Some(step))
            }
            _ => Ok(()),
        }
    }

    fn call(&mut self, record: &CallRecord<'_>) -> Result<()> {
        let at = record.call.at;
        if self.json {
            let mut object = self.object(at.time, (at.pid, at.tid), record.comm);
            object.extend(record.members());
            return self.put_object(object);
        }
        let mut line = self.start(at.time, at.tid, at.cpu, record.comm);
        if self.tells_number {
            let _ = write!(line, "[{:>4}] ", record.call.number);
        }
        line += &record.line();
        if let (true, Some(ns)) = (self.tells_duration, record.call.duration) {
            let _ = write!(line, " <{}.{:09}>", ns / 1_000_000_000, ns % 1_000_000_000);
        }
        self.put(&line)
    }

    fn sample(&mut self, traced: &TracedSample<'_>, step: &Step<'_>) -> Result<()> {
        let TracedSample { name, comm, event, sample, .. } = *traced;
        let tid = sample.tid.unwrap_or_default();
        let raw = sample.raw.as_ref().map_or(&[][..], |raw| raw.as_bytes());
        let text = step.formats.print(event.attr.config, raw, event.format.order, &|_| None);
        let text = text.unwrap_or_else(|| {
            let place = self.place((event, sample), step, false);
            let place = place.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
            match sample.addr {
                Some(address) => format!("{address:#x} by {place}"),
                None => place,
            }
        });
        let time = sample.time.unwrap_or(0);
        if self.json {
            let mut object = self.object(time, (tid.pid, tid.tid), comm);
            object.insert("event".into(), name.into());
            object.insert("text".into(), text.into());
            return self.put_object(object);
        }
        let cpu = sample.cpu.map(|cpu| cpu.cpu);
        let line = self.start(time, tid.tid, cpu, comm) + &foreign(&format!("{name}: {text}"));
        self.put(&line)
    }

    /// The stack of the step's sample, below its line.
    fn stack(&mut self, step: Option<&Step<'_>>) -> Result<()> {
        let found = step.and_then(|step| Some((step, step.entry.event()?, step.sample()?)));
        let Some((step, event, sample)) = found.filter(|_| self.has_stacks) else { return Ok(()) };
        let frames = self.place((event, sample), step, true);
        let mut frames = frames.lines().map(str::trim).filter(|frame| !frame.is_empty());
        frames.try_for_each(|frame| self.put(&format!(" > {frame}")))
    }

    /// The place of a sample, or its stack.
    fn place(&mut self, (event, sample): (&Event, &Sample<'_>), step: &Step<'_>, is_deep: bool) -> String {
        let asked = "ip,sym,symoff,dso".parse::<AskedFields>();
        let fields = asked.ok().and_then(|asked| Fields::of(event, String::new(), &[asked], is_deep).ok());
        let (Some(fields), Some(decoded)) = (fields, step.decoded) else { return String::new() };
        let (session, formats) = (step.session, step.formats);
        self.places.sample(&script::Sample { event, fields: &fields, period: 0, decoded, sample, session, formats });
        let mut text = Vec::new();
        // Memory takes it.
        let _ = self.places.take(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    fn object(&mut self, time: u64, (pid, tid): (u32, u32), comm: &[u8]) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("time_ns".into(), time.into());
        object.insert("pid".into(), pid.into());
        object.insert("tid".into(), tid.into());
        object.insert("comm".into(), String::from_utf8_lossy(comm).into());
        object
    }

    fn put_object(&mut self, object: Map<String, Value>) -> Result<()> {
        self.put(&Value::Object(object).to_string())
    }

    /// The time, the cpu and the thread.
    fn start(&mut self, time: u64, tid: u32, cpu: Option<u32>, comm: &[u8]) -> String {
        let mut line = String::new();
        let parts = |ns: u64| (ns / 1_000_000_000, ns % 1_000_000_000 / 1000);
        let _ = match self.stamp {
            None => Ok(()),
            Some(Stamp::Start) => {
                let (seconds, micros) = parts(time.saturating_sub(*self.begin.get_or_insert(time)));
                write!(line, "{seconds:>6}.{micros:06} ")
            }
            Some(Stamp::Epoch(since)) => {
                let (seconds, micros) = parts(time.saturating_add(since));
                write!(line, "{seconds}.{micros:06} ")
            }
            Some(Stamp::Day(since)) => {
                let now = time.saturating_add(since);
                let day = local_time(Duration::from_nanos(now)).strftime("%T").to_string();
                write!(line, "{day}.{:06} ", parts(now).1)
            }
        };
        if let (true, Some(cpu)) = (self.tells_cpu, cpu) {
            let _ = write!(line, "[{cpu:03}] ");
        }
        let first = *self.first.get_or_insert(tid);
        if self.names_threads {
            let _ = write!(line, "{}/{tid} ", foreign(comm));
        } else if tid != first {
            let _ = write!(line, "[pid {tid}] ");
        }
        line
    }

    fn put(&mut self, line: &str) -> Result<()> {
        self.waiting.push_str(line);
        self.waiting.push('\n');
        if self.waiting.len() < 1 << 14 { Ok(()) } else { self.flush() }
    }

    /// Writes what waits. Where nobody reads the lines of a command any more, it goes on all the same.
    pub(super) fn flush(&mut self) -> Result<()> {
        let text = std::mem::take(&mut self.waiting);
        if self.is_unread || text.is_empty() {
            return Ok(());
        }
        if !self.to_stderr {
            return Ok(out::print(text.as_bytes())?);
        }
        self.is_unread = out::stderr().write_all(text.as_bytes()).is_err();
        Ok(())
    }
}
