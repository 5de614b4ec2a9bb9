//! [`Source`]: the facts of a profile that the format has tables for, by numbers that hold for all threads.

use crate::looks::is_kernel;
use crate::stacks::{Stacks, Unit};
use perfuse_profile::{Level, Location, LocationId, Names, ObjectId, Profile, SampleRow, Symbols};
use std::collections::{BTreeMap, HashMap};

/// A program, a library, the kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Lib {
    pub(super) name: String,
    pub(super) path: String,
    /// In hexadecimal digits.
    pub(super) build_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) lib: Option<u32>,
    pub(super) file: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) function: u32,
    /// As the symbols of its library count.
    pub(super) address: Option<u64>,
    /// Where the function that the code is part of starts, and its bytes, if it is no inlined one.
    pub(super) symbol: Option<(u64, u64)>,
    pub(super) inline_depth: u32,
    pub(super) line: Option<u32>,
    pub(super) is_kernel: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Since the first of all samples.
    pub(super) time_ns: u64,
    pub(super) stack: u32,
    pub(super) weight: u64,
}

/// The samples of one event in a thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    /// The place of the event among those with samples.
    event: usize,
    pub(super) pid: u32,
    tid: u32,
    pub(super) name: String,
    pub(super) process: String,
    pub(super) unit: Unit,
    pub(super) samples: Vec<Sample>,
}

/// All tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    pub(super) libs: Vec<Lib>,
    pub(super) functions: Vec<Function>,
    pub(super) frames: Vec<Frame>,
    /// Frames of each stack, the outermost caller first.
    pub(super) stacks: Vec<Vec<u32>>,
    pub(super) threads: Vec<Thread>,
    /// The names of those with samples.
    pub(super) events: Vec<String>,
    pub(super) interval_ns: u64,
}

/// Between samples whose times are not known.
const STEP_NS: u64 = 1_000_000;

impl Thread {
    /// The profiler wants one main thread in a process: tracks of further events are none.
    pub(super) fn is_main(&self) -> bool {
        self.pid == self.tid && self.event == 0
    }

    /// The number of the thread, as JSON has it; with the event's, from the second on, as no two tracks may have the same.
    pub(super) fn label(&self) -> String {
        match self.event {
            0 => self.tid.to_string(),
            event => format!("\"{}.{event}\"", self.tid),
        }
    }
}

/// Functions, each once.
#[derive(Default)]
struct Functions {
    list: Vec<Function>,
    numbers: HashMap<Function, u32>,
}

impl Functions {
    fn number(&mut self, function: Function) -> u32 {
        let next = self.list.len() as u32;
        let number = *self.numbers.entry(function.clone()).or_insert(next);
        if number == next {
            self.list.push(function);
        }
        number
    }
}

/// The name of a function that has none: its object's.
fn nameless(lib: Option<&Lib>) -> String {
    lib.map_or("[unknown]".to_owned(), |lib| format!("[{}]", lib.name))
}

impl Source {
    /// That of a profile made with the keys of process, thread and name, and with times.
    pub(crate) fn of(profile: &Profile, symbols: &dyn Symbols) -> Self {
        let names = Names::new(profile, symbols);
        names.look_up_all();
        let lib = |id: u32| {
            let (path, name) = profile.object_names(ObjectId(id));
            let build_id = profile.object_ref(ObjectId(id)).build_id().map(|id| hex(id.as_bytes()));
            Lib { name, path, build_id }
        };
        // The first object stands for none.
        let libs: Vec<Lib> = (1..profile.objects().len() as u32).map(lib).collect();
        let mut functions = Functions::default();
        let mut frames = Vec::new();
        let mut of_locations: Vec<Option<std::ops::Range<u32>>> = vec![None; profile.location_count()];
        let mut stacks = Vec::new();
        let mut stack_numbers = HashMap::new();
        let mut of_rows = Vec::new();
        for row in profile.samples() {
            let number = *stack_numbers.entry(row.stack).or_insert_with(|| {
                let mut stack: Vec<u32> = Vec::new();
                for location in profile.stack(row.stack) {
                    let range = of_locations[location.0 as usize].get_or_insert_with(|| {
                        let first = frames.len() as u32;
                        let at = (location, *profile.location(location));
                        add_frames(&names, &libs, at, &mut functions, &mut frames);
                        first..frames.len() as u32
                    });
                    stack.extend(range.clone());
                }
                stack.reverse();
                stacks.push(stack);
                stacks.len() as u32 - 1
            });
            of_rows.push(number);
        }
        let mut source = Source { libs, functions: functions.list, frames, stacks, ..Source::default() };
        source.add_threads(profile, &of_rows);
        source
    }

