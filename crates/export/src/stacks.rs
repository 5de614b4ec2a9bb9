//! The callchains of a profile with their names: what all formats have in common. The order is that of the names, so that the
//! same profile becomes the same bytes wherever it is written.

use perfuse_profile::{FrameId, Frames, Key, Names, Profile, SampleRow, Symbols};
use std::collections::{BTreeMap, HashMap};

/// The unit of an event's occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Time.
    Nanoseconds,
    /// Anything that is counted.
    Count,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventInfo {
    /// Its name.
    pub name: String,
    /// The unit of its weights.
    pub unit: Unit,
}

/// A function of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Function {
    /// Its name; the object's in brackets where it has none.
    pub name: String,
    /// The path of its object, or nothing.
    pub object: String,
}

/// Samples of an event with the same callchain, in threads of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The index of the event.
    pub event: usize,
    /// The threads' name; nothing where it is not known.
    pub thread: String,
    /// The functions by their index, from the outermost caller on.
    pub stack: Vec<u32>,
    /// The occurrences of the event.
    pub weight: u64,
    /// The samples.
    pub samples: u64,
}

/// Callchains with names and weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    events: Vec<EventInfo>,
    functions: Vec<Function>,
    rows: Vec<Row>,
}

/// Makes [`Stacks`] of samples in any order.
#[derive(Clone, Debug, Default)]
pub struct StacksBuilder {
    events: Vec<EventInfo>,
    functions: HashMap<Function, u32>,
    rows: BTreeMap<(usize, String, Vec<u32>), (u64, u64)>,
}

impl Unit {
    /// That of an event, by its name.
    pub fn of(event: &str) -> Self {
        let is_clock = ["cpu-clock", "task-clock"].iter().any(|clock| event.starts_with(clock));
        // So pprof calls times.
        if is_clock || ["cpu", "wall", "delay"].contains(&event) { Unit::Nanoseconds } else { Unit::Count }
    }
}

impl Function {
    /// The function of a frame; where none is known, the frame's object stands for it.
    pub fn of(frames: &Frames, id: FrameId) -> Self {
        let frame = frames.get(id);
        let object = if frame.object == 0 { "" } else { frames.object(frame.object) };
        // So maps call what no object was told of.
        let object = if object == "[unknown]" { "" } else { object };
        let name = match &frame.symbol {
            Some(symbol) => symbol.to_string(),
            None if object.is_empty() => "[unknown]".to_owned(),
            None => format!("[{}]", frames.short_object(frame.object)),
        };
        Function { name, object: object.to_owned() }
    }
}

/// The value of a key in a row.
fn part(profile: &Profile, row: &SampleRow, key: Key) -> Option<String> {
    let task = |(id, name): (u32, std::borrow::Cow<'_, str>)| format!("{name} {id}");
    match key {
        Key::Comm => profile.comm(row).map(Into::into),
        Key::Pid => profile.thread(row).map(task),
        Key::Tgid => profile.process(row).map(task),
        Key::Cpu => profile.cpu(row).map(|cpu| format!("cpu {cpu}")),
        _ => None,
    }
}

impl StacksBuilder {
    /// Another event; its index is their number before.
    pub fn event(&mut self, name: &str) {
        self.events.push(EventInfo { name: name.to_owned(), unit: Unit::of(name) });
    }

    /// The index of a function.
    pub fn function(&mut self, name: &str, object: &str) -> u32 {
        let next = self.functions.len() as u32;
        let function = Function { name: name.to_owned(), object: object.to_owned() };
        *self.functions.entry(function).or_insert(next)
    }

    /// Adds samples, of which the callchain's functions are given from the outermost caller on.
    pub fn add(&mut self, event: usize, thread: &str, stack: Vec<u32>, weight: u64, samples: u64) {
        let sums = self.rows.entry((event, thread.to_owned(), stack)).or_default();
        *sums = (sums.0.saturating_add(weight), sums.1.saturating_add(samples));
    }

    /// All of it.
    pub fn finish(self) -> Stacks {
        let mut functions: Vec<(Function, u32)> = self.functions.into_iter().collect();
        functions.sort_unstable();
        let mut place = vec![0; functions.len()];
        for (now, (_, before)) in (0..).zip(&functions) {
            place[*before as usize] = now;
        }
        let rows = self.rows.into_iter().map(|((event, thread, stack), (weight, samples))| {
            let stack = stack.iter().filter_map(|function| place.get(*function as usize).copied()).collect();
            Row { event, thread, stack, weight, samples }
        });
        let mut rows: Vec<Row> = rows.filter(|row| row.event < self.events.len()).collect();
        rows.sort_by(|a, b| (a.event, &a.thread, &a.stack).cmp(&(b.event, &b.thread, &b.stack)));
        let functions = functions.into_iter().map(|(function, _)| function).collect();
        Stacks { events: self.events, functions, rows }
    }
}

impl Stacks {
    /// Those of a profile, with names from a source of symbols; of its events, those with samples. Names of threads are there if the profile was made with
    /// [`Key::Comm`](perfuse_profile::Key::Comm).
    pub fn of(profile: &Profile, symbols: &dyn Symbols) -> Self {
        Stacks::by(profile, symbols, &[Key::Comm])
    }

    /// The same, told apart by these keys in place of the threads' name: name, thread, process, cpu, as far as the profile was made
    /// with them. Without any, what all threads did is one.
    pub fn by(profile: &Profile, symbols: &dyn Symbols, keys: &[Key]) -> Self {
        Stacks::of_frames(profile, &Frames::new(&Names::new(profile, symbols), false), keys)
    }

    /// The same with the frames of the profile, which have names already.
    pub fn of_frames(profile: &Profile, frames: &Frames, keys: &[Key]) -> Self {
        let mut made = StacksBuilder::default();
        // Events without samples, such as the one that brings mappings, say nothing here.
        let mut events = vec![0; profile.events().len()];
        for (event, _) in profile.events().iter().enumerate().filter(|(_, sum)| sum.samples > 0) {
            events[event] = made.events.len();
            made.event(&profile.event_name(event));
        }
        let mut numbers: Vec<Option<u32>> = vec![None; frames.len()];
        for row in profile.samples().iter().filter(|row| row.samples > 0) {
            let mut stack = Vec::new();
            for location in profile.stack(row.stack) {
                for id in frames.at(location) {
                    let number = &mut numbers[id.0 as usize];
                    stack.push(*number.get_or_insert_with(|| {
                        let Function { name, object } = Function::of(frames, *id);
                        made.function(&name, &object)
                    }));
                }
            }
            stack.reverse();
            let parts: Vec<String> = keys.iter().filter_map(|key| part(profile, row, *key)).collect();
            let thread = parts.join(", ");
            made.add(events[row.event as usize], &thread, stack, row.weight, row.samples);
        }
        made.finish()
    }

    /// The events.
    pub fn events(&self) -> &[EventInfo] {
        &self.events
    }

    /// The functions, by name.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The callchains, by event, thread and functions.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The callchains of an event, which lie together: so to look at those of each event is to look at all once.
    pub fn rows_of(&self, event: usize) -> &[Row] {
        let from = self.rows.partition_point(|row| row.event < event);
        let len = self.rows[from..].partition_point(|row| row.event == event);
        &self.rows[from..from + len]
    }

    /// The weights of an event together.
    pub fn total(&self, event: usize) -> u64 {
        self.rows_of(event).iter().fold(0, |total, row| total.saturating_add(row.weight))
    }
}
