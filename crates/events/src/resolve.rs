//! The last step: a parsed list becomes plain data about the events to open. Names are
//! looked up here; the meaning of terms is in `terms`.

use crate::catalogue::{Catalogue, Pmu, PmuEvent, Refusal, glob, is_pattern};
use crate::error::{EventError, Problem};
use crate::format::Config;
use crate::modifiers::Effects;
use crate::probe::ProbePlace;
use crate::spec::{EventSet, EventSpec, OnPmu, Source, unmodified};
use crate::terms::{self, Kind, Terms};
use crate::tree::{Event, EventList, Group, Item, Span, What};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use perfuse_abi::{Breakpoint, EventType};

impl EventList {
    /// Looks everything up. The order is that of the list; a tracepoint with wildcards, an event of several
    /// PMUs, and one of a cpu with several kinds of cores become as many events as there are.
    pub fn resolve(&self, catalogue: &dyn Catalogue) -> Result<Vec<EventSet>, EventError> {
        let mut sets = Vec::new();
        for item in &self.items {
            let resolved = match item {
                Item::Single(event) => single(event, catalogue).map(|events| sets.extend(events)),
                Item::Group(group) => together(group, catalogue).map(|groups| sets.extend(groups)),
            };
            resolved.map_err(|(at, problem)| EventError::new(&self.text, at, problem))?;
        }
        Ok(sets)
    }
}

pub(crate) type Resolved<T> = Result<T, (Span, Problem)>;

fn single(event: &Event, catalogue: &dyn Catalogue) -> Resolved<impl Iterator<Item = EventSet> + use<>> {
    let events = each(event, catalogue)?;
    Ok(events.into_iter().map(|(spec, effects)| EventSet {
        name: None,
        grouped: false,
        weak: effects.weak,
        events: alloc::vec![spec],
    }))
}

/// A group; where cores are of several kinds, or a name stands for several PMUs, one for each of them, as no PMU
/// counts another's events.
fn together(group: &Group, catalogue: &dyn Catalogue) -> Resolved<Vec<EventSet>> {
    let mut events = Vec::new();
    for event in &group.events {
        events.extend(each(event, catalogue)?);
    }
    let core = |spec: &EventSpec| {
        let pmu = spec.pmu.as_ref().filter(|pmu| pmu.is_core || pmu.common_name.is_some());
        pmu.map(|pmu| pmu.name.clone())
    };
    let mut cores: Vec<String> = Vec::new();
    for name in events.iter().filter_map(|(spec, _)| core(spec)) {
        if !cores.contains(&name) {
            cores.push(name);
        }
    }
    let first = cores.first().cloned();
    let mut sets = Vec::new();
    for of in if cores.is_empty() { alloc::vec![None] } else { cores.into_iter().map(Some).collect() } {
        let mut set = EventSet { name: group.name.clone(), grouped: true, weak: false, events: Vec::new() };
        for (spec, own) in events.iter().filter(|(spec, _)| core(spec).or(first.clone()) == of) {
            let mut effects = *own;
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
            let bare = EventSpec::with_effects(spec.name.clone(), spec.source, effects, has_modifiers);
            let (options, pmu, probe) = (spec.options.clone(), spec.pmu.clone(), spec.probe.clone());
            set.events.push(EventSpec { options, pmu, probe, ..bare });
        }
        sets.push(set);
    }
    Ok(sets)
}

/// The events that one event of the tree stands for, with what its own modifiers do.
fn each(event: &Event, catalogue: &dyn Catalogue) -> Resolved<Vec<(EventSpec, Effects)>> {
    let mut effects = unmodified();
    if let Some(modifiers) = event.modifiers.as_ref().filter(|modifiers| !modifiers.letters().is_empty()) {
        effects = Effects::default();
        modifiers.apply(&mut effects).map_err(|error| (event.at, Problem::Modifiers(error)))?;
    }
    let mut specs = specs(event, catalogue)?;
    for spec in &mut specs {
        let bare = EventSpec::with_effects(
            core::mem::take(&mut spec.name),
            spec.source,
            effects,
            event.modifiers.is_some(),
        );
        let (options, pmu, probe) = (core::mem::take(&mut spec.options), spec.pmu.take(), spec.probe.take());
        *spec = EventSpec { options, pmu, probe, ..bare };
    }
    Ok(specs.into_iter().map(|spec| (spec, effects)).collect())
}

