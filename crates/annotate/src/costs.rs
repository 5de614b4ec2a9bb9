//! From a profile to the functions in which samples were, with the cost of each of their addresses.

use perfuse_abi::{Attr, EventType};
use perfuse_profile::{Names, ObjectId, ObjectKind, Profile};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::AddAssign;

/// Samples, and the occurrences of the event that they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cost {
    /// Occurrences of the event.
    pub weight: u64,
    /// Samples.
    pub samples: u64,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.weight = self.weight.saturating_add(other.weight);
        self.samples = self.samples.saturating_add(other.samples);
    }
}

/// A function in which samples were, or any piece of code with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its object in the profile.
    pub object: ObjectId,
    /// Its name.
    pub name: String,
    /// The path of its object, or what stands for one.
    pub path: String,
    /// The object as reports call it: without folders.
    pub short: String,
    /// Where it starts, as its object's symbols count.
    pub start: u64,
    /// Its bytes.
    pub size: u64,
    /// Whether its process made it at run time, so that nothing has its code.
    pub is_made: bool,
    /// The cost of all of it, without what it calls.
    pub cost: Cost,
    /// The cost of each address, from the start of the function on.
    pub places: BTreeMap<u64, Cost>,
}

/// The functions of an event's samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Those with a name, the hottest first.
    pub functions: Vec<Function>,
    /// Samples in code without a name.
    pub nameless: Cost,
    /// All samples of the event.
    pub whole: Cost,
}

impl Sampled {
    /// The functions of a profile in which samples of an event were; callers do not count. The profile has to tell addresses: it is
    /// made without [`by_function`](perfuse_profile::Plan::by_function).
    pub fn of(profile: &Profile, names: &Names<'_>, event: usize) -> Self {
        let sum = profile.event(event);
        let whole = Cost { weight: sum.weight, samples: sum.samples };
        let mut sampled = Sampled { whole, ..Sampled::default() };
        let mut known: HashMap<(ObjectId, u32), usize> = HashMap::new();
        for row in profile.samples().iter().filter(|row| row.event as usize == event && row.samples > 0) {
            let cost = Cost { weight: row.weight, samples: row.samples };
            // The last one is the function that has the others.
            let at = profile.stack(row.stack).next();
            let at = at.and_then(|at| Some((profile.location(at).object, names.at(at).last()?)));
            let Some((object, at)) = at else {
                sampled.nameless += cost;
                continue;
            };
            let functions = &mut sampled.functions;
            let index = *known.entry((object, at.function)).or_insert_with(|| {
                functions.push(Function::new(profile, names, object, at.function));
                functions.len() - 1
            });
            let function = &mut functions[index];
            function.cost += cost;
            *function.places.entry(at.offset).or_default() += cost;
        }
        sampled.sort();
        sampled
    }

    /// The functions that are wanted: all, or those of this name, for which its last part will do where none has it whole
    /// (`insert` for `store::insert`); of all objects, or of these, with or without folders.
    pub fn chosen(&self, name: Option<&str>, objects: &[String]) -> Vec<&Function> {
        let is_there = |function: &&Function| {
            let is_object = |object: &String| *object == function.path || *object == function.short;
            objects.is_empty() || objects.iter().any(is_object)
        };
        let all: Vec<&Function> = self.functions.iter().filter(is_there).collect();
        let Some(name) = name else { return all };
        let of = |test: &dyn Fn(&str) -> bool| -> Vec<&Function> {
            all.iter().copied().filter(|function| test(&function.name)).collect()
        };
        let whole = of(&|known| known == name);
        let is_end = |known: &str| known.strip_suffix(name).is_some_and(|before| before.ends_with("::"));
        if whole.is_empty() { of(&is_end) } else { whole }
    }

    /// The hottest first; functions of the same cost by name and place.
    fn sort(&mut self) {
        self.functions.sort_by(|one, other| {
            let key = |function: &Function| (Reverse(function.cost), function.start);
            let names = |function: &Function| (function.name.clone(), function.path.clone());
            key(one)
                .0
                .cmp(&key(other).0)
                .then_with(|| names(one).cmp(&names(other)))
                .then(key(one).cmp(&key(other)))
        });
    }
}

