//! [`Profile`]: what was measured, as tables that own all they tell, without names of functions.

use crate::keys::Key;
use crate::lookup::object_names;
use crate::source::ObjectRef;
use crate::strings::{StringId, Strings};
use crate::tables::{
    Cgroup, ChainStart, Contexts, EventSum, Given, Location, LocationId, Locations, NO_VALUE, Object,
    ObjectId, ObjectKind, SampleRow, SampleTime, StackId, Stacks, Thread, location_value, value_parts,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::ops::Range;

/// Samples of events by their stacks and keys, and all that they refer to. It needs nothing else: it can be sent to another
/// thread, [saved](Profile::save), [loaded](Profile::load) on another machine, [merged](Profile::merge) with others, and
/// compared with others. Names of functions come from [`Symbols`](crate::Symbols), when they are wanted.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub(crate) strings: Strings,
    /// The first stands for none.
    pub(crate) objects: Vec<Object>,
    pub(crate) locations: Locations,
    pub(crate) stacks: Stacks,
    pub(crate) keys: Vec<Key>,
    pub(crate) contexts: Contexts,
    pub(crate) threads: Vec<Thread>,
    pub(crate) cgroups: Vec<Cgroup>,
    pub(crate) texts: Vec<Given>,
    pub(crate) events: Vec<EventSum>,
    pub(crate) rows: Vec<SampleRow>,
    /// Empty where times were not wanted.
    pub(crate) times: Vec<SampleTime>,
}

/// The reason why two profiles are not merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeError {
    /// Their samples are told apart by different keys.
    Keys,
    /// The sum of their weights is more than 64 bits hold.
    TooMuch,
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MergeError::Keys => "the profiles tell samples apart by different keys",
            MergeError::TooMuch => "the profiles together have more than 2^64 occurrences of an event",
        })
    }
}

impl std::error::Error for MergeError {}

impl Profile {
    /// The keys that tell its samples apart, beside their stacks.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Its events, by their index.
    pub fn events(&self) -> &[EventSum] {
        &self.events
    }

