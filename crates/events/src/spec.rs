//! The last step: a parsed list becomes plain data about the events to open.

use crate::catalogue::{Catalogue, glob, is_pattern};
use crate::error::{EventError, Problem};
use crate::modifiers::Effects;
use crate::names::{Software, Tool};
use crate::parser::number;
use crate::tree::{Event, EventList, Group, Item, Span, What};
use alloc::string::String;
use alloc::vec::Vec;
use perfuse_abi::{Attr, AttrFlags, EventType};

/// Events of one item of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSet {
    /// The name of a group.
    pub name: Option<String>,
    /// They are to be counted together, the first one leading. Never set for a single event.
    pub grouped: bool,
    /// Rather apart than not at all (modifier W).
    pub weak: bool,
    /// The events; at least one.
    pub events: Vec<EventSpec>,
}

/// An event as a name and what goes into its attr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpec {
    /// What perf prints for it: as it was written, with its modifiers (without, for tracepoints).
    pub name: String,
    /// What is counted.
    pub source: Source,
    /// What is left out.
    pub exclude: Exclude,
    /// How exactly samples must point at the instruction.
    pub precise: Precise,
    /// Must always be on the PMU (modifier D).
    pub pinned: bool,
    /// Must be alone on the PMU (modifier e).
    pub exclusive: bool,
    /// The group is read with each sample of its leader (modifier S).
    pub sample_read: bool,
    /// Letters were written after it or its group.
    pub has_modifiers: bool,
}

/// Who counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The kernel, asked with these members of the attr.
    Kernel {
        /// `attr.type`.
        type_: EventType,
        /// `attr.config`.
        config: u64,
        /// `attr.config1`, `config2` and `config3`.
        more: [u64; 3],
    },
    /// The measuring tool itself.
    Tool(Tool),
}

/// `attr.exclude_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Exclude {
    /// `exclude_user`.
    pub user: bool,
    /// `exclude_kernel`.
    pub kernel: bool,
    /// `exclude_hv`.
    pub hv: bool,
    /// `exclude_idle`.
    pub idle: bool,
    /// `exclude_host`.
    pub host: bool,
    /// `exclude_guest`; set, as perf does, unless the event's own modifiers say otherwise.
    pub guest: bool,
}

/// `attr.precise_ip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precise {
    /// This level, 0 to 3.
    Level(u8),
    /// The highest the kernel takes: the opener has to try 3, 2, 1, 0.
    Most,
}

impl Default for Precise {
    fn default() -> Self {
        Precise::Level(0)
    }
}

/// What a count is a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Occurrences.
    Count,
    /// Nanoseconds.
    Nanoseconds,
}

impl EventSpec {
    /// An event as it is without modifiers.
    pub fn new(name: impl Into<String>, source: Source) -> Self {
        Self::with_effects(name.into(), source, unmodified(), false)
    }

    fn with_effects(name: String, source: Source, effects: Effects, has_modifiers: bool) -> Self {
        let Effects { exclude, precise, sample_read, pinned, exclusive, .. } = effects;
        EventSpec { name, source, exclude, precise, pinned, exclusive, sample_read, has_modifiers }
    }

    /// Puts this event into an attr: type, config, and the flags that modifiers concern, each set or
    /// cleared. [`Precise::Most`] leaves `precise_ip` alone. Returns `false`, having changed nothing,
    /// for an event the kernel does not count.
    pub fn apply(&self, attr: &mut Attr) -> bool {
        let Source::Kernel { type_, config, more } = self.source else {
            return false;
        };
        (attr.type_, attr.config) = (type_, config);
        [attr.config1, attr.config2, attr.config3] = more;
        let Exclude { user, kernel, hv, idle, host, guest } = self.exclude;
        for (flag, on) in [
            (AttrFlags::EXCLUDE_USER, user),
            (AttrFlags::EXCLUDE_KERNEL, kernel),
            (AttrFlags::EXCLUDE_HV, hv),
            (AttrFlags::EXCLUDE_IDLE, idle),
            (AttrFlags::EXCLUDE_HOST, host),
            (AttrFlags::EXCLUDE_GUEST, guest),
            (AttrFlags::PINNED, self.pinned),
            (AttrFlags::EXCLUSIVE, self.exclusive),
        ] {
            attr.flags.set(flag, on);
        }
        if let Precise::Level(level) = self.precise {
            attr.flags = attr.flags.with_precise_ip(level);
        }
        true
    }

    /// What its count is a number of.
    pub fn unit(&self) -> Unit {
        match self.source {
            Source::Tool(_) => Unit::Nanoseconds,
            Source::Kernel { type_: EventType::SOFTWARE, config, .. }
                if [Software::CPU_CLOCK, Software::TASK_CLOCK].contains(&Software(config)) =>
            {
                Unit::Nanoseconds
            }
            Source::Kernel { .. } => Unit::Count,
        }
    }
}

/// perf leaves guests out of what has no modifiers of its own.
fn unmodified() -> Effects {
    Effects { exclude: Exclude { guest: true, ..Exclude::default() }, ..Effects::default() }
}

impl EventList {
    /// Looks everything up. The order is that of the list; a tracepoint with wildcards becomes as many
    /// events as match.
    pub fn resolve(&self, catalogue: &dyn Catalogue) -> Result<Vec<EventSet>, EventError> {
        let mut sets = Vec::new();
        for item in &self.items {
            let resolved = match item {
                Item::Single(event) => single(event, catalogue).map(|events| sets.extend(events)),
                Item::Group(group) => together(group, catalogue).map(|set| sets.push(set)),
            };
            resolved.map_err(|(at, problem)| EventError::new(&self.text, at, problem))?;
        }
        Ok(sets)
    }
}

