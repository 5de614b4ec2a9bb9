//! The functions at the locations of a profile, looked up when they are wanted first: object by object, or all by several
//! threads.

use crate::hash::FastMap;
use crate::profile::Profile;
use crate::source::{Function, ObjectRef, Symbols, TimedAddress};
use crate::tables::{LocationId, ObjectId, ObjectKind};
use perfuse_symbols::{Signatures, demangle};
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// More threads than this are of little use: few objects have most of the symbols.
const MOST_THREADS: usize = 8;

/// A function of an object, by the name to show.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedFunction {
    /// The name, demangled unless the file's names were asked for.
    pub name: Arc<str>,
    /// Where it starts, as its object's symbols count.
    pub start: u64,
    /// Its bytes.
    pub size: u64,
    /// Whether it is data rather than code.
    pub is_data: bool,
    /// Whether it is part of another function, which has its place too.
    pub is_inlined: bool,
}

/// A function at a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionAt {
    /// The index of the function among those of its object.
    pub function: u32,
    /// How far into it the location is.
    pub offset: u64,
    /// The source line, if it is known: the index of the file among those of the object, and the line.
    pub line: Option<(u32, u32)>,
}

/// The names of an object's locations.
#[derive(Debug, Default)]
pub(crate) struct ObjectNames {
    pub(crate) functions: Vec<NamedFunction>,
    pub(crate) files: Vec<Arc<str>>,
    /// Functions at one location after the other, innermost first.
    at: Vec<FunctionAt>,
    /// Where those of each location end.
    ends: Vec<u32>,
}

/// The names of a profile's locations.
pub struct Names<'p> {
    pub(crate) profile: &'p Profile,
    symbols: &'p dyn Symbols,
    demangled: bool,
    /// The locations of each object.
    locations: Vec<Vec<LocationId>>,
    /// The place of each location among those of its object.
    places: Vec<u32>,
    objects: Vec<OnceLock<ObjectNames>>,
}

impl<'p> Names<'p> {
    /// Names of a profile from a source of symbols. Nothing is looked up yet.
    pub fn new(profile: &'p Profile, symbols: &'p dyn Symbols) -> Self {
        let mut locations = vec![Vec::new(); profile.objects.len()];
        let place = |(id, object): (u32, ObjectId)| {
            let of_object: &mut Vec<LocationId> = &mut locations[object.0 as usize];
            of_object.push(LocationId(id));
            of_object.len() as u32 - 1
        };
        let places = (0..).zip(profile.locations.list.iter().map(|location| location.object));
        let places = places.map(place).collect();
        let objects = profile.objects.iter().map(|_| OnceLock::new()).collect();
        Names { profile, symbols, demangled: true, locations, places, objects }
    }

    /// With names as they are in the files.
    #[must_use]
    pub fn mangled(self, mangled: bool) -> Self {
        Names { demangled: !mangled, ..self }
    }