    /// The name of an event; empty for one that is not there.
    pub fn event_name(&self, event: usize) -> Cow<'_, str> {
        self.events.get(event).map_or(Cow::Borrowed(""), |event| self.strings.text(event.name))
    }

    /// All samples of an event, or none if it is not there.
    pub fn event(&self, event: usize) -> EventSum {
        self.events.get(event).copied().unwrap_or_default()
    }

    /// All samples: those of the same event, stack and keys are one row.
    pub fn samples(&self) -> &[SampleRow] {
        &self.rows
    }

    /// Each sample at its time, if the profile was [made so](crate::Plan::times). They are in the order in which they came.
    pub fn sample_times(&self) -> &[SampleTime] {
        &self.times
    }

    /// The part of a row in the latency: its weight, shared between the threads that ran, in 1000ths if there is room for them.
    pub(crate) fn latency_of(&self, row: &SampleRow) -> u64 {
        let threads = self.value(row.context, Key::Parallelism).unwrap_or(1).max(1);
        match self.event(row.event as usize).weight > u64::MAX / 1000 {
            true => row.weight / threads,
            false => row.weight * 1000 / threads,
        }
    }

    /// Keeps these rows alone, with their times. Events keep the sums of all; rows have other numbers then.
    pub fn retain(&mut self, is_kept: impl Fn(&Self, &SampleRow) -> bool) {
        let is_kept: Vec<bool> = self.rows.iter().map(|row| is_kept(self, row)).collect();
        let mut next = 0;
        let number = |kept: &bool| {
            next += u32::from(*kept);
            kept.then(|| next - 1)
        };
        let numbers: Vec<Option<u32>> = is_kept.iter().map(number).collect();
        let mut kept = is_kept.iter();
        self.rows.retain(|_| kept.next() == Some(&true));
        self.times.retain_mut(|sample| match numbers[sample.row as usize] {
            Some(number) => {
                sample.row = number;
                true
            }
            None => false,
        });
    }

    /// The objects that locations are in. The first stands for none.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The path of an object.
    pub fn object_path(&self, object: ObjectId) -> Cow<'_, str> {
        self.strings.text(self.objects[object.0 as usize].path)
    }

    /// The path of an object and the name that reports show: without folders.
    pub fn object_names(&self, object: ObjectId) -> (String, String) {
        let (path, short) = object_names(&self.strings, &self.objects[object.0 as usize]);
        (path.into(), short.into())
    }

    /// An object, as sources of symbols are asked for it.
    pub fn object_ref(&self, object: ObjectId) -> ObjectRef<'_> {
        ObjectRef { strings: &self.strings, object: &self.objects[object.0 as usize] }
    }

    /// A location.
    #[inline]
    pub fn location(&self, location: LocationId) -> &Location {
        &self.locations.list[location.0 as usize]
    }

    /// How many locations there are: their numbers begin at 0.
    pub fn location_count(&self) -> usize {
        self.locations.list.len()
    }

    /// The locations of a stack, from where the sample was outwards.
    pub fn stack(&self, stack: StackId) -> impl Iterator<Item = LocationId> + '_ {
        self.stacks.get(stack).iter().rev().copied()
    }

    /// The name of the threads of a row, if the profile was made with [`Key::Comm`].
    pub fn comm(&self, row: &SampleRow) -> Option<Cow<'_, str>> {
        self.value(row.context, Key::Comm).map(|name| self.strings.text(StringId(name as u32)))
    }

    /// The thread of a row, by its number and the name that it had last, if the profile was made with [`Key::Pid`].
    pub fn thread(&self, row: &SampleRow) -> Option<(u32, Cow<'_, str>)> {
        let thread = self.threads.get(self.value(row.context, Key::Pid)? as usize)?;
        Some((thread.id, self.strings.text(thread.name)))
    }

    /// The process of a row, by its number and the name that it had last, if the profile was made with [`Key::Tgid`].
    pub fn process(&self, row: &SampleRow) -> Option<(u32, Cow<'_, str>)> {
        let process = self.threads.get(self.value(row.context, Key::Tgid)? as usize)?;
        Some((process.id, self.strings.text(process.name)))
    }

    /// The cpu of a row, if its samples told it and the profile was made with [`Key::Cpu`].
    pub fn cpu(&self, row: &SampleRow) -> Option<u32> {
        self.value(row.context, Key::Cpu).and_then(|cpu| u32::try_from(cpu).ok())
    }

    /// The value of a key of a context, as a number; what it stands for depends on the key.
    pub(crate) fn value(&self, context: u32, key: Key) -> Option<u64> {
        let at = self.keys.iter().position(|&other| other == key)?;
        self.contexts.get(context, self.keys.len()).get(at).copied()
    }

    /// The first and the last time of a sample, if times were kept.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        let times = || self.times.iter().map(|sample| sample.time_ns);
        Some((times().min()?, times().max()?))
    }

    /// The samples of a part of the time: those from its start until before its end. Without
    /// [times](crate::Plan::times) there are none. Numbers of stacks and locations stay as they are.
    #[must_use]
    pub fn between(&self, time_ns: Range<u64>) -> Self {
        self.part(Some(time_ns), |_| true)
    }

    /// The samples of some rows, or those of them in a part of the time, as [`between`](Self::between). Numbers of stacks and
    /// locations stay as they are.
    #[must_use]
    pub fn part(&self, time_ns: Option<Range<u64>>, is_wanted: impl Fn(&SampleRow) -> bool) -> Self {
        let mut rows = self.rows.clone();
        if let Some(span) = &time_ns {
            rows.iter_mut().for_each(|row| (row.weight, row.samples) = (0, 0));
            for sample in self.times.iter().filter(|sample| span.contains(&sample.time_ns)) {
                let row = &mut rows[sample.row as usize];
                (row.weight, row.samples) = (row.weight + sample.weight, row.samples + 1);
            }
        }
        let mut part = self.clone_tables();
        let mut numbers = vec![None; rows.len()];
        for event in &mut part.events {
            (event.samples, event.weight, event.chains, event.latency) = (0, 0, 0, 0);
        }
        for (row, number) in rows.iter().zip(&mut numbers) {
            if (time_ns.is_some() && row.samples == 0) || !is_wanted(row) {
                continue;
            }
            *number = Some(part.rows.len() as u32);
            part.rows.push(*row);
            let event = &mut part.events[row.event as usize];
            (event.weight, event.samples) = (event.weight + row.weight, event.samples + row.samples);
            let has_chain = self.stacks.get(row.stack).len() > 1;
            event.chains += if has_chain { row.samples } else { 0 };
        }
        let is_in = |sample: &&SampleTime| time_ns.as_ref().is_none_or(|span| span.contains(&sample.time_ns));
        let renumbered = |sample: &SampleTime| {
            let row = numbers[sample.row as usize]?;
            Some(SampleTime { row, ..*sample })
        };
        part.times = self.times.iter().filter(is_in).filter_map(renumbered).collect();
        part
    }

    /// All but the samples.
    fn clone_tables(&self) -> Self {
        Profile {
            strings: self.strings.clone(),
            objects: self.objects.clone(),
            locations: self.locations.clone(),
            stacks: self.stacks.clone(),
            keys: self.keys.clone(),
            contexts: self.contexts.clone(),
            threads: self.threads.clone(),
            cgroups: self.cgroups.clone(),
            texts: self.texts.clone(),
            events: self.events.clone(),
            rows: Vec::new(),
            times: Vec::new(),
        }
    }

    /// Leaves so many of so many parts of each weight, as older samples of a live view fade; rows that come to nothing have no samples.
    pub fn fade(&mut self, parts: u64, of: u64) {
        let left = |number: u64, up: u64| {
            (u128::from(number) * u128::from(parts) + u128::from(up)) / u128::from(of.max(1))
        };
        for event in &mut self.events {
            (event.weight, event.samples, event.latency) = (0, 0, 0);
            event.chains = left(event.chains, of - 1) as u64;
        }
        for row in &mut self.rows {
            row.weight = left(row.weight, 0) as u64;
            row.samples = if row.weight == 0 { 0 } else { left(row.samples, of - 1) as u64 };
            let event = &mut self.events[row.event as usize];
            (event.weight, event.samples) = (event.weight + row.weight, event.samples + row.samples);
        }
    }

    /// How an event's weight is spread over a span of time, in this many steps of the same length: the weight of each.
    /// `is_wanted` says which rows count. Without [times](crate::Plan::times) all is zero.
    pub fn histogram(
        &self,
        event: usize,
        span_ns: Range<u64>,
        steps: usize,
        is_wanted: impl Fn(&SampleRow) -> bool,
    ) -> Vec<u64> {
        let mut sums = vec![0u64; steps];
        let length = span_ns.end.saturating_sub(span_ns.start).max(1);
        for sample in self.times.iter().filter(|sample| span_ns.contains(&sample.time_ns)) {
            let row = &self.rows[sample.row as usize];
            if row.event as usize == event && is_wanted(row) {
                let since = u128::from(sample.time_ns - span_ns.start);
                let step = (since * steps as u128 / u128::from(length)) as usize;
                if let Some(sum) = sums.get_mut(step) {
                    *sum += sample.weight;
                }
            }
        }
        sums
    }

    /// Adds the samples of another profile. Events of the same name become one; an event without a name is that of
    /// the same index.
    pub fn merge(&mut self, other: &Profile) -> Result<(), MergeError> {
        if self.events.is_empty() && self.rows.is_empty() {
            *self = other.clone();
            return Ok(());
        }
        if self.keys != other.keys {
            return Err(MergeError::Keys);
        }
        let mut by_name: HashMap<&[u8], &EventSum> = HashMap::new();
        for known in &self.events {
            by_name.entry(self.strings.get(known.name)).or_insert(known);
        }
        for (at, sum) in other.events.iter().enumerate() {
            let name = other.strings.get(sum.name);
            let known = match name.is_empty() {
                true => self.events.get(at),
                false => by_name.get(name).copied(),
            };
            known.map_or(Some(0), |known| known.weight.checked_add(sum.weight)).ok_or(MergeError::TooMuch)?;
        }
        self.stacks.open();
        let mut ids = Merging::new(self, other);
        let events: Vec<usize> = (0..other.events.len()).map(|event| ids.event(event)).collect();
        for (&event, sum) in events.iter().zip(&other.events) {
            let all = &mut ids.to.events[event];
            all.weight = all.weight.saturating_add(sum.weight);
            all.samples = all.samples.saturating_add(sum.samples);
            all.chains = all.chains.saturating_add(sum.chains);
            all.latency = all.latency.saturating_add(sum.latency);
        }
        let rows: Vec<u32> =
            other.rows.iter().map(|row| ids.row(row, events[row.event as usize] as u32)).collect();
        self.times.extend(
            other.times.iter().map(|sample| SampleTime { row: rows[sample.row as usize], ..*sample }),
        );
        Ok(())
    }
}

