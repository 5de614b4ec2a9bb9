//! JSON of speedscope, <https://www.speedscope.app/file-format-schema.json>: profiles of samples with weights, or of frames that open
//! and close.

use super::json::{self, Name, Number};
use super::{Import, ImportError, Sample};
use serde::Deserialize;
use std::io::Read;

/// The schema that a file names at its beginning.
const SCHEMA: &str = "speedscope.app/file-format-schema.json";
const WHAT: &str = "a speedscope profile";
/// A profile stands for a thread; there are no more.
const MAX_PROFILES: usize = 1 << 16;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    exporter: Option<Name>,
    shared: Shared,
    profiles: Vec<Profile>,
}

#[derive(Deserialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
struct Frame {
    name: Name,
    file: Option<Name>,
}

#[derive(Deserialize)]
struct Profile {
    #[serde(rename = "type")]
    kind: Name,
    #[serde(default)]
    name: Name,
    #[serde(default)]
    unit: Name,
    #[serde(rename = "startValue")]
    start: Option<Number>,
    #[serde(default)]
    samples: Vec<Box<[u32]>>,
    #[serde(default)]
    weights: Vec<Number>,
    #[serde(default)]
    events: Vec<Step>,
}

/// A frame that is opened or closed.
#[derive(Deserialize)]
struct Step {
    #[serde(rename = "type")]
    kind: Name,
    frame: u32,
    at: Number,
}

fn broken(why: &str) -> ImportError {
    ImportError::new(format!("not {WHAT}, or a damaged one: {why}"))
}

/// Whether this is the beginning of one.
pub(super) fn begins(start: &str) -> bool {
    start.trim_start().starts_with('{') && start.replace("\\/", "/").contains(SCHEMA)
}

/// The event of a unit, and how many of it are one there.
fn event_of(unit: &str) -> (&'static str, f64) {
    match unit {
        "nanoseconds" => ("wall", 1.0),
        "microseconds" => ("wall", 1e3),
        "milliseconds" => ("wall", 1e6),
        "seconds" => ("wall", 1e9),
        "bytes" => ("bytes", 1.0),
        _ => ("samples", 1.0),
    }
}

/// The functions of frames, and those that are threads.
struct Functions {
    list: Vec<u32>,
    /// The number of each one's name, for what was written by perfuse and has no file.
    threads: Vec<Option<u32>>,
}

pub(super) fn read(from: impl Read) -> Result<Import, ImportError> {
    let bytes = json::all(from)?;
    let file: File = json::parse(&bytes, WHAT)?;
    if file.profiles.len() > MAX_PROFILES {
        return Err(broken("more than 65536 profiles"));
    }
    // There, a profile is an event, and threads are the outermost frames, alone without a file.
    let is_ours = file.exporter.is_some_and(|exporter| &*exporter.0 == "perfuse");
    let mut import = Import::new();
    let mut functions = Functions { list: Vec::new(), threads: Vec::new() };
    for frame in &file.shared.frames {
        import.keep(16)?;
        let object = frame.file.as_ref().map_or("", |file| &file.0);
        let thread = match is_ours && frame.file.is_none() {
            true => Some(import.text(&frame.name.0)?),
            false => None,
        };
        functions.threads.push(thread);
        functions.list.push(match thread {
            Some(_) => 0,
            None => import.function(&frame.name.0, object, 0)?,
        });
    }
    for (number, profile) in (1..).zip(&file.profiles) {
        let (event, factor) = event_of(&profile.unit.0);
        let mut made = Making {
            event: import.event(if is_ours { &profile.name.0 } else { event }),
            thread: if is_ours { 0 } else { import.text(&profile.name.0)? },
            tid: if is_ours { None } else { Some(number) },
            time_ns: (!is_ours && event == "wall")
                .then(|| profile.start.and_then(|start| start.times(factor)).unwrap_or(0)),
            functions: &functions,
            import: &mut import,
            stack: Vec::new(),
        };
        match &*profile.kind.0 {
            "sampled" => made.samples(profile, factor)?,
            "evented" => made.steps(&profile.events, factor)?,
            _ => return Err(broken("a profile that is neither of samples nor of events")),
        }
    }
    Ok(import)
}

/// A profile that becomes samples.
struct Making<'f> {
    event: u32,
    thread: u32,
    tid: Option<u32>,
    /// Of the next sample, where it is known.
    time_ns: Option<u64>,
    functions: &'f Functions,
    import: &'f mut Import,
    stack: Vec<u32>,
}

impl Making<'_> {
    fn samples(&mut self, profile: &Profile, factor: f64) -> Result<(), ImportError> {
        let has_weights = !profile.weights.is_empty();
        if has_weights && profile.weights.len() != profile.samples.len() {
            return Err(broken("not as many weights as samples"));
        }
        for (at, stack) in profile.samples.iter().enumerate() {
            let weight = match profile.weights.get(at) {
                Some(weight) => {
                    weight.times(factor).ok_or_else(|| broken("a weight below zero, or far too much"))?
                }
                None => 1,
            };
            self.add(stack, weight)?;
        }
        Ok(())
    }

    /// The time between two steps is that of the frames which are open.
    fn steps(&mut self, steps: &[Step], factor: f64) -> Result<(), ImportError> {
        let mut open: Vec<u32> = Vec::new();
        let mut last = None;
        for step in steps {
            let at = step.at.times(factor).ok_or_else(|| broken("a time below zero, or far too much"))?;
            let since = at.checked_sub(last.unwrap_or(at)).ok_or_else(|| broken("times that go back"))?;
            if since > 0 && !open.is_empty() {
                self.time_ns = self.time_ns.and(last);
                self.add(&open, since)?;
            }
            last = Some(at);
            match &*step.kind.0 {
                "O" => open.push(step.frame),
                "C" if open.last() == Some(&step.frame) => drop(open.pop()),
                _ => return Err(broken("a frame is closed that is not the innermost")),
            }
        }
        Ok(())
    }

    /// Adds a sample, of which the outermost caller comes first.
    fn add(&mut self, stack: &[u32], weight: u64) -> Result<(), ImportError> {
        if stack.len() > super::MAX_DEPTH + 1 {
            return Err(ImportError::too_deep());
        }
        let mut thread = self.thread;
        self.stack.clear();
        for (depth, &frame) in stack.iter().enumerate() {
            let missing = || broken("a frame that is not there");
            let function = *self.functions.list.get(frame as usize).ok_or_else(missing)?;
            match self.functions.threads[frame as usize] {
                Some(name) if depth == 0 => thread = name,
                Some(_) => return Err(missing()),
                None => self.stack.push(function),
            }
        }
        self.stack.reverse();
        let stack = self.import.stack(&self.stack)?;
        let tid = self.tid.unwrap_or(thread + 1);
        let (event, time_ns) = (self.event, self.time_ns);
        self.time_ns = time_ns.map(|time| time.saturating_add(weight));
        self.import.add(Sample { event, thread, pid: tid, tid, cpu: None, time_ns, stack, count: 1, weight })
    }
}
