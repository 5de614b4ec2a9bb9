//! The rows of a profile's tables: objects, locations, stacks, threads, events, samples. They tell no names of functions:
//! those come later, from [`Symbols`](crate::Symbols).

use crate::hash::FastState;
use crate::index::{Index, hash};
use crate::strings::StringId;
use perfuse_data::session::Level;
use perfuse_symbols::BuildId;
use std::hash::{BuildHasher, Hasher};

/// The number of an [`Object`] of a profile. 0 stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub u32);

/// The number of a [`Location`] of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocationId(pub u32);

/// The number of a stack of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u32);

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectKind {
    /// No object is known.
    Unknown,
    /// Something in a process: a file, the vdso, memory without a file.
    User,
    /// The kernel, with one of its symbols and the address that it had; an empty name if none was told.
    Kernel(StringId, u64),
    /// A kernel module, and where it was loaded.
    Module(u64),
    /// Code that is one function, of the object's name, such as a BPF program.
    Function,
}

/// Something that was mapped: a file, the kernel, memory with code that its process made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Object {
    /// Its path, or what the kernel shows in place of one.
    pub path: StringId,
    /// Its kind.
    pub kind: ObjectKind,
    /// Its build-id, if the recording has it.
    pub build_id: Option<BuildId>,
    /// The process that had it mapped first; of memory without a file, the process whose memory it is.
    pub pid: u32,
    /// Whether places in it are told by the address that they have in the process.
    pub by_address: bool,
    /// Whether it is code that its process made at run time.
    pub is_made: bool,
    /// The process by whose root folder its file is looked for: one that runs, and sees other files than this one does. It is
    /// not saved.
    pub seen_by: Option<u32>,
    /// Its place among the objects that the recording tells of.
    pub order: u32,
}

/// A place in code or data: an object and an address, without a name. It stands for a whole function if the profile was made
/// [so](crate::Plan::by_function).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location {
    /// The object; 0 where nothing was mapped.
    pub object: ObjectId,
    /// The level of its code: kernel, user, or another.
    pub level: Level,
    /// The address in the process.
    pub ip: u64,
    /// The address as the object counts, for its symbols; without an object, as in the process.
    pub address: u64,
    /// Bytes of what of the object was mapped there.
    pub mapped: u64,
    /// The time for which code that a process made is looked up; the last moment there is if it does not matter.
    pub time: u64,
    /// Where the callchain begins, of the place of a sample.
    pub chain: ChainStart,
}

/// Where the callchain of a sample begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChainStart {
    /// Where the sample was.
    #[default]
    Here,
    /// Elsewhere: an event that is precise tells of an instruction, and the callchain is taken some instructions later.
    At(LocationId),
    /// Nowhere: it is empty, or its frames were none.
    Nowhere,
}

impl ChainStart {
    /// Another number for each: 0, 1, and those of locations from 2 on.
    pub(crate) fn number(self) -> u64 {
        match self {
            ChainStart::Here => 0,
            ChainStart::Nowhere => 1,
            ChainStart::At(location) => u64::from(location.0) + 2,
        }
    }

    /// The one of a number.
    pub(crate) fn numbered(number: u64) -> Option<Self> {
        Some(match number {
            0 => ChainStart::Here,
            1 => ChainStart::Nowhere,
            number => ChainStart::At(LocationId(u32::try_from(number - 2).ok()?)),
        })
    }
}

/// The time of code where it does not matter, or is not known: the last moment there is.
pub(crate) const ANY_TIME: u64 = u64::MAX;

impl Location {
    /// The address that its object's symbols are looked up by, when places in the object are told by address or not.
    pub fn place(&self, by_address: bool) -> u64 {
        if by_address { self.ip } else { self.address }
    }

    /// Whether it is so at its time only: the process tells of the code that it makes, and may make other code there.
    pub(crate) fn is_timed(&self) -> bool {
        self.time != ANY_TIME
    }
}

/// The value of a key that a sample does not tell, such as the flag of a branch without a branch.
pub(crate) const NO_VALUE: u64 = u64::MAX;

/// The value of a key that is a location, with the letter of its level.
pub(crate) fn location_value(location: LocationId, letter: char) -> u64 {
    u64::from(letter as u32) << 32 | u64::from(location.0)
}

/// The location of a value, and the letter of its level.
pub(crate) fn value_parts(value: u64) -> (LocationId, char) {
    (LocationId(value as u32), char::from_u32((value >> 32) as u32).unwrap_or('?'))
}

/// A thread or process of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Thread {
    /// Its number.
    pub id: u32,
    /// The name that it had last.
    pub name: StringId,
}

/// A cgroup of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cgroup {
    pub(crate) id: u64,
    /// Its path, if that was told.
    pub(crate) path: Option<StringId>,
}

/// A text that is a key of samples, and the bytes by which it is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Given {
    pub(crate) text: StringId,
    pub(crate) order: StringId,
}

/// An event of a profile, and all of its samples, also those that a filter left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventSum {
    /// Its name.
    pub name: StringId,
    /// Samples.
    pub samples: u64,
    /// The occurrences of the event that they stand for.
    pub weight: u64,
    /// Samples with a callchain.
    pub chains: u64,
    /// The same occurrences, each shared between the threads that ran, in units of a 1000th. 0 without
    /// [`Key::Parallelism`](crate::Key::Parallelism), and in a profile that was saved.
    pub latency: u64,
}