/// An object without what is not the same in all recordings: where it comes, and the process that had its file mapped first.
fn alike(object: &Object) -> Object {
    let seen_by = object.seen_by.filter(|_| object.build_id.is_none());
    Object { order: 0, pid: if object.by_address { object.pid } else { 0 }, seen_by, ..*object }
}

/// The things of a list by their numbers, to find them again.
struct Numbers<T>(HashMap<T, usize>);

impl<T: Copy + Eq + Hash> Numbers<T> {
    fn new(list: impl Iterator<Item = T>) -> Self {
        let mut numbers = HashMap::new();
        for (number, thing) in list.enumerate() {
            numbers.entry(thing).or_insert(number);
        }
        Numbers(numbers)
    }

    /// The number of a thing, which is put into the list if it is not there.
    fn of(&mut self, list: &mut Vec<T>, thing: T) -> u64 {
        *self.0.entry(thing).or_insert_with(|| {
            list.push(thing);
            list.len() - 1
        }) as u64
    }
}

/// Numbers of one profile as numbers of another.
struct Merging<'m> {
    to: &'m mut Profile,
    from: &'m Profile,
    objects: Vec<Option<ObjectId>>,
    locations: Vec<Option<LocationId>>,
    stacks: Vec<Option<StackId>>,
    contexts: Vec<Option<u32>>,
    known_objects: HashMap<Object, ObjectId>,
    /// The first event of each name.
    events: HashMap<StringId, usize>,
    threads: Numbers<Thread>,
    cgroups: Numbers<Cgroup>,
    texts: Numbers<Given>,
    /// By event, context and stack.
    rows: HashMap<(u32, u32, u32), u32>,
}

