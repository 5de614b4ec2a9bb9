//! The meaning of the terms between slashes: words of the attr, terms and events of a PMU, and options for the
//! measuring tool.

use crate::cache;
use crate::catalogue::{Catalogue, PmuEvent};
use crate::error::Problem;
use crate::format::{Config, WORDS};
use crate::names;
use crate::parser::{number, raw};
use crate::resolve::Resolved;
use crate::spec::{CallGraph, EventOptions};
use crate::tree::{Event, Span, Term};
use alloc::string::String;
use alloc::vec::Vec;
use perfuse_abi::{AuxAction, EventType};

/// The sum of the terms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) config: Config,
    pub(crate) options: EventOptions,
}

/// The kinds of events, which take different terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An event with a fixed meaning: words of the attr, and options.
    Fixed,
    /// A tracepoint: options but for its name and its rate, as in perf.
    Tracepoint,
    /// A probe by its place: all options.
    Probe,
    /// Accesses to memory, and what the tool measures itself: their name.
    Breakpoint,
    Tool,
}

/// Terms that are no part of a PMU.
const COMMON: &[&str] = &[
    "name",
    "period",
    "freq",
    "call-graph",
    "stack-size",
    "max-stack",
    "time",
    "inherit",
    "no-inherit",
    "overwrite",
    "no-overwrite",
    "branch_type",
    "percore",
    "nr",
    "aux-output",
    "aux-sample-size",
    "aux-action",
    "metric-id",
    "cpu",
    "config",
    "config1",
    "config2",
    "config3",
    "config4",
];

/// Terms of an event without words.
pub(crate) fn read(event: &Event, kind: Kind) -> Resolved<Terms> {
    read_onto(event, kind, Config::default())
}

/// Terms on top of these words.
pub(crate) fn read_onto(event: &Event, kind: Kind, config: Config) -> Resolved<Terms> {
    let mut terms = Terms { config, options: EventOptions::default() };
    for term in event.terms.iter().flatten() {
        let word = WORDS.iter().position(|name| *name == term.key);
        let takes = match kind {
            Kind::Fixed => true,
            Kind::Probe => word.is_none(),
            Kind::Breakpoint | Kind::Tool => term.key == "name",
            Kind::Tracepoint => {
                word.is_none()
                    && !["name", "period", "freq", "time", "percore", "metric-id"].contains(&&*term.key)
            }
        };
        match word {
            Some(word) if takes => terms.config.words[word] = value(term)?,
            _ if takes && option(term, &mut terms.options)? => {}
            _ => {
                let known = COMMON.iter().copied();
                return Err((term.at, Problem::unknown_term(&term.key, "", known)));
            }
        }
    }
    Ok(terms)
}

/// The form of a term's value, for messages.
pub(crate) fn values(key: &str) -> &'static str {
    match key {
        "time" | "inherit" | "no-inherit" | "overwrite" | "no-overwrite" | "percore" | "aux-output" => {
            "0 or 1"
        }
        "call-graph" => "fp, dwarf, lbr or no",
        "aux-action" => "start-paused, pause or resume",
        "branch_type" => "kinds of branches, such as any or 'any_call,u', or no",
        "name" | "metric-id" => "a name",
        "max-stack" => "a number below 65536",
        "stack-size" | "aux-sample-size" | "cpu" => "a number of 32 bits",
        _ => "a number of 64 bits",
    }
}

fn wrong(term: &Term) -> (Span, Problem) {
    (term.at, Problem::TermValue(term.key.clone()))
}

/// A number; as in perf, 1 where none is given.
fn value(term: &Term) -> Resolved<u64> {
    term.value.as_deref().map_or(Some(1), number).ok_or_else(|| wrong(term))
}

/// A number that may be left out, and is 1 then.
fn switch(term: &Term) -> Resolved<bool> {
    match term.value.as_deref().map(number) {
        None | Some(Some(1)) => Ok(true),
        Some(Some(0)) => Ok(false),
        Some(_) => Err(wrong(term)),
    }
}

