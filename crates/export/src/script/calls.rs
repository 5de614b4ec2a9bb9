//! System calls as lines that strace's readers know, and other events between them; or an object of JSON for each.

use super::line::{Lines, LinesOptions};
use perfuse_abi::record::Sample;
use perfuse_data::Event;
use perfuse_data::describe::{AskedFields, Fields};
use perfuse_data::replay::{Step, Told, TracedSample};
use perfuse_data::text::foreign;
use perfuse_profile::Lookup;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::time::Duration;

/// The time that stands before a line.
#[derive(Clone, Copy, Debug)]
pub enum Stamp {
    /// The time since the first line.
    SinceStart,
    /// The time of day. By the clock of the recording it is so many nanoseconds earlier; the text of a moment since 1970, where this is
    /// read, is without the fraction of its second.
    TimeOfDay(u64, fn(Duration) -> String),
    /// The time since 1970. By the clock of the recording it is so many nanoseconds earlier.
    SinceEpoch(u64),
}

/// The form of the lines.
#[derive(Clone, Debug, Default)]
pub struct CallLinesOptions {
    /// Each as an object of JSON.
    pub json: bool,
    /// How long each call took stands behind it.
    pub tells_duration: bool,
    /// The time before a line.
    pub stamp: Option<Stamp>,
    /// The cpu before a line.
    pub tells_cpu: bool,
    /// The number of a call before it.
    pub tells_number: bool,
    /// Each thread has its name and number before its lines; else they tell threads from the first one.
    pub names_threads: bool,
    /// The stack below each line.
    pub has_stacks: bool,
    /// At most so many frames of a stack.
    pub max_stack: usize,
    /// The machine of the recording, as `uname -m` says it.
    pub machine: String,
}

/// The lines, made one after the other, and held until they are taken.
pub struct CallLines {
    options: CallLinesOptions,
    /// Names places, by these fields.
    places: Lines,
    of_place: Option<AskedFields>,
    /// The first thread: others are told from it.
    first: Option<u32>,
    begin: Option<u64>,
    text: String,
}

impl CallLines {
    /// No lines yet; `lookup` names places.
    pub fn new(lookup: Lookup, options: CallLinesOptions) -> Self {
        let (max_stack, machine) = (options.max_stack, options.machine.clone());
        let places = Lines::new(lookup, LinesOptions { max_stack, machine, ..LinesOptions::default() });
        let of_place = "ip,sym,symoff,dso".parse().ok();
        CallLines { options, places, of_place, first: None, begin: None, text: String::new() }
    }

    /// Hands over the lines that wait, if they are this many bytes, and forgets them.
    pub fn take(&mut self, least: usize) -> String {
        if self.text.len() < least { String::new() } else { std::mem::take(&mut self.text) }
    }

    /// A call, or a sample of another event.
    pub fn tell(&mut self, told: &Told<'_>) {
        let (mut object, line, step) = match *told {
            Told::Call(record, _, step) => {
                let at = record.call.at;
                let mut line = self.start(at.time, at.tid, at.cpu, record.comm);
                if self.options.tells_number {
                    let _ = write!(line, "[{:>4}] ", record.call.number);
                }
                let mut object = object(at.time, (at.pid, at.tid), record.comm);
                match self.options.json {
                    true => object.extend(record.members()),
                    false => line += &record.line(),
                }
                if let (true, Some(ns)) = (self.options.tells_duration, record.call.duration) {
                    let _ = write!(line, " <{}.{:09}>", ns / 1_000_000_000, ns % 1_000_000_000);
                }
                (object, line, step)
            }
            Told::Sample(traced, _, step) => {
                let TracedSample { name, comm, sample, .. } = traced;
                let (tid, time) = (sample.tid.unwrap_or_default(), sample.time.unwrap_or(0));
                let text = self.of_sample(&traced, step);
                let mut object = object(time, (tid.pid, tid.tid), comm);
                object.insert("event".into(), name.into());
                let cpu = sample.cpu.map(|cpu| cpu.cpu);
                let words = of_function(name, &text).unwrap_or_else(|| format!("{name}: {text}"));
                let line = self.start(time, tid.tid, cpu, comm) + &foreign(&words);
                object.insert("text".into(), text.into());
                (object, line, Some(step))
            }
            _ => return,
        };
        let found = step.and_then(|step| Some((step, step.entry.event()?, step.sample()?)));
        let stack = found.filter(|_| self.options.has_stacks);
        let stack =
            stack.map(|(step, event, sample)| self.place((event, sample), step, true)).unwrap_or_default();
        let frames = stack.lines().map(str::trim).filter(|frame| !frame.is_empty());
        if !self.options.json {
            self.text += &(line + "\n");
            return frames.for_each(|frame| self.text += &format!(" > {frame}\n"));
        }
        if self.options.has_stacks {
            object.insert("stack".into(), frames.map(Value::from).collect());
        }
        let _ = writeln!(self.text, "{}", Value::Object(object));
    }