impl<'m> Merging<'m> {
    fn new(to: &'m mut Profile, from: &'m Profile) -> Self {
        Merging {
            rows: (0..).zip(&to.rows).map(|(at, row)| ((row.event, row.context, row.stack.0), at)).collect(),
            // Of those with the same name the first remains.
            events: to.events.iter().enumerate().rev().map(|(at, event)| (event.name, at)).collect(),
            known_objects: (0..).map(ObjectId).zip(&to.objects).map(|(id, of)| (alike(of), id)).collect(),
            threads: Numbers::new(to.threads.iter().copied()),
            cgroups: Numbers::new(to.cgroups.iter().copied()),
            texts: Numbers::new(to.texts.iter().copied()),
            objects: vec![None; from.objects.len()],
            locations: vec![None; from.locations.list.len()],
            stacks: vec![None; from.stacks.len()],
            contexts: vec![None; from.contexts.len() as usize],
            to,
            from,
        }
    }

    fn string(&mut self, id: StringId) -> StringId {
        self.to.strings.id(self.from.strings.get(id))
    }

    fn event(&mut self, event: usize) -> usize {
        let name = self.string(self.from.events[event].name);
        let is_named = name != StringId::default();
        let known = self.events.get(&name).copied().filter(|_| is_named);
        let place = known.unwrap_or(if is_named { self.to.events.len() } else { event });
        while self.to.events.len() <= place {
            self.to.events.push(EventSum { name, ..EventSum::default() });
        }
        self.events.entry(name).or_insert(place);
        place
    }

    fn object(&mut self, id: ObjectId) -> ObjectId {
        if let Some(known) = self.objects[id.0 as usize] {
            return known;
        }
        let of = self.from.objects[id.0 as usize];
        let kind = match of.kind {
            ObjectKind::Kernel(symbol, address) => ObjectKind::Kernel(self.string(symbol), address),
            kind => kind,
        };
        let object = Object { path: self.string(of.path), kind, ..of };
        let next = ObjectId(self.to.objects.len() as u32);
        let new = *self.known_objects.entry(alike(&object)).or_insert(next);
        if new == next {
            self.to.objects.push(object);
        }
        self.objects[id.0 as usize] = Some(new);
        new
    }

    fn location(&mut self, id: LocationId) -> LocationId {
        if let Some(known) = self.locations[id.0 as usize] {
            return known;
        }
        let of = *self.from.location(id);
        let object = self.object(of.object);
        let chain = match of.chain {
            ChainStart::At(first) => ChainStart::At(self.location(first)),
            other => other,
        };
        let new = self.to.locations.id(Location { object, chain, ..of });
        self.locations[id.0 as usize] = Some(new);
        new
    }

