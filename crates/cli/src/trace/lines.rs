//! Lines of calls, as strace writes them, and of other events.

use super::Args;
use crate::exit::Result;
use crate::term::foreign::foreign;
use crate::term::out;
use perfuse_abi::record::Sample;
use perfuse_data::Event;
use perfuse_data::replay::Step;
use perfuse_trace::{Call, CallRecord, errno_name, errno_remark, write_arguments};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::Write as _;

/// Calls that return addresses.
const ADDRESSES: [&str; 4] = ["mmap", "brk", "mremap", "shmat"];

/// Writes lines.
pub(super) struct Lines {
    json: bool,
    tells_duration: bool,
    tells_time: bool,
    /// Threads have names where they are not those of one command.
    names_threads: bool,
    to_stderr: bool,
    /// The first thread: others are told from it.
    first: Option<u32>,
    begin: Option<u64>,
    waiting: String,
    /// Nobody reads the lines any more.
    is_unread: bool,
}

impl Lines {
    pub(super) fn new(args: &Args, to_stderr: bool) -> Self {
        Lines {
            json: args.json,
            tells_duration: args.tells_duration,
            tells_time: args.tells_time,
            names_threads: args.command.is_empty() || args.is_of_cpus(),
            to_stderr,
            first: None,
            begin: None,
            waiting: String::new(),
            is_unread: false,
        }
    }

    pub(super) fn call(&mut self, record: &CallRecord<'_>) -> Result<()> {
        let Call { at, arguments, duration, returned, number } = record.call;
        let name = record.calls.name(*number);
        let spec = record.calls.get(*number);
        let mut text = String::new();
        match arguments {
            Some(values) => write_arguments(&mut text, spec, values, record.text),
            None => text.push_str("..."),
        }
        if self.json {
            let mut object = self.object(at.time, at.pid, at.tid, record.comm);
            object.insert("name".into(), name.into());
            object.insert("arguments".into(), text.into());
            object.insert("values".into(), json!(arguments));
            object.insert("ret".into(), json!(returned));
            object.insert("error".into(), json!(record.call.error().map(error)));
            object.insert("duration_ns".into(), json!(duration));
            return self.put_object(object);
        }
        let mut line = self.start(at.time, at.tid, record.comm);
        let _ = write!(line, "{name}({text}) = ");
        let _ = match (returned, record.call.error()) {
            (None, _) => write!(line, "?"),
            (Some(_), Some(number)) => match errno_remark(number) {
                Some(remark) => write!(line, "? {} ({remark})", error(number)),
                None => write!(line, "-1 {} ({})", error(number), words(number)),
            },
            (Some(value), None) if ADDRESSES.contains(&name.as_str()) => write!(line, "{value:#x}"),
            (Some(value), None) => write!(line, "{value}"),
        };
        if let (true, Some(ns)) = (self.tells_duration, duration) {
            let _ = write!(line, " <{}.{:09}>", ns / 1_000_000_000, ns % 1_000_000_000);
        }
        self.put(&line)
    }

    pub(super) fn sample(
        &mut self,
        name: &str,
        event: &Event,
        sample: &Sample<'_>,
        step: &Step<'_>,
        comm: &[u8],
    ) -> Result<()> {
        let tid = sample.tid.unwrap_or_default();
        let raw = sample.raw.as_ref().map_or(&[][..], |raw| raw.as_bytes());
        let text =
            step.formats.print(event.attr.config, raw, event.format.order, &|_| None).unwrap_or_default();
        let time = sample.time.unwrap_or(0);
        if self.json {
            let mut object = self.object(time, tid.pid, tid.tid, comm);
            object.insert("event".into(), name.into());
            object.insert("text".into(), text.into());
            return self.put_object(object);
        }
        let line = self.start(time, tid.tid, comm) + &foreign(&format!("{name}: {text}"));
        self.put(&line)
    }

    fn object(&mut self, time: u64, pid: u32, tid: u32, comm: &[u8]) -> Map<String, Value> {
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

    /// The time and the thread.
    fn start(&mut self, time: u64, tid: u32, comm: &[u8]) -> String {
        let mut line = String::new();
        if self.tells_time {
            let since = time.saturating_sub(*self.begin.get_or_insert(time));
            let _ = write!(line, "{:>6}.{:06} ", since / 1_000_000_000, since % 1_000_000_000 / 1000);
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

fn error(number: u16) -> String {
    errno_name(number).map_or_else(|| format!("error {number}"), str::to_owned)
}

/// The system's words for an error.
fn words(number: u16) -> String {
    let words = std::io::Error::from_raw_os_error(number.into()).to_string();
    words.split(" (os error").next().unwrap_or_default().to_owned()
}
