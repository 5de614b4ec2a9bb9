//! A profile as bytes, and back: eight bytes that name the format and its version, then the tables in
//! [postcard](https://postcard.jamesmunns.com/wire-format)'s encoding, one column after the other. Numbers that name rows
//! of other tables are checked when it is read, so that views can rely on them.

use crate::keys::Key;
use crate::profile::Profile;
use crate::strings::{StringId, Strings};
use crate::tables::{
    Cgroup, ChainStart, Contexts, EventSum, Given, Location, LocationId, Locations, NO_VALUE, Object,
    ObjectId, ObjectKind, SampleRow, SampleTime, StackId, Stacks, Thread, value_parts,
};
use perfuse_data::session::Level;
use perfuse_symbols::BuildId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Write};

/// The name of the format, and its version.
const MAGIC: &[u8; 8] = b"PERFUSEP";
const VERSION: u32 = 2;

/// Locations of a stack at most: as many as a callchain in a record has room for.
const MOST_DEEP: usize = u16::MAX as usize;

/// Locations of all stacks at most, besides so many for each byte of the profile. Stacks share their callers when they are saved: a
/// few bytes tell of one as deep as it may be, but those of real profiles are no deeper than the second number on average.
const MOST_LOCATIONS: usize = 1 << 26;
const LOCATIONS_PER_BYTE: usize = 128;

/// A profile has so many keys at most; it is compared by each.
const MOST_KEYS: usize = 4096;