/// Takes a term that any event may have; `false` if it is none.
fn option(term: &Term, options: &mut EventOptions) -> Resolved<bool> {
    let text = || term.value.clone().filter(|text| !text.is_empty()).ok_or_else(|| wrong(term));
    let small = || value(term).and_then(|value| u32::try_from(value).map_err(|_| wrong(term)));
    match term.key.as_str() {
        // The name is the tree's business.
        "name" | "metric-id" => drop(text()?),
        // Of the two, the last one holds.
        "period" => (options.period, options.frequency) = (Some(value(term)?), None),
        "freq" => (options.period, options.frequency) = (None, Some(value(term)?)),
        "time" => options.time = Some(switch(term)?),
        "call-graph" => {
            options.call_graph = Some(match &*text()? {
                "no" | "false" => CallGraph::No,
                "fp" => CallGraph::FramePointers,
                "dwarf" => CallGraph::Dwarf,
                "lbr" => CallGraph::LastBranches,
                _ => return Err(wrong(term)),
            });
        }
        "stack-size" => options.stack_size = Some(small()?),
        "max-stack" => options.max_stack = Some(u16::try_from(value(term)?).map_err(|_| wrong(term))?),
        "inherit" => options.inherit = Some(switch(term)?),
        "no-inherit" => options.inherit = Some(!switch(term)?),
        "overwrite" => options.overwrite = Some(switch(term)?),
        "no-overwrite" => options.overwrite = Some(!switch(term)?),
        "branch_type" => options.branch_type = Some(text()?),
        "percore" => options.per_core = switch(term)?,
        "nr" => options.most = Some(value(term)?),
        "aux-output" => options.aux_output = switch(term)?,
        "aux-sample-size" => options.aux_sample_size = Some(small()?),
        "aux-action" => {
            options.aux_action = Some(match &*text()? {
                "start-paused" => AuxAction::START_PAUSED,
                "pause" => AuxAction::PAUSE,
                "resume" => AuxAction::RESUME,
                _ => return Err(wrong(term)),
            });
        }
        "cpu" => {
            let cpu = small()?;
            let cpus = options.cpus.get_or_insert_default();
            if !cpus.contains(&cpu) {
                cpus.push(cpu);
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The event that a PMU's terms describe: the type of a common event, if one of them names it, and what
/// is known of an event that the PMU names.
pub(crate) type Described = (Option<EventType>, PmuEvent);

/// Terms of a PMU's event. `of` is the event, by name, that they change, and where it stands.
pub(crate) fn of_pmu(
    own: &[Term],
    pmu: &str,
    of: Option<(&str, PmuEvent, Span)>,
    catalogue: &dyn Catalogue,
) -> Resolved<(Terms, Described)> {
    let mut reading = Reading { pmu, catalogue, terms: Terms::default(), legacy: None, params: &[] };
    let mut described = of.as_ref().map(|(_, event, _)| event.clone());
    // The user's own terms come after those that the event's name stands for.
    let mut rest: Vec<&Term> = Vec::new();
    let mut aliases: Vec<(PmuEvent, Span)> = of.into_iter().map(|(_, event, at)| (event, at)).collect();
    for term in own {
        let is_format = catalogue.format(pmu, &term.key).is_some();
        let event =
            (term.value.is_none() && !is_format).then(|| catalogue.pmu_event(pmu, &term.key)).flatten();
        match event {
            Some(event) => {
                described = Some(event.clone());
                aliases.push((event, term.at));
            }
            None => rest.push(term),
        }
    }
    let mut used = Vec::new();
    for (event, at) in aliases {
        reading.params = own;
        reading.alias(&event, at, &mut used)?;
    }
    reading.params = &[];
    for term in rest.into_iter().filter(|term| !used.contains(&term.key)) {
        reading.term(term)?;
    }
    Ok((reading.terms, (reading.legacy, described.unwrap_or_default())))
}

struct Reading<'a> {
    pmu: &'a str,
    catalogue: &'a dyn Catalogue,
    terms: Terms,
    legacy: Option<EventType>,
    /// Where the values of terms such as `core=?` are to be found.
    params: &'a [Term],
}

impl Reading<'_> {
    /// The terms that an event's name stands for.
    fn alias(&mut self, event: &PmuEvent, at: Span, used: &mut Vec<String>) -> Resolved<()> {
        for text in event.terms.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            let (key, value) = match text.split_once('=') {
                Some((key, value)) => (key.trim(), Some(value.trim())),
                None => (text, None),
            };
            let mut term = Term { key: key.into(), value: value.map(Into::into), at };
            if value == Some("?") {
                let given = self.params.iter().find(|given| given.key == key);
                let Some(given) = given else { return Err((at, Problem::MissingParameter(key.into()))) };
                used.push(key.into());
                term.clone_from(given);
            }
            match key {
                "period" => self.terms.options.proposed_period = term.value.as_deref().and_then(number),
                _ => self.term(&term)?,
            }
        }
        Ok(())
    }

    fn term(&mut self, term: &Term) -> Resolved<()> {
        let config = &mut self.terms.config;
        if let Some(word) = WORDS.iter().position(|name| *name == term.key) {
            config.words[word] = value(term)?;
            return Ok(());
        }
        if let Some(format) = self.catalogue.format(self.pmu, &term.key) {
            let number = match &term.value {
                None => 1,
                Some(text) => number(text).ok_or_else(|| wrong(term))?,
            };
            if !format.apply(number, config) {
                return Err((term.at, Problem::TermTooLarge { key: term.key.clone(), max: format.max() }));
            }
            return Ok(());
        }
        if option(term, &mut self.terms.options)? {
            return Ok(());
        }
        if let Some(text) = term.key.strip_prefix('@') {
            let text = match &term.value {
                Some(value) => alloc::format!("{text}={value}"),
                None => text.into(),
            };
            self.terms.options.driver.push(text);
            return Ok(());
        }
        if term.value.is_none() && self.common_event(&term.key) {
            return Ok(());
        }
        let formats = self.catalogue.formats(self.pmu);
        let events = self.catalogue.pmu_events(self.pmu);
        let known = formats.iter().chain(&events).map(String::as_str).chain(COMMON.iter().copied());
        Err((term.at, Problem::unknown_term(&term.key, self.pmu, known)))
    }

    /// `cpu/r1a8/`, `cpu/cycles/`, `cpu/L1-dcache-misses/`.
    fn common_event(&mut self, name: &str) -> bool {
        let hex = |text: &str| text.strip_prefix("r0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        if let Some(code) = raw(name).or_else(|| hex(name)) {
            self.terms.config.words[0] = code;
            return true;
        }
        let facts = self.catalogue.pmu(self.pmu).ok();
        let Some(facts) = facts.filter(|facts| facts.is_core) else { return false };
        let (type_, config) = match (names::hardware(name), cache::read(name)) {
            (Some(event), _) => (EventType::HARDWARE, event.0),
            (None, Some(cache::Read::Event(event))) => (EventType::HW_CACHE, event.config()),
            _ => return false,
        };
        self.legacy = Some(type_);
        self.terms.config.words[0] = config | u64::from(facts.type_) << 32;
        true
    }
}
