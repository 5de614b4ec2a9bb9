//! Processed profiles of the Firefox Profiler, as it and samply save them: tables for each thread, or, in newer versions, some of them
//! for all. Samples become samples; markers, counters and allocations are left out.

use super::json::{self, Name, Number, Place, Word};
use super::{Import, ImportError, Sample};
use serde::Deserialize;
use std::io::Read;

const WHAT: &str = "a processed profile of the Firefox Profiler";
/// There are no more threads.
const MAX_THREADS: usize = 1 << 16;
/// Nanoseconds of a millisecond.
const MILLIS: f64 = 1e6;

#[derive(Deserialize)]
struct File {
    meta: Meta,
    #[serde(default)]
    libs: Vec<Lib>,
    #[serde(default)]
    threads: Vec<Thread>,
    /// Since version 56, more and more of what threads had.
    #[serde(default)]
    shared: Tables,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "preprocessedProfileVersion")]
    version: Option<Number>,
    #[serde(default)]
    extra: Vec<Section>,
}

/// Facts that the profile was given on its way.
#[derive(Deserialize)]
struct Section {
    #[serde(default)]
    label: Name,
    #[serde(default)]
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    label: Name,
    #[serde(default)]
    value: Word,
}

#[derive(Deserialize)]
struct Lib {
    #[serde(default)]
    name: Name,
    #[serde(default)]
    path: Name,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thread {
    #[serde(default)]
    name: Name,
    #[serde(default)]
    pid: Word,
    #[serde(default)]
    tid: Word,
    samples: Samples,
    string_array: Option<Vec<Name>>,
    stack_table: Option<StackTable>,
    frame_table: Option<FrameTable>,
    func_table: Option<FunctionTable>,
    resource_table: Option<ResourceTable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Samples {
    #[serde(default)]
    stack: Vec<Place>,
    time: Option<Vec<Number>>,
    time_deltas: Option<Vec<Number>>,
    weight: Option<Vec<Number>>,
    #[serde(default)]
    weight_type: Name,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tables {
    string_array: Option<Vec<Name>>,
    stack_table: Option<StackTable>,
    frame_table: Option<FrameTable>,
    func_table: Option<FunctionTable>,
    resource_table: Option<ResourceTable>,
}

#[derive(Deserialize)]
struct StackTable {
    prefix: Vec<Place>,
    frame: Vec<Place>,
}

#[derive(Deserialize)]
struct FrameTable {
    func: Vec<Place>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FunctionTable {
    name: Vec<Place>,
    #[serde(default)]
    resource: Vec<Place>,
    #[serde(default)]
    file_name: Vec<Place>,
}

#[derive(Deserialize)]
struct ResourceTable {
    #[serde(default)]
    lib: Vec<Place>,
    #[serde(default)]
    name: Vec<Place>,
}

fn broken(why: &str) -> ImportError {
    ImportError::new(format!("not {WHAT}, or a damaged one: {why}"))
}

/// Whether this is the beginning of one.
pub(super) fn begins(start: &str) -> bool {
    let has = |key: &str| start.contains(&format!("\"{key}\""));
    start.trim_start().starts_with('{')
        && (has("preprocessedProfileVersion") || has("meta") && has("interval") && has("startTime"))
}

pub(super) fn read(from: impl Read) -> Result<Import, ImportError> {
    let bytes = json::all(from)?;
    let file: File = json::parse(&bytes, WHAT)?;
    if file.meta.version.is_none() {
        return Err(broken(
            "it is one as the browser keeps it; profiler.firefox.com saves it as a processed one",
        ));
    }
    if file.threads.len() > MAX_THREADS {
        return Err(broken("more than 65536 threads"));
    }
    let own_events = own_events(&file.meta);
    let mut import = Import::new();
    // Those of threads without tables of their own, made once.
    let mut of_all: Option<Stacks<'_>> = None;
    for (number, thread) in (1..).zip(&file.threads) {
        let samples = &thread.samples;
        if samples.stack.is_empty() {
            continue;
        }
        let is_time = &*samples.weight_type.0 == "tracing-ms";
        let ((tid, at), (pid, _)) = (thread.tid.task(), thread.pid.task());
        let (event, name) = match own_events.get(at) {
            // Of further events, threads are called so.
            Some(event) => {
                let end = format!(" ({event})");
                let name = &*thread.name.0;
                (event.as_str(), name.strip_suffix(end.as_str()).filter(|_| at > 0).unwrap_or(name))
            }
            None => (event_of(&samples.weight_type.0), &*thread.name.0),
        };
        let tid = if tid == 0 { number } else { tid };
        let pid = if pid == 0 { tid } else { pid };
        let (event, name) = (import.event(event), import.text(name)?);
        let mut own = None;
        let place = if thread.has_tables() { &mut own } else { &mut of_all };
        let stacks = match place {
            Some(stacks) => stacks,
            None => place.insert(Stacks::new(&file, thread, &mut import)?),
        };
        let mut times = Times::of(samples)?;
        if samples.weight.as_ref().is_some_and(|weights| weights.len() != samples.stack.len()) {
            return Err(broken("not as many weights as samples"));
        }
        for (at, stack) in samples.stack.iter().enumerate() {
            let stack = stacks.get(stack.get(), &mut import)?;
            let weight = match &samples.weight {
                Some(weights) => weights[at].times(if is_time { MILLIS } else { 1.0 }).ok_or_else(|| {
                    ImportError::new(
                        "a weight below zero, or far too much: differences of profiles are compared by diff",
                    )
                })?,
                None => 1,
            };
            let time_ns = times.next(at);
            import.add(Sample {
                event,
                thread: name,
                pid,
                tid,
                cpu: None,
                time_ns,
                stack,
                count: 1,
                weight,
            })?;
        }
    }
    Ok(import)
}

impl Thread {
    fn has_tables(&self) -> bool {
        self.string_array.is_some()
            || self.stack_table.is_some()
            || self.frame_table.is_some()
            || self.func_table.is_some()
            || self.resource_table.is_some()
    }
}

/// The events that perfuse tells of what it wrote.
fn own_events(meta: &Meta) -> Vec<String> {
    let sections = meta.extra.iter().filter(|section| &*section.label.0 == crate::firefox::EVENTS.0);
    let entries = sections.flat_map(|section| &section.entries);
    let events = entries.filter(|entry| &*entry.label.0 == crate::firefox::EVENTS.1);
    let name = |entry: &Entry| match &entry.value {
        Word::Text(name) => Some(name.to_string()),
        _ => None,
    };
    events.filter_map(name).collect()
}

/// The event of a type of weights.
fn event_of(kind: &str) -> &'static str {
    match kind {
        "tracing-ms" => "wall",
        "bytes" => "bytes",
        _ => "samples",
    }
}

/// The times of a thread's samples, or of the steps between them.
struct Times<'f> {
    column: Option<(&'f [Number], bool)>,
    now: f64,
}

impl<'f> Times<'f> {
    fn of(samples: &'f Samples) -> Result<Self, ImportError> {
        let column = match (&samples.time, &samples.time_deltas) {
            (Some(times), _) => Some((times.as_slice(), false)),
            (None, Some(steps)) => Some((steps.as_slice(), true)),
            (None, None) => None,
        };
        match column {
            Some((column, _)) if column.len() != samples.stack.len() => {
                Err(broken("not as many times as samples"))
            }
            _ => Ok(Times { column, now: 0.0 }),
        }
    }

    /// That of the next sample; none where it is below zero.
    fn next(&mut self, at: usize) -> Option<u64> {
        let (column, is_steps) = self.column?;
        if !is_steps {
            return column[at].times(MILLIS);
        }
        self.now += match column[at] {
            Number::Whole(step) => step as f64,
            Number::Other(step) => step,
        };
        Number::Other(self.now).times(MILLIS)
    }
}

/// The stacks of a thread, each of which is put together once.
struct Stacks<'f> {
    table: &'f StackTable,
    /// The function of each frame.
    functions: Vec<u32>,
    numbers: Vec<Option<u32>>,
    stack: Vec<u32>,
}

impl<'f> Stacks<'f> {
    fn new(file: &'f File, thread: &'f Thread, import: &mut Import) -> Result<Self, ImportError> {
        let shared = &file.shared;
        let strings = thread.string_array.as_ref().or(shared.string_array.as_ref());
        let table = thread.stack_table.as_ref().or(shared.stack_table.as_ref());
        let frames = thread.frame_table.as_ref().or(shared.frame_table.as_ref());
        let funcs = thread.func_table.as_ref().or(shared.func_table.as_ref());
        let resources = thread.resource_table.as_ref().or(shared.resource_table.as_ref());
        let (Some(strings), Some(table), Some(frames), Some(funcs)) = (strings, table, frames, funcs) else {
            return Err(broken("a thread without stacks, frames, functions or texts"));
        };
        if table.prefix.len() != table.frame.len() {
            return Err(broken("not as many frames as stacks"));
        }
        // Many threads may have a small table of their own beside large ones of all.
        import.keep(8 * (table.frame.len() + frames.func.len() + funcs.name.len()))?;
        let text = |place: Option<&Place>| -> Result<Option<&str>, ImportError> {
            let Some(at) = place.and_then(|place| place.get()) else { return Ok(None) };
            let text = strings.get(at).ok_or_else(|| broken("a text that is not there"))?;
            Ok(Some(&*text.0).filter(|text| !text.is_empty()))
        };
        let lib = |at: usize| -> Result<&str, ImportError> {
            let lib = file.libs.get(at).ok_or_else(|| broken("a library that is not there"))?;
            Ok(if lib.path.0.is_empty() { &lib.name.0 } else { &lib.path.0 })
        };
        let mut of_functions = Vec::with_capacity(funcs.name.len());
        for (at, name) in funcs.name.iter().enumerate() {
            let resource = funcs.resource.get(at).and_then(|place| place.get());
            let object = match (resource, resources) {
                (Some(at), Some(resources)) => match resources.lib.get(at).and_then(|place| place.get()) {
                    Some(at) => Some(lib(at)?),
                    None => text(resources.name.get(at))?,
                },
                _ => None,
            };
            let object = match object {
                Some(object) => object,
                None => text(funcs.file_name.get(at))?.unwrap_or(""),
            };
            of_functions.push(import.function(text(Some(name))?.unwrap_or(""), object, 0)?);
        }
        let function = |place: &Place| {
            let function = place.get().and_then(|at| of_functions.get(at));
            function.copied().ok_or_else(|| broken("a function that is not there"))
        };
        let functions = frames.func.iter().map(function).collect::<Result<Vec<u32>, _>>()?;
        Ok(Stacks { table, functions, numbers: vec![None; table.frame.len()], stack: Vec::new() })
    }

    /// The number of a stack.
    fn get(&mut self, stack: Option<usize>, import: &mut Import) -> Result<u32, ImportError> {
        let Some(first) = stack else { return import.stack(&[]) };
        let missing = || broken("a stack that is not there");
        if let Some(number) = *self.numbers.get(first).ok_or_else(missing)? {
            return Ok(number);
        }
        self.stack.clear();
        let mut next = Some(first);
        while let Some(at) = next {
            let frame = self.table.frame[at].get().and_then(|frame| self.functions.get(frame));
            self.stack.push(*frame.ok_or_else(|| broken("a frame that is not there"))?);
            if self.stack.len() > super::MAX_DEPTH {
                return Err(ImportError::too_deep());
            }
            // Callers stand before their callees.
            next = self.table.prefix[at].get();
            if next.is_some_and(|around| around >= at) {
                return Err(missing());
            }
        }
        let number = import.stack(&self.stack)?;
        self.numbers[first] = Some(number);
        Ok(number)
    }
}