/// The reason why bytes are no profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// They do not begin as a profile does.
    NotAProfile,
    /// They are of another version of the format.
    Version(u32),
    /// They end too early, or are no tables.
    Damaged,
    /// The tables do not fit each other: a number names nothing.
    Inconsistent(&'static str),
    /// A table is far larger than the bytes that tell of it.
    TooLarge(&'static str),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::NotAProfile => f.write_str("not a saved profile"),
            LoadError::Version(version) => {
                write!(
                    f,
                    "the profile was saved in version {version} of the format; this program reads {VERSION}"
                )
            }
            LoadError::Damaged => f.write_str("the saved profile is damaged or cut short"),
            LoadError::TooLarge(table) => {
                write!(f, "the saved profile has more {table} than a profile of its size should")
            }
            LoadError::Inconsistent(table) => {
                write!(f, "the saved profile is damaged: its {table} name what is not there")
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// A string, a location, an object by their numbers.
#[derive(Default, Serialize, Deserialize)]
struct Saved {
    /// Bytes of all strings, and where each ends.
    strings: Vec<Vec<u8>>,
    objects: Vec<SavedObject>,
    locations: Vec<SavedLocation>,
    /// Of each stack, how many locations it has in common with the one before, and the others.
    stacks: Vec<(u32, Vec<u32>)>,
    /// Names, and the numbers of those that were given.
    keys: Vec<(String, u16)>,
    contexts: Vec<u64>,
    context_count: u32,
    threads: Vec<(u32, u32)>,
    cgroups: Vec<(u64, Option<u32>)>,
    texts: Vec<(u32, u32)>,
    events: Vec<(u32, u64, u64, u64)>,
    rows: Vec<SavedRow>,
    times: Vec<(u64, u64, u32)>,
}

#[derive(Serialize, Deserialize)]
struct SavedObject {
    path: u32,
    /// Which [`ObjectKind`], and what belongs to it.
    kind: (u8, u32, u64),
    build_id: Vec<u8>,
    pid: u32,
    by_address: bool,
    is_made: bool,
    order: u32,
}

#[derive(Serialize, Deserialize)]
struct SavedLocation {
    object: u32,
    level: u8,
    ip: u64,
    address: u64,
    mapped: u64,
    /// The complement of its time, so that no time is one byte.
    not_time: u64,
}

/// Behind the rest since version 2: locations whose callchain begins elsewhere, by number, and the number of its start.
type Chained = Vec<(u32, u64)>;

#[derive(Serialize, Deserialize)]
struct SavedRow {
    event: u32,
    context: u32,
    stack: u32,
    thread: u32,
    weight: u64,
    samples: u64,
}

const LEVELS: [Level; 6] =
    [Level::Kernel, Level::User, Level::GuestKernel, Level::GuestUser, Level::Hypervisor, Level::Unknown];

impl Profile {
    /// Writes the profile, so that [`load`](Self::load) reads it again, on this machine or another.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn save(&self, out: impl Write) -> io::Result<()> {
        self.save_with(&self.times, out)
    }

    /// The same with these of the times.
    pub(crate) fn save_with(&self, times: &[SampleTime], mut out: impl Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        postcard::to_io(&self.saved(times), &mut out).map_err(io::Error::other)?;
        let starts = (0..).zip(&self.locations.list).map(|(at, of)| (at, of.chain.number()));
        let chained: Chained = starts.filter(|&(_, start)| start != 0).collect();
        postcard::to_io(&chained, &mut out).map_err(io::Error::other)?;
        out.flush()
    }

    fn saved(&self, times: &[SampleTime]) -> Saved {
        let object = |object: &Object| SavedObject {
            path: object.path.0,
            kind: match object.kind {
                ObjectKind::Unknown => (0, 0, 0),
                ObjectKind::User => (1, 0, 0),
                ObjectKind::Kernel(symbol, address) => (2, symbol.0, address),
                ObjectKind::Module(base) => (3, 0, base),
                ObjectKind::Function => (4, 0, 0),
            },
            build_id: object.build_id.map_or_else(Vec::new, |id| id.as_bytes().to_vec()),
            pid: object.pid,
            by_address: object.by_address,
            is_made: object.is_made,
            order: object.order,
        };
        let location = |of: &Location| SavedLocation {
            object: of.object.0,
            level: LEVELS.iter().position(|&level| level == of.level).unwrap_or(LEVELS.len()) as u8,
            ip: of.ip,
            address: of.address,
            mapped: of.mapped,
            not_time: !of.time,
        };
        let row = |&SampleRow { event, context, stack, thread, weight, samples }: &SampleRow| SavedRow {
            event,
            context,
            stack: stack.0,
            thread,
            weight,
            samples,
        };
        let mut last: &[LocationId] = &[];
        let stack = |stack| {
            let common = std::mem::replace(&mut last, stack).iter().zip(stack);
            let common = common.take_while(|(one, other)| one == other).count();
            (common as u32, stack[common..].iter().map(|location| location.0).collect())
        };
        let key = |key: &Key| match key {
            Key::Given(number) => (String::new(), *number),
            key => (key.name().to_owned(), 0),
        };
        Saved {
            strings: self.strings.iter().map(<[u8]>::to_vec).collect(),
            objects: self.objects.iter().map(object).collect(),
            locations: self.locations.list.iter().map(location).collect(),
            stacks: self.stacks.iter().map(stack).collect(),
            keys: self.keys.iter().map(key).collect(),
            contexts: self.contexts.values().to_vec(),
            context_count: self.contexts.len(),
            threads: self.threads.iter().map(|thread| (thread.id, thread.name.0)).collect(),
            cgroups: self.cgroups.iter().map(|of| (of.id, of.path.map(|path| path.0))).collect(),
            texts: self.texts.iter().map(|given| (given.text.0, given.order.0)).collect(),
            events: self.events.iter().map(|of| (of.name.0, of.samples, of.weight, of.chains)).collect(),
            rows: self.rows.iter().map(row).collect(),
            times: times.iter().map(|of| (of.time_ns, of.weight, of.row)).collect(),
        }
    }

    /// Reads a profile that was [saved](Self::save). The bytes may come from strangers: memory grows with their number, and
    /// all that they refer to is checked.
    ///
    /// # Errors
    ///
    /// [`LoadError`]: they are no profile, of another version, or damaged.
    pub fn load(bytes: &[u8]) -> Result<Self, LoadError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(LoadError::NotAProfile)?;
        let (version, rest) = rest.split_first_chunk().ok_or(LoadError::Damaged)?;
        let (saved, end): (Saved, _) = match u32::from_le_bytes(*version) {
            1 | VERSION => postcard::take_from_bytes(rest).map_err(|_| LoadError::Damaged)?,
            other => return Err(LoadError::Version(other)),
        };
        let chained: Chained = match u32::from_le_bytes(*version) {
            1 => Vec::new(),
            _ => postcard::from_bytes(end).map_err(|_| LoadError::Damaged)?,
        };
        let most = rest.len().saturating_mul(LOCATIONS_PER_BYTE).saturating_add(MOST_LOCATIONS);
        saved.profile(&chained, most)
    }
}

/// Fails with the name of a table unless a condition holds.
fn check(holds: bool, table: &'static str) -> Result<(), LoadError> {
    if holds { Ok(()) } else { Err(LoadError::Inconsistent(table)) }
}

impl Saved {
    /// The profile, unless its stacks have more locations than that.
    fn profile(self, chained: &[(u32, u64)], most_locations: usize) -> Result<Profile, LoadError> {
        let mut strings = Strings::default();
        for (number, string) in (0..).zip(&self.strings) {
            check(strings.id(string) == StringId(number), "strings")?;
        }
        let string = |number: u32, table| {
            check((number as usize) < self.strings.len(), table)?;
            Ok(StringId(number))
        };
        let object = |of: &SavedObject| {
            let kind = match of.kind {
                (0, ..) => ObjectKind::Unknown,
                (1, ..) => ObjectKind::User,
                (2, symbol, address) => ObjectKind::Kernel(string(symbol, "objects")?, address),
                (3, _, base) => ObjectKind::Module(base),
                (4, ..) => ObjectKind::Function,
                _ => return Err(LoadError::Inconsistent("objects")),
            };
            let SavedObject { pid, by_address, is_made, order, .. } = *of;
            let (path, build_id) = (string(of.path, "objects")?, BuildId::new(&of.build_id));
            Ok(Object { path, kind, build_id, pid, by_address, is_made, seen_by: None, order })
        };
        let objects: Vec<Object> = self.objects.iter().map(object).collect::<Result<_, _>>()?;
        let mut locations = Locations::default();
        let mut chained = chained.iter().peekable();
        for (number, of) in (0..).zip(&self.locations) {
            check((of.object as usize) < objects.len(), "locations")?;
            let level = LEVELS.get(usize::from(of.level)).ok_or(LoadError::Inconsistent("locations"))?;
            let start = chained.next_if(|&&(at, _)| at == number).map_or(0, |&(_, start)| start);
            let chain = ChainStart::numbered(start).ok_or(LoadError::Inconsistent("locations"))?;
            // It is a location before this one, so that none leads to itself.
            let leads_on = matches!(chain, ChainStart::At(first) if first.0 >= number);
            check(!leads_on, "locations")?;
            let &SavedLocation { ip, address, mapped, not_time, .. } = of;
            let (object, level, time) = (ObjectId(of.object), *level, !not_time);
            let id = locations.id(Location { object, level, ip, address, mapped, time, chain });
            check(id == LocationId(number), "locations")?;
        }
        check(chained.next().is_none(), "locations")?;
        let is_location = |number: u32| (number as usize) < self.locations.len();
        let mut stacks = Stacks::default();
        let mut stack: Vec<LocationId> = Vec::new();
        for (number, (common, others)) in (0..).zip(&self.stacks) {
            check(*common as usize <= stack.len() && others.iter().all(|&at| is_location(at)), "stacks")?;
            stack.truncate(*common as usize);
            stack.extend(others.iter().copied().map(LocationId));
            check(!stack.is_empty() && stack.len() <= MOST_DEEP, "stacks")?;
            check(stacks.id(&stack) == StackId(number), "stacks")?;
            if stacks.location_count() > most_locations {
                return Err(LoadError::TooLarge("locations of stacks"));
            }
        }
        let keys = self.keys()?;
        for (at, key) in keys.iter().enumerate() {
            let has_repetition = keys[..at].contains(key);
            check(!has_repetition && !key.is_of_stack(), "keys")?;
        }
        let contexts = self.contexts(&keys)?;
        let mut events: Vec<EventSum> = Vec::with_capacity(self.events.len());
        for &(name, samples, weight, chains) in &self.events {
            events.push(EventSum { name: string(name, "events")?, samples, weight, chains, latency: 0 });
        }
        let rows = self.rows(&events)?;
        check(self.times.iter().all(|of| (of.2 as usize) < rows.len()), "times")?;
        let pair = |&(id, name): &(u32, u32)| Ok(Thread { id, name: string(name, "threads")? });
        let threads = self.threads.iter().map(pair).collect::<Result<_, _>>()?;
        let cgroup = |&(id, path): &(u64, Option<u32>)| {
            let path = path.map(|path| string(path, "cgroups")).transpose()?;
            Ok(Cgroup { id, path })
        };
        let cgroups = self.cgroups.iter().map(cgroup).collect::<Result<_, _>>()?;
        let text = |&(text, order): &(u32, u32)| {
            Ok(Given { text: string(text, "texts")?, order: string(order, "texts")? })
        };
        let texts = self.texts.iter().map(text).collect::<Result<_, _>>()?;
        let time = |&(time_ns, weight, row): &(u64, u64, u32)| SampleTime { time_ns, weight, row };
        let times: Vec<SampleTime> = self.times.iter().map(time).collect();
        let weight = times.iter().try_fold(0u64, |sum, of| sum.checked_add(of.weight));
        check(weight.is_some(), "times")?;
        Ok(Profile {
            strings,
            objects,
            locations,
            stacks,
            keys,
            contexts,
            threads,
            cgroups,
            texts,
            events,
            rows,
            times,
        })
    }

    fn keys(&self) -> Result<Vec<Key>, LoadError> {
        if self.keys.len() > MOST_KEYS {
            return Err(LoadError::TooLarge("keys"));
        }
        let key = |(name, number): &(String, u16)| match name.as_str() {
            "" => Some(Key::Given(*number)),
            name => Key::named(name),
        };
        self.keys.iter().map(|saved| key(saved).ok_or(LoadError::Inconsistent("keys"))).collect()
    }

    fn contexts(&self, keys: &[Key]) -> Result<Contexts, LoadError> {
        let count = self.context_count as usize;
        check(count.checked_mul(keys.len()) == Some(self.contexts.len()), "contexts")?;
        check(!keys.is_empty() || count <= 1, "contexts")?;
        let is_one_of = |value: u64, count: usize| value < count as u64;
        let mut contexts = Contexts::default();
        for at in 0..count {
            let values = &self.contexts[at * keys.len()..][..keys.len()];
            for (&key, &value) in keys.iter().zip(values) {
                let fits = match key {
                    Key::Comm => is_one_of(value, self.strings.len()),
                    Key::Pid | Key::Tgid => is_one_of(value, self.threads.len()),
                    Key::Cgroup => is_one_of(value, self.cgroups.len()),
                    // A sample may be without a text.
                    Key::Given(_) => true,
                    key if key.is_location() => {
                        value == NO_VALUE || is_one_of(value_parts(value).0.0.into(), self.locations.len())
                    }
                    _ => true,
                };
                check(fits, "contexts")?;
            }
            check(contexts.id(values) as usize == at, "contexts")?;
        }
        Ok(contexts)
    }

    /// The samples, of which those of an event must not be more than all of it.
    fn rows(&self, events: &[EventSum]) -> Result<Vec<SampleRow>, LoadError> {
        let mut left: Vec<(u64, u64)> = events.iter().map(|event| (event.weight, event.samples)).collect();
        let row = |of: &SavedRow| {
            let &SavedRow { event, context, stack, thread, weight, samples } = of;
            check((stack as usize) < self.stacks.len() && context < self.context_count, "samples")?;
            let left = left.get_mut(event as usize).ok_or(LoadError::Inconsistent("samples"))?;
            let less = left.0.checked_sub(weight).zip(left.1.checked_sub(samples));
            *left = less.ok_or(LoadError::Inconsistent("samples"))?;
            Ok(SampleRow { event, context, stack: StackId(stack), thread, weight, samples })
        };
        self.rows.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One event with this key and value, and a sample in each of `stacks` stacks; each is a hundred locations deeper than the one before.
    fn saved(key: (&str, u16), value: u64, stacks: u32) -> Saved {
        let object = SavedObject {
            path: 0,
            kind: (0, 0, 0),
            build_id: Vec::new(),
            pid: 0,
            by_address: false,
            is_made: false,
            order: 0,
        };
        let location = SavedLocation { object: 0, level: 1, ip: 1, address: 1, mapped: 0, not_time: 0 };
        let row = |stack| SavedRow { event: 0, context: 0, stack, thread: 0, weight: 1, samples: 1 };
        Saved {
            strings: vec![Vec::new()],
            objects: vec![object],
            locations: vec![location],
            stacks: (0..stacks).map(|stack| (stack * 100, vec![0; 100])).collect(),
            keys: vec![(key.0.to_owned(), key.1)],
            contexts: vec![value],
            context_count: 1,
            events: vec![(0, stacks.into(), stacks.into(), 0)],
            rows: (0..stacks).map(row).collect(),
            ..Saved::default()
        }
    }

    #[test]
    fn a_location_begins_a_callchain_at_one_before_it() {
        let with = |pairs: &[(u32, u64)]| {
            let mut saved = saved(("cpu", 0), 0, 1);
            let location = |ip| SavedLocation {
                ip,
                ..SavedLocation { object: 0, level: 1, ip, address: 1, mapped: 0, not_time: 0 }
            };
            saved.locations = [1, 2, 3].map(location).into();
            saved.profile(pairs, 1000).map(|profile| profile.location(LocationId(2)).chain)
        };
        assert_eq!(with(&[(2, 2)]).unwrap(), ChainStart::At(LocationId(0)));
        assert_eq!(with(&[(2, 1)]).unwrap(), ChainStart::Nowhere);
        assert_eq!(with(&[]).unwrap(), ChainStart::Here);
        for broken in [&[(2, 4)][..], &[(2, u64::MAX)], &[(3, 2)], &[(0, 3)], &[(2, 2), (1, 2)]] {
            assert!(with(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn samples_without_a_text_are_merged() {
        let profile = saved(("", 7), 5, 1).profile(&[], 100).unwrap();
        let mut merged = profile.clone();
        merged.merge(&profile).unwrap();
        assert_eq!(merged.rows.iter().map(|row| row.samples).sum::<u64>(), 2);
        assert!(merged.texts.len() <= 1);
    }

    #[test]
    fn stacks_that_share_their_callers_are_no_larger_than_they_may_be() {
        // 1 + 2 + ... + 100 times a hundred.
        let loaded = |most| {
            saved(("cpu", 0), 0, 100).profile(&[], most).map(|profile| profile.stacks.location_count())
        };
        assert_eq!(
            (loaded(505_000), loaded(504_999)),
            (Ok(505_000), Err(LoadError::TooLarge("locations of stacks")))
        );
    }

    #[test]
    fn events_of_many_names_are_merged_one_by_one() {
        let mut many = saved(("cpu", 0), 0, 1);
        many.strings.extend((0..3000).map(|number| number.to_string().into_bytes()));
        many.events = (0..=3000).map(|name| (name, 1, 1, 0)).collect();
        let profile = many.profile(&[], 100).unwrap();
        let mut merged = profile.clone();
        merged.merge(&profile).unwrap();
        assert_eq!(merged.events.len(), 3001);
        assert!(merged.events.iter().all(|event| event.samples == 2));
    }
}