    /// Looks up the names of all locations, on all processors that there are. Views that come later find them there.
    pub fn look_up_all(&self) {
        let wanted: Vec<usize> =
            (0..self.objects.len()).filter(|&at| !self.locations[at].is_empty()).collect();
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(&object) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.object(ObjectId(object as u32));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(MOST_THREADS).min(wanted.len()) {
                scope.spawn(work);
            }
            work();
        });
    }

    /// The functions at a location, the innermost of those that were inlined first; none where no name is known.
    pub fn at(&self, location: LocationId) -> &[FunctionAt] {
        let names = self.object(self.profile.location(location).object);
        let place = self.places[location.0 as usize] as usize;
        let start = place.checked_sub(1).map_or(0, |before| names.ends[before]);
        &names.at[start as usize..names.ends[place] as usize]
    }

    /// A function of an object by its index.
    pub fn function(&self, object: ObjectId, function: u32) -> &NamedFunction {
        &self.object(object).functions[function as usize]
    }

    /// A source file of an object by its index.
    pub fn file(&self, object: ObjectId, file: u32) -> &str {
        &self.object(object).files[file as usize]
    }

    /// The source files of an object, as far as it was looked up.
    pub(crate) fn files(&self, object: usize) -> &[Arc<str>] {
        self.objects[object].get().map_or(&[], |names| &names.files)
    }

    /// The objects that were looked up and have no names, and the reason.
    pub fn missing(&self) -> impl Iterator<Item = (ObjectId, String)> + '_ {
        let numbers = (0..self.objects.len() as u32).map(ObjectId);
        numbers.filter(|object| self.objects[object.0 as usize].get().is_some()).filter_map(|object| {
            let of = &self.profile.objects[object.0 as usize];
            let is_file = !matches!(of.kind, ObjectKind::Unknown | ObjectKind::Function);
            let reason = self.symbols.missing(self.reference(object)).filter(|_| is_file)?;
            Some((object, reason))
        })
    }

    fn reference(&self, object: ObjectId) -> ObjectRef<'p> {
        self.profile.object_ref(object)
    }

    #[inline]
    fn object(&self, object: ObjectId) -> &ObjectNames {
        let at = object.0 as usize;
        self.objects[at].get_or_init(|| self.look_up(object, &self.locations[at]))
    }

    #[cold]
    fn look_up(&self, object: ObjectId, locations: &[LocationId]) -> ObjectNames {
        let of = &self.profile.objects[object.0 as usize];
        match of.kind {
            ObjectKind::Unknown => ObjectNames { ends: vec![0; locations.len()], ..ObjectNames::default() },
            ObjectKind::Function => self.function_alone(object, locations),
            _ => {
                let addresses: Vec<TimedAddress> =
                    locations.iter().map(|id| TimedAddress::of(self.profile.location(*id), of)).collect();
                let mut names = Finder { demangled: self.demangled, ..Finder::default() };
                self.symbols.look_up(self.reference(object), &addresses, &mut |index, function| {
                    names.found(index, function);
                });
                names.finish(locations.len())
            }
        }
    }

    /// The names of an object that is one function.
    fn function_alone(&self, object: ObjectId, locations: &[LocationId]) -> ObjectNames {
        let mut names = Finder { demangled: false, ..Finder::default() };
        let name = || self.profile.object_path(object).into_owned();
        for (index, &id) in locations.iter().enumerate() {
            let location = self.profile.location(id);
            let (start, size) = (location.address, location.mapped);
            let offset = location.ip.wrapping_sub(start);
            let function =
                Function { id: start, name: &name, start, size, offset, is_data: false, line: None };
            names.found(index, function);
        }
        names.finish(locations.len())
    }
}

/// Takes the functions of an object.
#[derive(Default)]
struct Finder {
    demangled: bool,
    names: ObjectNames,
    /// By number, place and size: code that is made may have the same place, one after the other, and an inlined function is
    /// another in each function that has it.
    functions: FastMap<(u64, u64, u64), u32>,
    files: FastMap<Arc<str>, u32>,
    /// With the index of the location.
    at: Vec<(usize, FunctionAt)>,
}

impl Finder {
    fn found(&mut self, index: usize, function: Function<'_>) {
        let Finder { demangled, names, functions, files, at } = self;
        let Function { id, name, start, size, offset, is_data, line } = function;
        let number = *functions.entry((id, start, size)).or_insert_with(|| {
            let name = name();
            let name = if *demangled { demangle(&name, Signatures::Short) } else { name.into() };
            names.functions.push(NamedFunction {
                name: name.into(),
                start,
                size,
                is_data,
                is_inlined: false,
            });
            names.functions.len() as u32 - 1
        });
        let line = line.map(|(file, line)| {
            let known = files.get(file).copied();
            let file = known.unwrap_or_else(|| {
                let file: Arc<str> = file.into();
                names.files.push(file.clone());
                files.insert(file, names.files.len() as u32 - 1);
                names.files.len() as u32 - 1
            });
            (file, line)
        });
        at.push((index, FunctionAt { function: number, offset, line }));
    }

    /// The names of so many locations.
    fn finish(self, locations: usize) -> ObjectNames {
        let Finder { mut names, mut at, .. } = self;
        // A source may answer in any order; what it tells of one address is in order.
        at.retain(|&(index, _)| index < locations);
        at.sort_by_key(|&(index, _)| index);
        for pair in at.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            names.functions[pair[0].1.function as usize].is_inlined = true;
        }
        let mut end = 0;
        names.ends = (0..locations)
            .map(|index| {
                end += at[end..].iter().take_while(|&&(of, _)| of == index).count();
                end as u32
            })
            .collect();
        names.at = at.into_iter().map(|(_, function)| function).collect();
        names
    }
}