    fn add_threads(&mut self, profile: &Profile, stacks: &[u32]) {
        // Events without samples, such as the one that brings mappings, have no place.
        let mut places = Vec::new();
        let mut next = 0;
        for (event, sum) in profile.events().iter().enumerate() {
            places.push(next);
            next += usize::from(sum.samples > 0);
            if sum.samples > 0 {
                self.events.push(profile.event_name(event).into_owned());
            }
        }
        let rows = profile.samples();
        let mut of_rows: Vec<Option<u32>> = vec![None; rows.len()];
        let mut numbers: BTreeMap<(usize, u32, u32, String), usize> = BTreeMap::new();
        let mut threads: Vec<Thread> = Vec::new();
        let mut thread_of = |threads: &mut Vec<Thread>, row: &SampleRow| {
            let event = places[row.event as usize];
            let (tid, last_name) = profile.thread(row).unwrap_or((row.thread, "".into()));
            let (pid, process) = profile.process(row).unwrap_or((tid, last_name.clone()));
            // Before an exec a thread has another name, and runs another program.
            let name = profile.comm(row).unwrap_or(last_name).into_owned();
            *numbers.entry((event, pid, tid, name.clone())).or_insert_with(|| {
                let event_name = profile.event_name(row.event as usize);
                let name = if event == 0 { name } else { format!("{name} ({event_name})") };
                let (process, unit) = (process.into_owned(), Unit::of(&event_name));
                threads.push(Thread { event, pid, tid, name, process, unit, samples: Vec::new() });
                threads.len() - 1
            })
        };
        let (start_ns, _) = profile.span_ns().unwrap_or_default();
        for sample in profile.sample_times() {
            let row = &rows[sample.row as usize];
            let thread =
                *of_rows[sample.row as usize].get_or_insert_with(|| thread_of(&mut threads, row) as u32);
            let (time_ns, stack) = (sample.time_ns - start_ns, stacks[sample.row as usize]);
            threads[thread as usize].samples.push(Sample { time_ns, stack, weight: sample.weight });
        }
        if profile.sample_times().is_empty() {
            for (row, &stack) in rows.iter().zip(stacks).filter(|(row, _)| row.samples > 0) {
                let thread = thread_of(&mut threads, row);
                let samples = &mut threads[thread].samples;
                let time_ns = samples.len() as u64 * STEP_NS;
                samples.push(Sample { time_ns, stack, weight: row.weight });
            }
        }
        for thread in &mut threads {
            thread.samples.sort_by_key(|sample| sample.time_ns);
        }
        threads.sort_by_key(|thread| (thread.event, thread.pid, thread.tid));
        self.interval_ns = usual_step(&threads);
        self.threads = threads;
    }