    /// A sample in the words of its tracepoint's format; of other events, where they happened.
    fn of_sample(&mut self, traced: &TracedSample<'_>, step: &Step<'_>) -> String {
        let TracedSample { event, sample, .. } = *traced;
        let raw = sample.raw.as_ref().map_or(&[][..], |raw| raw.as_bytes());
        if let Some(text) = step.formats.print(event.attr.config, raw, event.format.order, &|_| None) {
            return text;
        }
        let place = self.place((event, sample), step, false);
        let place = place.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
        sample.addr.map_or(place.clone(), |address| format!("{address:#x} by {place}"))
    }

    /// The place of a sample, or its stack.
    fn place(&mut self, (event, sample): (&Event, &Sample<'_>), step: &Step<'_>, is_deep: bool) -> String {
        let asked = self.of_place.as_ref().map(std::slice::from_ref);
        let fields = asked.and_then(|asked| Fields::of(event, String::new(), asked, is_deep).ok());
        let (Some(fields), Some(decoded)) = (fields, step.decoded) else { return String::new() };
        let (session, formats) = (step.session, step.formats);
        self.places.sample(&super::Sample {
            event,
            fields: &fields,
            period: 0,
            decoded,
            sample,
            session,
            formats,
        });
        let mut text = Vec::new();
        // Memory takes it.
        let _ = self.places.take(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The time, the cpu and the thread.
    fn start(&mut self, time: u64, tid: u32, cpu: Option<u32>, comm: &[u8]) -> String {
        let mut line = String::new();
        let parts = |ns: u64| (ns / 1_000_000_000, ns % 1_000_000_000 / 1000);
        let _ = match self.options.stamp {
            None => Ok(()),
            Some(Stamp::SinceStart) => {
                let (seconds, micros) = parts(time.saturating_sub(*self.begin.get_or_insert(time)));
                write!(line, "{seconds:>6}.{micros:06} ")
            }
            Some(Stamp::SinceEpoch(later)) => {
                let (seconds, micros) = parts(time.saturating_add(later));
                write!(line, "{seconds}.{micros:06} ")
            }
            Some(Stamp::TimeOfDay(later, local_time)) => {
                let now = time.saturating_add(later);
                write!(line, "{}.{:06} ", local_time(Duration::from_nanos(now)), parts(now).1)
            }
        };
        if let (true, Some(cpu)) = (self.options.tells_cpu, cpu) {
            let _ = write!(line, "[{cpu:03}] ");
        }
        let first = *self.first.get_or_insert(tid);
        if self.options.names_threads {
            let _ = write!(line, "{}/{tid} ", foreign(comm));
        } else if tid != first {
            let _ = write!(line, "[pid {tid}] ");
        }
        line
    }
}

fn object(time: u64, (pid, tid): (u32, u32), comm: &[u8]) -> Map<String, Value> {
    let comm = String::from_utf8_lossy(comm).into_owned();
    let members = [("time_ns", time.into()), ("pid", pid.into()), ("tid", tid.into()), ("comm", comm.into())];
    members.into_iter().map(|(name, value): (&str, Value)| (name.to_owned(), value)).collect()
}
/// A hit of a probe with arguments as a call of its function, by the name that `perfuse-record` gives to its tracepoint: of
/// `perfuse_7:parse` and `(4011d0) n=3 word="x"` it is `parse(n=3 word="x")`, of a return `parse returns 3`, and of the probe
/// `call` that `python` declares (`perfuse_7_python:call`), `python:call(arg0=1)`.
fn of_function(name: &str, text: &str) -> Option<String> {
    let (group, function) = name.strip_prefix("perfuse_")?.split_once(':')?;
    let (number, provider) =
        group.split_once('_').map_or((group, None), |(number, name)| (number, Some(name)));
    number.parse::<u32>().ok()?;
    let (place, values) = text.strip_prefix('(')?.split_once(')')?;
    let values = values.trim_start();
    // The record of a return tells from where to where.
    let returned = function.rsplit_once("__return").filter(|_| place.contains("<-"));
    Some(match (provider, returned) {
        (Some(provider), _) => format!("{provider}:{function}({values})"),
        (None, Some((function, _))) => format!("{function} returns {}", values.trim_start_matches("retval=")),
        (None, None) => format!("{function}({values})"),
    })
}