/// The same without modifiers.
fn specs(event: &Event, catalogue: &dyn Catalogue) -> Resolved<Vec<EventSpec>> {
    let word = |config| Config { words: [config, 0, 0, 0, 0] };
    let (type_, config) = match &event.what {
        What::Hardware(hardware) => return on_cores(event, EventType::HARDWARE, hardware.0, catalogue),
        What::Cache(cache) => return on_cores(event, EventType::HW_CACHE, cache.config(), catalogue),
        What::Raw(code) => return on_cores(event, EventType::RAW, *code, catalogue),
        What::Software(software) => (EventType::SOFTWARE, software.0),
        What::Numeric { type_, config } => (EventType(*type_), *config),
        What::Tool(tool) => {
            terms::read(event, Kind::Tool)?;
            return Ok(alloc::vec![EventSpec::new(event.display_name(), Source::Tool(*tool))]);
        }
        What::Breakpoint { access, addr, len } => {
            let terms = terms::read(event, Kind::Breakpoint)?;
            // As perf: an instruction is as long as a `long`.
            let usual = if *access == Breakpoint::X { size_of::<usize>() as u64 } else { 4 };
            let source = Source::Breakpoint { access: *access, addr: *addr, len: len.unwrap_or(usual) };
            let spec = EventSpec::new(event.display_name(), source);
            return Ok(alloc::vec![EventSpec { options: terms.options, ..spec }]);
        }
        What::Probe(place) => {
            let terms = terms::read(event, Kind::Probe)?;
            let found = catalogue.probe(place);
            let found = found.map_err(|refusal| (event.at, Problem::probe(&event.spelling, refusal)))?;
            let each = found.into_iter().map(|probe| {
                // The name of the file is put in when it is opened.
                let source = Source::kernel(EventType(probe.type_), Config::default());
                let shown = match (place, probe.symbol.is_empty()) {
                    (ProbePlace::Uprobe { path, on_return, .. }, false) => {
                        let end = if *on_return { "%return" } else { "" };
                        let spelling = alloc::format!("uprobe:{path}:{}{end}", probe.symbol);
                        Event { spelling, ..event.clone() }.display_name()
                    }
                    _ => event.display_name(),
                };
                let spec = EventSpec::new(shown, source);
                let (options, probe) = (terms.options.clone(), Some(Box::new((place.clone(), probe))));
                EventSpec { options, probe, ..spec }
            });
            return Ok(each.collect());
        }
        What::Tracepoint { system, name } => {
            let found = tracepoints(system, name, catalogue).map_err(|problem| (event.at, problem))?;
            let terms = terms::read(event, Kind::Tracepoint)?;
            let each = found.into_iter().map(|(name, id)| {
                let spec = EventSpec::new(name, Source::kernel(EventType::TRACEPOINT, word(id)));
                EventSpec { options: terms.options.clone(), ..spec }
            });
            return Ok(each.collect());
        }
        What::Named(name) => return named(event, name, catalogue),
    };
    let Terms { config, options } = terms::read_onto(event, Kind::Fixed, word(config))?;
    let spec = EventSpec::new(event.display_name(), Source::kernel(type_, config));
    Ok(alloc::vec![EventSpec { options, ..spec }])
}

/// An event that every kind of cores has for itself.
fn on_cores(
    event: &Event,
    type_: EventType,
    config: u64,
    catalogue: &dyn Catalogue,
) -> Resolved<Vec<EventSpec>> {
    let Terms { config, options } =
        terms::read_onto(event, Kind::Fixed, Config { words: [config, 0, 0, 0, 0] })?;
    let cores = catalogue.cores();
    let known = cores.iter().filter_map(|name| Some((name, catalogue.pmu(name).ok()?)));
    let known: Vec<_> = known.collect();
    if known.len() < 2 {
        let spec = EventSpec::new(event.display_name(), Source::kernel(type_, config));
        return Ok(alloc::vec![EventSpec { options, ..spec }]);
    }
    let each = known.into_iter().map(|(name, pmu)| {
        let (mut type_, mut config) = (type_, config);
        match type_ {
            EventType::RAW => type_ = EventType(pmu.type_),
            _ => config.words[0] |= u64::from(pmu.type_) << 32,
        }
        let shown = event.display_name_on(name);
        let spec = EventSpec::new(shown, Source::kernel(type_, config));
        let pmu = on_pmu(name, pmu, PmuEvent::default());
        EventSpec { options: options.clone(), pmu: Some(pmu), ..spec }
    });
    Ok(each.collect())
}

fn on_pmu(name: &str, pmu: Pmu, event: PmuEvent) -> Box<OnPmu> {
    let PmuEvent { scale, snapshot, per_package, .. } = event;
    let (is_core, cpus) = (pmu.is_core, pmu.cpus);
    Box::new(OnPmu { name: name.into(), is_core, cpus, scale, snapshot, per_package, common_name: None })
}