    /// That of stacks alone: their threads have names, and their samples no times.
    pub(crate) fn of_stacks(stacks: &Stacks) -> Self {
        let events = stacks.events().iter().map(|event| event.name.clone()).collect();
        let mut source = Source { interval_ns: STEP_NS, events, ..Source::default() };
        let mut lib_numbers: HashMap<&str, u32> = HashMap::new();
        for (id, function) in (0..).zip(stacks.functions()) {
            let path = function.object.as_str();
            let lib = (!path.is_empty()).then(|| {
                *lib_numbers.entry(path).or_insert_with(|| {
                    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                    source.libs.push(Lib { name, path: path.to_owned(), build_id: None });
                    source.libs.len() as u32 - 1
                })
            });
            source.functions.push(Function { name: function.name.clone(), lib, file: None });
            let is_kernel = is_kernel(path);
            let frame =
                Frame { function: id, address: None, symbol: None, inline_depth: 0, line: None, is_kernel };
            source.frames.push(frame);
        }
        let names: Vec<&str> = stacks.rows().iter().map(|row| row.thread.as_str()).collect();
        let mut tids: BTreeMap<&str, u32> = names.into_iter().map(|name| (name, 0)).collect();
        (1..).zip(tids.values_mut()).for_each(|(number, tid)| *tid = number);
        for (stack, row) in (0..).zip(stacks.rows()) {
            let (event, tid) = (row.event, tids[row.thread.as_str()]);
            if source.threads.last().is_none_or(|last| (last.event, last.tid) != (event, tid)) {
                let event_name = &stacks.events()[event].name;
                let name = match event {
                    0 => row.thread.clone(),
                    _ => format!("{} ({event_name})", row.thread),
                };
                let (process, unit) = (row.thread.clone(), stacks.events()[event].unit);
                source.threads.push(Thread {
                    event,
                    pid: tid,
                    tid,
                    name,
                    process,
                    unit,
                    samples: Vec::new(),
                });
            }
            source.stacks.push(row.stack.clone());
            if let Some(thread) = source.threads.last_mut() {
                let time_ns = thread.samples.len() as u64 * STEP_NS;
                thread.samples.push(Sample { time_ns, stack, weight: row.weight });
            }
        }
        source
    }
}

/// Adds the frames of a location, the innermost of its functions first.
fn add_frames(
    names: &Names<'_>,
    libs: &[Lib],
    (id, location): (LocationId, Location),
    functions: &mut Functions,
    frames: &mut Vec<Frame>,
) {
    let Location { object, level, address, .. } = location;
    let is_known = |lib: &u32| libs.get(*lib as usize).is_some_and(|lib| lib.path != "[unknown]");
    let lib = object.0.checked_sub(1).filter(is_known);
    let is_kernel = matches!(level, Level::Kernel | Level::GuestKernel);
    let at = names.at(id);
    if at.is_empty() {
        let name = nameless(lib.and_then(|lib| libs.get(lib as usize)));
        let function = functions.number(Function { name, lib, file: None });
        let address = Some(address);
        frames.push(Frame { function, address, symbol: None, inline_depth: 0, line: None, is_kernel });
        return;
    }
    // The last is the function that the code is part of; all others were inlined into it.
    let own = at.last().map(|own| (names.function(object, own.function), own.offset));
    let address = own.map(|(own, offset)| own.start.wrapping_add(offset));
    let symbol = own.map(|(own, _)| (own.start, own.size));
    for (depth, at) in (0..at.len() as u32).rev().zip(at) {
        let named = names.function(object, at.function);
        let file = at.line.map(|(file, _)| names.file(object, file).to_owned());
        let function = functions.number(Function { name: named.name.to_string(), lib, file });
        let line = at.line.map(|(_, line)| line);
        let symbol = symbol.filter(|_| depth == 0);
        frames.push(Frame { function, address, symbol, inline_depth: depth, line, is_kernel });
    }
}

/// The middle one of the times between samples of threads.
fn usual_step(threads: &[Thread]) -> u64 {
    let steps = threads.iter().flat_map(|thread| {
        thread.samples.windows(2).map(|pair| pair[1].time_ns - pair[0].time_ns).filter(|step| *step > 0)
    });
    let mut steps: Vec<u64> = steps.collect();
    let middle = steps.len() / 2;
    match steps.is_empty() {
        true => STEP_NS,
        false => *steps.select_nth_unstable(middle).1,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
