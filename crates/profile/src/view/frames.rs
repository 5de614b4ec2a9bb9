//! The frames of a view: locations that are the same function, or the same address, are one.

use crate::hash::FastMap;
use crate::lookup::object_names;
use crate::names::Names;
use crate::profile::Profile;
use crate::source_files::source_name;
use crate::tables::{ChainStart, LocationId, SampleRow};
use perfuse_data::session::Level;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of a [`Frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// A function, or an address where none is known.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Frame {
    /// The object it is in, a number that [`Frames::object`] takes; 0 is none.
    pub object: u32,
    /// The function, demangled; where none is known, nothing.
    pub symbol: Option<Arc<str>>,
    /// The start of the function; where none is known, the address, in the object's own counting.
    pub address: u64,
    /// The address in the process, where no function is known or frames are kept by address.
    pub ip: u64,
    /// From the start of the function, if frames are kept by address.
    pub offset: u64,
    /// Bytes of the function; 0 where none is known.
    pub size: u64,
    /// Bytes of what was mapped there of the object.
    pub mapped: u64,
    /// The level of its code: kernel, user, or another.
    pub level: Level,
    /// Whether it is data rather than code.
    pub is_data: bool,
    /// Whether it is part of another function, whose frame comes after it.
    pub is_inlined: bool,
    /// The source line, if frames are kept by address and it is known: the object's file, and the line.
    pub line: Option<(u32, u32)>,
}

/// An object as a report shows it.
#[derive(Clone, Debug)]
struct ObjectName {
    name: Box<str>,
    short: Box<str>,
    /// The number that objects with the same short name have in common.
    alias: u32,
    /// In which order the recording told of it.
    order: u32,
}

/// All frames of a profile, and which of them its locations are.
#[derive(Clone, Debug)]
pub struct Frames {
    objects: Vec<ObjectName>,
    frames: Vec<Frame>,
    /// Frames of one location after the other, innermost first.
    of_locations: Vec<FrameId>,
    /// Of each location, the one that callchains have in its place; empty if that is always the same.
    begins: Vec<LocationId>,
    /// The frame of that, if each location has one.
    of_chains: Vec<FrameId>,
    /// How far into its function each of them is.
    offsets: Vec<u64>,
    /// Where those of each location end; empty if each has one.
    ends: Vec<u32>,
    missing: Vec<(u32, String)>,
    /// The source files of each object.
    files: Vec<Vec<Arc<str>>>,
    rows: RowsByEvent,
    full_paths: bool,
}

/// The rows of a profile, event by event, so that the view of one does not look at those of all others.
#[derive(Clone, Debug, Default)]
struct RowsByEvent {
    /// Their numbers; empty where there is one event.
    numbers: Vec<u32>,
    /// Where those of each event end.
    ends: Vec<u32>,
}

impl RowsByEvent {
    fn new(profile: &Profile) -> Self {
        if profile.events.len() < 2 {
            return RowsByEvent::default();
        }
        let mut ends = vec![0; profile.events.len()];
        for row in &profile.rows {
            ends[row.event as usize] += 1;
        }
        let mut end = 0;
        for count in &mut ends {
            let from = end;
            end += *count;
            *count = from;
        }
        let mut numbers = vec![0; profile.rows.len()];
        for (number, row) in (0..).zip(&profile.rows) {
            let next = &mut ends[row.event as usize];
            numbers[*next as usize] = number;
            *next += 1;
        }
        RowsByEvent { numbers, ends }
    }
}

/// The identity of a frame: its object, its function if it has one, its address if that counts.
type Identity = (u32, u32, u64);

const NO_FUNCTION: u32 = u32::MAX;

impl Frames {
    /// The rows of an event, with their numbers, of the profile that these frames are of.
    pub(crate) fn rows_of<'p>(
        &self,
        profile: &'p Profile,
        event: usize,
    ) -> impl Iterator<Item = (u32, &'p SampleRow)> + use<'p, '_> {
        let RowsByEvent { numbers, ends } = &self.rows;
        let is_sorted = numbers.len() == profile.rows.len() && event < ends.len();
        let from = if event == 0 { 0 } else { ends.get(event - 1).copied().unwrap_or(0) as usize };
        let of_event = if is_sorted { &numbers[from..ends[event] as usize] } else { &[] };
        let sorted = of_event.iter().map(|&number| (number, &profile.rows[number as usize]));
        let others = (0..).zip(if is_sorted { &[][..] } else { &profile.rows[..] });
        sorted.chain(others.filter(move |(_, row)| row.event as usize == event))
    }

    /// The frames of a profile by function, or by address.
    pub fn new(names: &Names<'_>, by_address: bool) -> Self {
        let profile = names.profile;
        let mut aliases: HashMap<Box<str>, u32> = HashMap::new();
        let objects = (0..).zip(&profile.objects).map(|(id, object)| {
            let (name, short) = object_names(&profile.strings, object);
            let alias = *aliases.entry(short.clone()).or_insert(id);
            ObjectName { name, short, alias, order: object.order }
        });
        let objects = objects.collect();
        let mut frames: Vec<Frame> = Vec::new();
        let mut known: FastMap<Identity, FrameId> = FastMap::default();
        let (mut of_locations, mut offsets, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for (id, location) in (0..).map(LocationId).zip(&profile.locations.list) {
            let object = location.object.0;
            let new = Frame {
                object,
                symbol: None,
                address: location.address,
                ip: location.ip,
                offset: 0,
                size: 0,
                mapped: location.mapped,
                level: location.level,
                is_data: false,
                is_inlined: false,
                line: None,
            };
            let mut intern = |identity: Identity, make: &dyn Fn() -> Frame| {
                let next = FrameId(frames.len() as u32);
                let frame = *known.entry(identity).or_insert(next);
                if frame == next {
                    frames.push(make());
                }
                of_locations.push(frame);
            };
            let functions = names.at(id);
            if functions.is_empty() {
                intern((object, NO_FUNCTION, location.ip), &|| new.clone());
                offsets.push(0);
            }
            for at in functions {
                let identity = (object, at.function, if by_address { location.ip } else { 0 });
                intern(identity, &|| {
                    let function = names.function(location.object, at.function);
                    let (ip, offset) = if by_address { (location.ip, at.offset) } else { (0, 0) };
                    Frame {
                        symbol: Some(function.name.clone()),
                        address: function.start,
                        ip,
                        offset,
                        size: function.size,
                        is_data: function.is_data,
                        is_inlined: function.is_inlined,
                        line: at.line.filter(|_| by_address),
                        ..new.clone()
                    }
                });
                offsets.push(at.offset);
            }
            ends.push(of_locations.len() as u32);
        }
        if of_locations.len() == ends.len() {
            ends = Vec::new();
        }
        let missing = names.missing().map(|(object, reason)| (object.0, reason)).collect();
        let files = (0..profile.objects.len()).map(|object| names.files(object).to_vec()).collect();
        let rows = RowsByEvent::new(profile);
        let all = Frames {
            objects,
            frames,
            of_locations,
            begins: Vec::new(),
            of_chains: Vec::new(),
            offsets,
            ends,
            missing,
            files,
            rows,
            full_paths: false,
        };
        all.with_chains(profile)
    }

    /// A frame.
    #[inline]
    pub fn get(&self, frame: FrameId) -> &Frame {
        &self.frames[frame.0 as usize]
    }

    /// How many frames there are: their numbers begin at 0.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The frames at a location, the innermost first: one, unless functions were inlined there.
    #[inline]
    pub fn at(&self, location: LocationId) -> &[FrameId] {
        let at = location.0 as usize;
        match self.ends.get(at) {
            None => std::slice::from_ref(&self.of_locations[at]),
            Some(&end) => &self.of_locations[self.first(location)..end as usize],
        }
    }

    /// Once it is known which locations have which frames.
    fn with_chains(mut self, profile: &Profile) -> Self {
        let list = || (0..).map(LocationId).zip(&profile.locations.list);
        if list().all(|(_, of)| !matches!(of.chain, ChainStart::At(_))) {
            return self;
        }
        self.begins = list()
            .map(|(at, of)| match of.chain {
                ChainStart::At(first) => first,
                _ => at,
            })
            .collect();
        if self.ends.is_empty() {
            self.of_chains = self.begins.iter().map(|at| self.of_locations[at.0 as usize]).collect();
        }
        self
    }

    /// The frames that callchains have for a location, the innermost first.
    #[inline]
    pub(crate) fn of_chain(&self, location: LocationId) -> &[FrameId] {
        self.at(self.begins.get(location.0 as usize).copied().unwrap_or(location))
    }

    /// The frame that callchains have for each location, if all have one.
    pub(crate) fn of_each(&self) -> Option<&[FrameId]> {
        let all = if self.of_chains.is_empty() { &self.of_locations } else { &self.of_chains };
        self.ends.is_empty().then_some(all)
    }

    /// The innermost frame at a location.
    #[inline]
    pub(crate) fn innermost(&self, location: LocationId) -> FrameId {
        self.of_locations[self.first(location)]
    }

    /// The innermost frame at a location, and how far into it the location is.
    pub(crate) fn exact(&self, location: LocationId) -> (&Frame, u64) {
        let first = self.first(location);
        (self.get(self.of_locations[first]), self.offsets[first])
    }

    #[inline]
    fn first(&self, location: LocationId) -> usize {
        let at = location.0 as usize;
        match (self.ends.is_empty(), at) {
            (true, at) => at,
            (false, 0) => 0,
            (false, at) => self.ends[at - 1] as usize,
        }
    }

    /// Name of an object: its path.
    pub fn object(&self, object: u32) -> &str {
        &self.objects[object as usize].name
    }

    /// The name that reports show: without folders.
    pub fn short_object(&self, object: u32) -> &str {
        &self.objects[object as usize].short
    }

    /// The same number for all objects that reports show by the same name.
    pub(crate) fn alias(&self, object: u32) -> u32 {
        self.objects[object as usize].alias
    }

    /// Orders objects as the recording told of them.
    pub(crate) fn order(&self, object: u32) -> u32 {
        self.objects[object as usize].order
    }

    /// Source files are called by their whole paths.
    #[must_use]
    pub fn with_full_paths(self, full_paths: bool) -> Self {
        Frames { full_paths, ..self }
    }

    /// The name of the source file, without folders unless [they are wanted](Self::with_full_paths), and the line of a frame, if they
    /// are known.
    pub fn line(&self, frame: &Frame) -> Option<(&str, u32)> {
        let (path, line) = self.source(frame)?;
        Some((source_name(path, self.full_paths), line))
    }

    /// The path of the source file, as debug information has it, and the line of a frame, if they are known.
    pub fn source(&self, frame: &Frame) -> Option<(&str, u32)> {
        let (file, line) = frame.line?;
        Some((&*self.files[frame.object as usize][file as usize], line))
    }

    /// Why an object's symbols are missing, of those that were asked for any.
    pub fn missing(&self) -> impl Iterator<Item = (&str, &str)> {
        self.missing.iter().map(|(object, reason)| (self.object(*object), reason.as_str()))
    }
}

#[cfg(test)]
impl Frames {
    /// The same for the locations of a profile, whose addresses these are.
    pub(crate) fn of_profile(self, profile: &Profile) -> Self {
        let of_locations =
            profile.locations.list.iter().map(|location| FrameId(location.ip as u32)).collect();
        Frames { of_locations, ..self }.with_chains(profile)
    }

    /// Frames without names, of this many addresses.
    pub(crate) fn numbered(count: u32) -> Self {
        let unknown = ObjectName { name: "".into(), short: "".into(), alias: 0, order: 0 };
        let frame = |ip: u32| Frame {
            object: 0,
            symbol: None,
            address: ip.into(),
            ip: ip.into(),
            offset: 0,
            size: 0,
            mapped: 0,
            level: Level::User,
            is_data: false,
            is_inlined: false,
            line: None,
        };
        Frames {
            objects: vec![unknown],
            frames: (0..count).map(frame).collect(),
            of_locations: (0..count).map(FrameId).collect(),
            begins: Vec::new(),
            of_chains: Vec::new(),
            offsets: vec![0; count as usize],
            ends: Vec::new(),
            missing: Vec::new(),
            files: Vec::new(),
            rows: RowsByEvent::default(),
            full_paths: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_looks_at_the_rows_of_its_event() {
        let mut profile = Profile::numbered(100);
        (1..100).for_each(|frame| profile.add_stack(&[frame], 1));
        let events = 33;
        profile.events.resize_with(events, Default::default);
        (0..).zip(&mut profile.rows).for_each(|(number, row)| row.event = number * 7 % events as u32);
        let rows = |frames: &Frames, event| {
            frames.rows_of(&profile, event).map(|(number, _)| number).collect::<Vec<_>>()
        };
        let sorted = Frames { rows: RowsByEvent::new(&profile), ..Frames::numbered(100) };
        assert_eq!((sorted.rows.numbers.len(), sorted.rows.ends.len()), (99, events));
        for event in 0..events + 1 {
            assert_eq!(rows(&sorted, event), rows(&Frames::numbered(100), event), "{event}");
        }
        assert_eq!((rows(&sorted, 7), rows(&sorted, events)), (vec![1, 34, 67], vec![]));
    }
}