impl Function {
    fn new(profile: &Profile, names: &Names<'_>, object: ObjectId, function: u32) -> Self {
        let named = names.function(object, function);
        let (path, short) = profile.object_names(object);
        let of = &profile.objects()[object.0 as usize];
        Function {
            object,
            name: named.name.to_string(),
            path,
            short,
            start: named.start,
            size: named.size,
            is_made: of.is_made
                || of.by_address && of.kind == ObjectKind::User
                || of.kind == ObjectKind::Function,
            cost: Cost::default(),
            places: BTreeMap::new(),
        }
    }
}

/// How far samples of an event are from the instruction that they are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Skid {
    /// A timer's interrupt: it comes between two instructions, mostly after one that takes long, and where interrupts are
    /// held back, at the end of that.
    Timer,
    /// A counter's interrupt: it comes some instructions late.
    Interrupt,
    /// None, or none to speak of: the processor notes the instruction, or the event happens at one.
    None,
}

impl Skid {
    /// That of an event by its attr.
    pub fn of(attr: &Attr) -> Self {
        const CPU_CLOCK: u64 = 0;
        const TASK_CLOCK: u64 = 1;
        match attr.type_ {
            EventType::SOFTWARE if matches!(attr.config, CPU_CLOCK | TASK_CLOCK) => Skid::Timer,
            EventType::SOFTWARE | EventType::TRACEPOINT | EventType::BREAKPOINT => Skid::None,
            _ if attr.flags.precise_ip() >= 2 => Skid::None,
            _ => Skid::Interrupt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_data::PerfData;
    use perfuse_profile::{Function as Found, Key, ObjectRef, Plan, Symbols, TimedAddress};
    use std::path::Path;

    /// One function in each object, with another one inlined into it at each address.
    struct Inlining;

    impl Symbols for Inlining {
        fn look_up(&self, _: ObjectRef<'_>, at: &[TimedAddress], found: &mut dyn FnMut(usize, Found<'_>)) {
            for index in 0..at.len() {
                for (id, name) in (0..).zip(["inner", "outer"]) {
                    let name = || name.to_owned();
                    let (size, offset) = (0x100, index as u64);
                    found(
                        index,
                        Found { id, name: &name, start: 0, size, offset, is_data: false, line: None },
                    );
                }
            }
        }

        fn missing(&self, _: ObjectRef<'_>) -> Option<String> {
            None
        }
    }

    #[test]
    fn code_belongs_to_the_function_that_others_are_inlined_into() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/golden/fixtures");
        let data = PerfData::open(folder.join("chains.data")).expect("a recording");
        let profile = Profile::read(data, Plan::new(&[Key::Comm])).expect("a profile");
        let names = Names::new(&profile, &Inlining);
        let sampled = Sampled::of(&profile, &names, 0);
        assert!(sampled.functions.iter().all(|function| function.name == "outer"), "{sampled:?}");
        let samples: u64 = sampled.functions.iter().map(|function| function.cost.samples).sum();
        assert!(samples > 0 && samples + sampled.nameless.samples == sampled.whole.samples, "{sampled:?}");
    }

    #[test]
    fn a_function_is_chosen_by_its_whole_name_or_by_the_last_parts_of_it() {
        let function = |name: &str| Function { name: name.to_owned(), ..Function::default() };
        let functions =
            ["store::insert", "store::reinsert", "log::insert", "hash", "old::hash"].map(function);
        let sampled = Sampled { functions: functions.into(), ..Sampled::default() };
        let chosen = |name| -> Vec<&str> {
            sampled.chosen(Some(name), &[]).into_iter().map(|function| &function.name[..]).collect()
        };
        assert_eq!(chosen("insert"), ["store::insert", "log::insert"]);
        assert_eq!(chosen("store::insert"), ["store::insert"]);
        assert_eq!(chosen("hash"), ["hash"]);
        assert_eq!(chosen("ash"), [""; 0]);
    }
}