type Resolved<T> = Result<T, (Span, Problem)>;

fn single(event: &Event, catalogue: &dyn Catalogue) -> Resolved<impl Iterator<Item = EventSet> + use<>> {
    let events = each(event, catalogue)?;
    Ok(events.into_iter().map(|(spec, effects)| EventSet {
        name: None,
        grouped: false,
        weak: effects.weak,
        events: alloc::vec![spec],
    }))
}

fn together(group: &Group, catalogue: &dyn Catalogue) -> Resolved<EventSet> {
    let mut set = EventSet { name: group.name.clone(), grouped: true, weak: false, events: Vec::new() };
    for event in &group.events {
        for (spec, own) in each(event, catalogue)? {
            let mut effects = own;
            if let Some(modifiers) = &group.modifiers {
                let applied = modifiers.apply(&mut effects);
                applied.map_err(|error| (group.modifiers_at, Problem::Modifiers(error)))?;
                if !set.events.is_empty() {
                    // The group's D and e are the leader's.
                    (effects.pinned, effects.exclusive) = (own.pinned, own.exclusive);
                }
            }
            set.weak |= effects.weak;
            let has_modifiers = spec.has_modifiers || group.modifiers.is_some();
            set.events.push(EventSpec::with_effects(spec.name, spec.source, effects, has_modifiers));
        }
    }
    Ok(set)
}

/// The events that one event of the tree stands for, with what its own modifiers do.
fn each(event: &Event, catalogue: &dyn Catalogue) -> Resolved<Vec<(EventSpec, Effects)>> {
    let mut effects = unmodified();
    if let Some(modifiers) = event.modifiers.as_ref().filter(|modifiers| !modifiers.letters().is_empty()) {
        effects = Effects::default();
        modifiers.apply(&mut effects).map_err(|error| (event.at, Problem::Modifiers(error)))?;
    }
    let kernel = |type_, config| Source::Kernel { type_, config, more: [0; 3] };
    let source = match &event.what {
        What::Hardware(hardware) => kernel(EventType::HARDWARE, hardware.0),
        What::Software(software) => kernel(EventType::SOFTWARE, software.0),
        What::Cache(cache) => kernel(EventType::HW_CACHE, cache.config()),
        What::Raw(code) => kernel(EventType::RAW, *code),
        What::Numeric { type_, config } => kernel(EventType(*type_), *config),
        What::Tool(tool) => Source::Tool(*tool),
        What::Tracepoint { system, name } => {
            let found = tracepoints(system, name, catalogue).map_err(|problem| (event.at, problem))?;
            // perf refuses terms after a tracepoint too.
            if let Some(term) = event.terms.iter().flatten().next() {
                return Err((term.at, Problem::UnknownTerm(term.key.clone())));
            }
            let has_modifiers = event.modifiers.is_some();
            return Ok(found
                .into_iter()
                .map(|(name, id)| {
                    let source = kernel(EventType::TRACEPOINT, id);
                    (EventSpec::with_effects(name, source, effects, has_modifiers), effects)
                })
                .collect());
        }
    };
    let source = with_terms(source, event)?;
    let spec = EventSpec::with_effects(event.display_name(), source, effects, event.modifiers.is_some());
    Ok(alloc::vec![(spec, effects)])
}

/// Applies the terms that name members of the attr. `name` is the tree's business.
fn with_terms(mut source: Source, event: &Event) -> Resolved<Source> {
    for term in event.terms.iter().flatten() {
        let wrong_value = || (term.at, Problem::TermValue(term.key.clone()));
        let value = term.value.as_deref().ok_or_else(wrong_value);
        let number = || value.clone().and_then(|text| number(text).ok_or_else(wrong_value));
        match (term.key.as_str(), &mut source) {
            ("name", _) => drop(value?),
            ("config", Source::Kernel { config, .. }) => *config = number()?,
            ("config1", Source::Kernel { more, .. }) => more[0] = number()?,
            ("config2", Source::Kernel { more, .. }) => more[1] = number()?,
            ("config3", Source::Kernel { more, .. }) => more[2] = number()?,
            _ => return Err((term.at, Problem::UnknownTerm(term.key.clone()))),
        }
    }
    Ok(source)
}

/// Names and ids of the tracepoints meant.
fn tracepoints(system: &str, name: &str, catalogue: &dyn Catalogue) -> Result<Vec<(String, u64)>, Problem> {
    let id = |system: &str, name: &str| {
        catalogue.tracepoint(system, name).map(|id| (alloc::format!("{system}:{name}"), id))
    };
    let unknown = |refusal| {
        let known = catalogue.tracepoints().unwrap_or_default();
        let known: Vec<String> =
            known.iter().map(|(system, name)| alloc::format!("{system}:{name}")).collect();
        Problem::tracepoint(system, name, refusal, &known)
    };
    if !is_pattern(system) && !is_pattern(name) {
        return id(system, name).map(|one| alloc::vec![one]).map_err(unknown);
    }
    let all = catalogue.tracepoints().map_err(unknown)?;
    let matching = all.iter().filter(|(s, n)| glob(system, s) && glob(name, n));
    // Some entries of the file system can be written about but not opened; they have no id.
    let found: Vec<_> = matching.filter_map(|(system, name)| id(system, name).ok()).collect();
    if found.is_empty() { Err(unknown(crate::Refusal::Unknown)) } else { Ok(found) }
}