    fn stack(&mut self, id: StackId) -> StackId {
        if let Some(known) = self.stacks[id.0 as usize] {
            return known;
        }
        let from = self.from;
        let locations: Vec<LocationId> = from.stacks.get(id).iter().map(|&at| self.location(at)).collect();
        let new = self.to.stacks.id(&locations);
        self.stacks[id.0 as usize] = Some(new);
        new
    }

    fn context(&mut self, id: u32) -> u32 {
        if let Some(known) = self.contexts[id as usize] {
            return known;
        }
        let from = self.from;
        let width = from.keys.len();
        let values: Vec<u64> = from
            .keys
            .iter()
            .zip(from.contexts.get(id, width))
            .map(|(&key, &value)| self.value(key, value))
            .collect();
        let new = self.to.contexts.id(&values);
        self.contexts[id as usize] = Some(new);
        new
    }

    /// The value of a key as one of the other profile.
    fn value(&mut self, key: Key, value: u64) -> u64 {
        let from = self.from;
        match key {
            Key::Comm => self.string(StringId(value as u32)).0.into(),
            Key::Pid | Key::Tgid => {
                let of = from.threads[value as usize];
                let thread = Thread { name: self.string(of.name), ..of };
                self.threads.of(&mut self.to.threads, thread)
            }
            Key::Cgroup => {
                let of = from.cgroups[value as usize];
                let cgroup = Cgroup { path: of.path.map(|path| self.string(path)), ..of };
                self.cgroups.of(&mut self.to.cgroups, cgroup)
            }
            Key::Given(_) => {
                // A sample may be without a text.
                let of = from.texts.get(value as usize).copied().unwrap_or_default();
                let text = Given { text: self.string(of.text), order: self.string(of.order) };
                self.texts.of(&mut self.to.texts, text)
            }
            key if key.is_location() && value != NO_VALUE => {
                let (location, letter) = value_parts(value);
                location_value(self.location(location), letter)
            }
            _ => value,
        }
    }

    fn row(&mut self, row: &SampleRow, event: u32) -> u32 {
        let (context, stack) = (self.context(row.context), self.stack(row.stack));
        let row = SampleRow { event, context, stack, ..*row };
        let next = self.to.rows.len() as u32;
        let at = *self.rows.entry((event, context, stack.0)).or_insert(next);
        match self.to.rows.get_mut(at as usize) {
            // A row of an event weighs no more than all of it, which was added up.
            Some(known) => {
                known.weight = known.weight.saturating_add(row.weight);
                known.samples = known.samples.saturating_add(row.samples);
            }
            None => self.to.rows.push(row),
        }
        at
    }
}

#[cfg(test)]
impl Profile {
    /// With this many locations and one event, and no samples.
    pub(crate) fn numbered(locations: u32) -> Self {
        let mut profile = Profile::default();
        let level = perfuse_data::session::Level::User;
        for ip in (0..locations).map(u64::from) {
            let object = ObjectId(0);
            profile.locations.id(Location {
                object,
                level,
                ip,
                address: ip,
                mapped: 0,
                time: u64::MAX,
                chain: ChainStart::Here,
            });
        }
        profile.contexts.id(&[]);
        profile.events.push(EventSum::default());
        profile
    }

    /// Adds a sample by the numbers of its locations, the outermost caller first.
    pub(crate) fn add_stack(&mut self, locations: &[u32], weight: u64) {
        self.add_stack_at(locations, locations[locations.len() - 1], weight);
    }

    /// The same for a sample that was at a place of its own.
    pub(crate) fn add_stack_at(&mut self, locations: &[u32], place: u32, weight: u64) {
        let mut locations: Vec<LocationId> = locations.iter().copied().map(LocationId).collect();
        if let Some(first) = locations.last_mut().filter(|first| first.0 != place) {
            let of = Location { chain: ChainStart::At(*first), ..*self.location(LocationId(place)) };
            *first = self.locations.id(of);
        }
        let stack = self.stacks.id(&locations);
        let known = self.rows.iter().position(|row| row.stack == stack);
        let row = known.unwrap_or(self.rows.len());
        if row == self.rows.len() {
            self.rows.push(SampleRow { event: 0, context: 0, stack, thread: 0, weight: 0, samples: 0 });
        }
        (self.rows[row].weight, self.rows[row].samples) =
            (self.rows[row].weight + weight, self.rows[row].samples + 1);
        (self.events[0].weight, self.events[0].samples) =
            (self.events[0].weight + weight, self.events[0].samples + 1);
    }
}