/// `pmu/terms/`, or an event that a PMU names, perhaps with more terms.
fn named(event: &Event, name: &str, catalogue: &dyn Catalogue) -> Resolved<Vec<EventSpec>> {
    let unreadable = |refusal: Refusal| match refusal {
        Refusal::Unreadable(reason) if event.terms.is_some() => {
            (event.at, Problem::NoPmus { name: name.into(), reason })
        }
        _ => (event.at, Problem::unknown_event(name, &[])),
    };
    let all = catalogue.pmus().map_err(unreadable)?;
    let place = Span { start: event.at.start, end: event.at.start + name.len() };
    let own = event.terms.as_deref().unwrap_or_default();
    if event.terms.is_some() {
        let chosen = matching(name, &all, catalogue);
        let several = chosen.len() > 1;
        let mut specs = Vec::new();
        let mut problem = None;
        for pmu in chosen {
            let Ok(facts) = catalogue.pmu(&pmu) else { continue };
            match terms::of_pmu(own, &pmu, None, catalogue) {
                Ok((Terms { config, options }, described)) => {
                    let shown = if several { event.display_name_of(&pmu) } else { event.display_name() };
                    let type_ = legacy_type(&described.0, facts.type_);
                    let spec = EventSpec::new(shown, Source::kernel(type_, config));
                    let pmu = on_pmu(&pmu, facts, described.1);
                    specs.push(EventSpec { options, pmu: Some(pmu), ..spec });
                }
                Err(error) => drop(problem.get_or_insert(error)),
            }
        }
        // Of several PMUs some may lack an event that others have.
        match (specs.is_empty(), problem) {
            (false, _) => {
                shared(&mut specs, event);
                return Ok(specs);
            }
            (true, Some(problem)) => return Err(problem),
            (true, None) => {}
        }
    }
    let mut specs = Vec::new();
    for pmu in &all {
        let Some(described) = catalogue.pmu_event(pmu, name) else { continue };
        let Ok(facts) = catalogue.pmu(pmu) else { continue };
        let (Terms { config, options }, _) =
            terms::of_pmu(own, pmu, Some((name, described.clone(), place)), catalogue)?;
        let spec = EventSpec::new(event.display_name(), Source::kernel(EventType(facts.type_), config));
        let pmu = on_pmu(pmu, facts, described);
        specs.push(EventSpec { options, pmu: Some(pmu), ..spec });
    }
    if specs.len() > 1 {
        shared(&mut specs, event);
        for spec in &mut specs {
            let pmu = spec.pmu.as_ref().map_or("", |pmu| &pmu.name);
            spec.name = event.display_name_on(pmu);
        }
    }
    if !specs.is_empty() {
        return Ok(specs);
    }
    if event.terms.is_some() {
        return Err((place, Problem::unknown_pmu(name, &all)));
    }
    let known = all.iter().flat_map(|pmu| catalogue.pmu_events(pmu)).collect::<Vec<_>>();
    Err((place, Problem::unknown_event(name, &known)))
}

/// Of an event of several PMUs that are none of cores, the name they share.
fn shared(specs: &mut [EventSpec], event: &Event) {
    let several = specs.len() > 1;
    for pmu in specs.iter_mut().filter_map(|spec| spec.pmu.as_mut()).filter(|pmu| several && !pmu.is_core) {
        pmu.common_name = Some(event.display_name());
    }
}

/// `cpu/cycles/` is the common event on that PMU.
fn legacy_type(legacy: &Option<EventType>, pmu: u32) -> EventType {
    legacy.unwrap_or(EventType(pmu))
}

/// The PMUs that a name stands for: that of this name, or those it is a pattern for, or a prefix of, as
/// `imc` is of `uncore_imc_0`.
fn matching(name: &str, all: &[String], catalogue: &dyn Catalogue) -> Vec<String> {
    if let Some(exact) = all.iter().find(|pmu| *pmu == name) {
        return alloc::vec![exact.clone()];
    }
    if name == "cpu" {
        return catalogue.cores();
    }
    all.iter().filter(|pmu| is_meant_by(name, pmu)).cloned().collect()
}

/// Whether a PMU is one of those that a name stands for: a pattern, or what stands before its number.
pub(crate) fn is_meant_by(name: &str, pmu: &str) -> bool {
    if is_pattern(name) {
        return glob(name, pmu);
    }
    let rest = pmu.strip_prefix(name).or_else(|| pmu.strip_prefix("uncore_")?.strip_prefix(name));
    rest.is_some_and(is_number)
}

/// Whether this ending tells PMUs of a kind apart: nothing, a number, or three or more hexadecimal digits, perhaps after an
/// underscore.
fn is_number(rest: &str) -> bool {
    let digits = rest.strip_prefix('_').unwrap_or(rest);
    digits.bytes().all(|b| b.is_ascii_digit())
        || digits.len() >= 3 && digits.bytes().all(|b| b.is_ascii_hexdigit())
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
    if found.is_empty() { Err(unknown(Refusal::Unknown)) } else { Ok(found) }
}

impl Event {
    /// The name to show when it is counted on a PMU it does not name: `cpu_atom/cycles/u`.
    fn display_name_on(&self, pmu: &str) -> String {
        let named = self.terms.iter().flatten().any(|term| term.key == "name");
        if named {
            return self.display_name();
        }
        let terms = self.terms.iter().flatten().map(ToString::to_string);
        let inner: Vec<String> = core::iter::once(self.spelling.clone()).chain(terms).collect();
        let modifiers = self.modifiers.as_ref().map_or("", |modifiers| modifiers.letters());
        alloc::format!("{pmu}/{}/{modifiers}", inner.join(","))
    }

    /// The name to show on one of the PMUs that its name stands for.
    fn display_name_of(&self, pmu: &str) -> String {
        let named = self.terms.iter().flatten().any(|term| term.key == "name");
        if named {
            return self.display_name();
        }
        Event { spelling: pmu.into(), ..self.clone() }.display_name()
    }
}