/// All samples of one event that have the same stack and the same keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampleRow {
    /// The index of the event.
    pub event: u32,
    /// The number of the values of keys.
    pub context: u32,
    /// The callchain.
    pub stack: StackId,
    /// The thread of the first of the samples.
    pub thread: u32,
    /// The occurrences of the event that they stand for.
    pub weight: u64,
    /// How many there are.
    pub samples: u64,
}

/// A sample at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampleTime {
    /// The time of the sample, on the recording's clock.
    pub time_ns: u64,
    /// The occurrences of the event that it stands for.
    pub weight: u64,
    /// The index of its [`SampleRow`].
    pub row: u32,
}

/// Stacks, each once: their locations one stack after the other, the outermost caller's first. As flat lists they are half as
/// expensive to make and to read as a tree of parents, and [`save`](crate::Profile::save) writes no caller twice either.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stacks {
    locations: Vec<LocationId>,
    /// Where each ends.
    ends: Vec<usize>,
    index: Index,
}

impl Stacks {
    /// The number of a stack, which is new if there is none like it. It has one location at least.
    pub(crate) fn id(&mut self, stack: &[LocationId]) -> StackId {
        let Stacks { locations, ends, index } = self;
        let next = ends.len() as u32;
        let mut fast = FastState::default().build_hasher();
        stack.iter().for_each(|location| fast.write_u32(location.0));
        let number = index.number(fast.finish() >> 32, next, |at| part(locations, ends, at) == stack);
        if number == next {
            locations.extend_from_slice(stack);
            ends.push(locations.len());
        }
        StackId(number)
    }

    /// Forgets how to find stacks again, of which no more will come.
    pub(crate) fn close(&mut self) {
        self.index = Index::default();
    }

    /// The same stacks, so that more can be added.
    pub(crate) fn open(&mut self) {
        let mut all = Stacks::default();
        for stack in self.iter() {
            all.id(stack);
        }
        *self = all;
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many locations all stacks have.
    pub(crate) fn location_count(&self) -> usize {
        self.locations.len()
    }

    /// The locations of a stack, the outermost caller's first.
    #[inline]
    pub(crate) fn get(&self, stack: StackId) -> &[LocationId] {
        part(&self.locations, &self.ends, stack.0)
    }

    /// The locations of all stacks, one after the other.
    pub(crate) fn all(&self) -> &[LocationId] {
        &self.locations
    }

    /// Where in these a stack begins.
    #[inline]
    pub(crate) fn start(&self, stack: StackId) -> usize {
        start(&self.ends, stack.0)
    }

    /// Where the samples of a stack were.
    #[inline]
    pub(crate) fn leaf(&self, stack: StackId) -> LocationId {
        self.locations[self.ends[stack.0 as usize] - 1]
    }

    /// All stacks, by their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[LocationId]> {
        (0..self.len() as u32).map(|number| self.get(StackId(number)))
    }
}

fn part<'l>(locations: &'l [LocationId], ends: &[usize], number: u32) -> &'l [LocationId] {
    &locations[start(ends, number)..ends[number as usize]]
}

#[inline]
fn start(ends: &[usize], number: u32) -> usize {
    number.checked_sub(1).map_or(0, |before| ends[before as usize])
}

/// Locations, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locations {
    pub(crate) list: Vec<Location>,
    index: Index,
}

impl Locations {
    /// The number of a location, which is new if there is none like it.
    pub(crate) fn id(&mut self, location: Location) -> LocationId {
        let Locations { list, index } = self;
        let Location { object, level, ip, address, time, chain, .. } = location;
        let words = [u64::from(object.0) << 8 | level as u64, ip, address, time, chain.number()];
        let next = list.len() as u32;
        let is_same = |at: u32| {
            let known = &list[at as usize];
            (known.object, known.level, known.ip, known.address, known.time, known.chain)
                == (object, level, ip, address, time, chain)
        };
        let number = index.number(hash(&words), next, is_same);
        if number == next {
            list.push(location);
        }
        LocationId(number)
    }
}

/// Values of keys, each combination once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contexts {
    /// Values of one context after those of the other.
    values: Vec<u64>,
    count: u32,
    index: Index,
}

impl Contexts {
    /// The number of a combination, which is new if there is none like it. All have as many values.
    pub(crate) fn id(&mut self, of: &[u64]) -> u32 {
        let Contexts { values, count, index } = self;
        let (next, width) = (*count, of.len());
        let number = index.number(hash(of), next, |at| values[at as usize * width..][..width] == *of);
        if number == next {
            values.extend_from_slice(of);
            *count += 1;
        }
        number
    }

    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    pub(crate) fn get(&self, context: u32, width: usize) -> &[u64] {
        &self.values[context as usize * width..][..width]
    }

    /// The values of all contexts, one after the other.
    pub(crate) fn values(&self) -> &[u64] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_kept_once() {
        let mut stacks = Stacks::default();
        let mut id = |stack: &[u32]| stacks.id(&stack.iter().copied().map(LocationId).collect::<Vec<_>>()).0;
        assert_eq!([&[1, 2, 3][..], &[1, 2], &[1, 2, 3], &[3, 2, 1], &[1, 2]].map(&mut id), [0, 1, 0, 2, 1]);
        assert_eq!(
            (stacks.leaf(StackId(2)), stacks.get(StackId(1))),
            (LocationId(1), &[1, 2].map(LocationId)[..])
        );
    }
}
