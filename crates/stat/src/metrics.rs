//! `-M`: metrics, that is numbers made of several events. Which events those are is found before anything is
//! counted; what the counts amount to, when there is a report.

use super::model::{Event, Outcome, Report, RowPlace};
use super::plan::resolve;
use super::plan::{Request, Requests};
use crate::Error;
pub use crate::measured::Measured;
use perfuse::Perf;
use perfuse::catalogue::{Depth, Entry, Kind, Listing, Prober, Works};
use perfuse_events::{
    Context, EventSpec, Expression, Machine, MachineFacts, Metric, Scale, Source, Tables, nearest,
};
use std::collections::BTreeMap;

/// How metrics are chosen and their events are counted.
#[derive(Clone, Debug, Default)]
pub struct MetricChoice {
    /// Metrics, by their names or those of their groups.
    pub metrics: Vec<String>,
    /// The events of a metric are counted one by one, not as a group.
    pub no_group: bool,
    /// No metric uses the events of another.
    pub no_merge: bool,
    /// No events are counted only to know whether a metric is beyond its threshold.
    pub no_threshold: bool,
}

/// A metric with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Value<'r> {
    /// The metric's name.
    pub name: &'r str,
    /// Its meaning.
    pub description: &'r str,
    /// In its unit. `None`: something it is made of was not counted, or there was a division by 0.
    pub value: Option<f64>,
    /// Its unit.
    pub scale: Option<&'r Scale>,
    /// The condition under which it is one to look at.
    pub threshold: Option<&'r Expression>,
    /// Its value is one to look at. `None`: nobody knows.
    pub is_beyond: Option<bool>,
}

/// Finds the metrics that were asked for, and adds their events to the others.
///
/// # Errors
///
/// [`Error::Plan`]: there is no such metric, or it cannot be made here.
pub fn add(
    options: &MetricChoice,
    whole_system: bool,
    machine: &Machine,
    requests: &mut Requests,
) -> Result<Vec<Measured>, Error> {
    if options.metrics.is_empty() {
        return Ok(Vec::new());
    }
    let Some(tables) = machine.tables.and_then(|tables| tables()) else { return Ok(Vec::new()) };
    let facts = MachineFacts { machine, whole_cores: whole_system };
    let mut drafts: Vec<Draft<'_>> = Vec::new();
    for wanted in options.metrics.iter().flat_map(|list| list.split(',')).map(str::trim) {
        let (name, modifiers) = wanted.split_once(':').unwrap_or((wanted, ""));
        let mut found = tables.metrics.iter().filter(|metric| metric.answers_to(name)).peekable();
        if found.peek().is_none() {
            return Err(unknown(name, tables));
        }
        let mut refused = None;
        let before = drafts.len();
        for metric in found {
            if drafts.iter().any(|draft| draft.metric == metric && draft.modifiers == modifiers) {
                continue;
            }
            match draft(metric, modifiers, options, tables, &facts) {
                Ok(draft) => drafts.push(draft),
                // Of a group, those are counted that can be.
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        if let (Some(error), true) = (refused, drafts.len() == before) {
            return Err(error);
        }
    }
    Ok(place(drafts, options, requests))
}

fn unknown(name: &str, tables: &Tables) -> Error {
    let known = || {
        let groups = tables.metrics.iter().flat_map(|metric| &metric.groups);
        tables.metrics.iter().map(|metric| &metric.name).chain(groups).map(String::as_str)
    };
    if name.starts_with("TopdownL") {
        return Error::Plan(format!(
            "there are no top-down metrics ('{name}') here; they come from tables of the processor's events (--events-dir)"
        ));
    }
    let close = nearest(name, known());
    let hint = match close.is_empty() {
        true => "; perfuse list metric shows those there are".to_owned(),
        false => format!("; did you mean {}?", close.join(", ")),
    };
    Error::Plan(format!("there is no metric or group of metrics '{name}'{hint}"))
}

/// A metric whose names were looked up.
struct Draft<'t> {
    metric: &'t Metric,
    modifiers: &'t str,
    others: Vec<Metric>,
    facts: BTreeMap<String, f64>,
    /// Names that are events, and what they are.
    names: Vec<(String, Vec<EventSpec>)>,
}

fn draft<'t>(
    metric: &'t Metric,
    modifiers: &'t str,
    options: &MetricChoice,
    tables: &Tables,
    facts: &MachineFacts<'_>,
) -> Result<Draft<'t>, Error> {
    let mut search = Search { tables, facts, chain: Vec::new(), others: Vec::new(), names: Vec::new() };
    search.metric(metric, !options.no_threshold)?;
    let Search { others, names, .. } = search;
    let wrong = |text: String| Error::Plan(format!("metric {}: {text}", metric.name));
    let mut known = BTreeMap::new();
    let mut events = Vec::new();
    for name in names {
        let list = if modifiers.is_empty() { name.clone() } else { format!("{name}:{modifiers}") };
        match (resolve(&list, facts.machine), facts.literal(&name)) {
            (Ok(sets), _) => {
                let mut specs: Vec<EventSpec> = sets.into_iter().flat_map(|set| set.events).collect();
                // Of an event that all kinds of cores have, the metric's own.
                let own = |spec: &EventSpec| {
                    metric.pmu.is_some() && spec.pmu.as_ref().map(|pmu| &pmu.name) == metric.pmu.as_ref()
                };
                if specs.iter().any(own) {
                    specs.retain(own);
                }
                events.push((name, specs));
            }
            // In newer tables the facts of the machine are written as events.
            (Err(_), Some(fact)) => drop(known.insert(name, fact)),
            (Err(_), None) => return Err(wrong(format!("there is no event {name} here"))),
        }
    }
    if events.is_empty() {
        return Err(wrong("it is made of nothing that can be counted".into()));
    }
    let mut all = vec![&metric.expression];
    all.extend(&metric.threshold);
    all.extend(others.iter().map(|other| &other.expression));
    all.into_iter().for_each(|expression| literals(expression, facts, &mut known));
    Ok(Draft { metric, modifiers, others, facts: known, names: events })
}

/// The events that a metric is made of on this machine.
///
/// # Errors
///
/// In words, why it cannot be made here.
pub fn events_of(metric: &Metric, machine: &Machine) -> Result<Vec<EventSpec>, String> {
    let Some(tables) = machine.tables.and_then(|tables| tables()) else { return Ok(Vec::new()) };
    let facts = MachineFacts { machine, whole_cores: false };
    let options = MetricChoice { no_threshold: true, ..MetricChoice::default() };
    let draft = draft(metric, "", &options, tables, &facts).map_err(|failure| failure.to_string())?;
    Ok(draft.names.into_iter().flat_map(|(_, specs)| specs).collect())
}

/// All events of a machine, its metrics and the forms in which others are written, of the kinds wanted, and whether they
/// work here, with this kernel.
pub fn catalogue(kernel: &Perf, machine: &Machine, depth: Depth, wanted: &dyn Fn(Kind) -> bool) -> Listing {
    let mut prober = Prober::new(kernel);
    let mut all = Listing::default();
    all.add_events(machine, depth, wanted, Some(&mut prober));
    if wanted(Kind::Metric) {
        add_metrics(&mut all, machine, Some(&mut prober));
    }
    if wanted(Kind::Form) {
        all.add_forms(machine, &mut prober);
    }
    all
}

/// The names alone: of events, and of metrics if those are asked for and no events.
pub fn catalogue_of_names(machine: &Machine, wanted: &dyn Fn(Kind) -> bool) -> Listing {
    let mut all = Listing::default();
    all.add_events(machine, Depth::Names, wanted, None);
    if wanted(Kind::Metric) && !wanted(Kind::Software) {
        add_metrics(&mut all, machine, None);
    }
    all
}

fn add_metrics(all: &mut Listing, machine: &Machine, mut prober: Option<&mut Prober>) {
    let tables = machine.tables.and_then(|tables| tables());
    for metric in tables.into_iter().flat_map(|tables| &tables.metrics) {
        let works = match &mut prober {
            None => Works::Unknown,
            Some(prober) => match events_of(metric, machine) {
                Err(reason) => {
                    let own = format!("metric {}: ", metric.name);
                    Works::no(reason.trim_start_matches(&own).to_owned(), Vec::new())
                }
                Ok(specs) => {
                    let tried = specs.iter().map(|spec| prober.try_event(Kind::Metric, spec));
                    // A single one that does not work, or only in part, is enough.
                    tried.reduce(Works::worse).unwrap_or(Works::Unknown)
                }
            },
        };
        all.entries.push(Entry {
            name: metric.name.clone(),
            aliases: metric.groups.clone(),
            kind: Kind::Metric,
            description: metric.description.clone(),
            encoding: None,
            terms: metric.expression.to_string(),
            unit: metric.scale.as_ref().map_or_else(String::new, |scale| scale.unit.clone()),
            works,
        });
    }
}

/// Follows a definition to the events that it is made of in the end.
struct Search<'s> {
    tables: &'s Tables,
    facts: &'s MachineFacts<'s>,
    /// The metrics that lead here.
    chain: Vec<String>,
    others: Vec<Metric>,
    names: Vec<String>,
}

impl Search<'_> {
    fn metric(&mut self, metric: &Metric, with_threshold: bool) -> Result<(), Error> {
        self.chain.push(metric.name.clone());
        if self.chain.len() > 50 {
            return Err(Error::Plan(format!("metrics are made of each other: {}", self.chain.join(", "))));
        }
        let threshold = metric.threshold.as_ref().filter(|_| with_threshold);
        for expression in std::iter::once(&metric.expression).chain(threshold) {
            for name in expression.names(self.facts) {
                // An event may have the name of the metric that is made of it.
                let is_self = self.chain.iter().any(|own| own.eq_ignore_ascii_case(name));
                if is_self && std::ptr::eq(expression, &metric.expression) {
                    self.event(name);
                } else if is_self || self.others.iter().any(|other| other.name.eq_ignore_ascii_case(name)) {
                    continue;
                } else if let Some(other) = self.tables.metric(name, metric.pmu.as_deref()) {
                    self.metric(other, false)?;
                    self.others.push(other.clone());
                } else {
                    self.event(name);
                }
            }
        }
        self.chain.pop();
        Ok(())
    }

    fn event(&mut self, name: &str) {
        if !self.names.iter().any(|own| own == name) {
            self.names.push(name.to_owned());
        }
    }
}

/// Takes the answers to what a definition asks of the machine along.
fn literals(expression: &Expression, facts: &MachineFacts<'_>, known: &mut BTreeMap<String, f64>) {
    /// Writes down what is asked, and answers.
    struct Asked<'a>(&'a MachineFacts<'a>, std::cell::RefCell<BTreeMap<String, f64>>);
    impl Asked<'_> {
        fn keep(&self, key: String, value: Option<f64>) -> Option<f64> {
            self.1.borrow_mut().insert(key, value.unwrap_or(f64::NAN));
            value
        }
    }
    impl Context for Asked<'_> {
        fn literal(&self, name: &str) -> Option<f64> {
            self.keep(format!("#{name}"), self.0.literal(name))
        }
        fn has_event(&self, name: &str) -> Option<bool> {
            let has = self.0.has_event(name);
            self.keep(format!("has_event {name}"), has.map(|has| f64::from(u8::from(has))));
            has
        }
        fn is_cpu(&self, pattern: &str) -> Option<bool> {
            let is = self.0.is_cpu(pattern);
            self.keep(format!("is_cpu {pattern}"), is.map(|is| f64::from(u8::from(is))));
            is
        }
        // A condition that hangs on a count may go either way: both are walked by `each`.
        fn value(&self, _name: &str) -> Option<f64> {
            Some(1.0)
        }
        fn source_count(&self, _name: &str) -> Option<f64> {
            Some(1.0)
        }
    }
    let asked = Asked(facts, Default::default());
    each(expression, &mut |part| {
        part.value(&asked);
    });
    known.extend(asked.1.into_inner());
}

/// Visits the parts that ask for facts.
fn each(expression: &Expression, visit: &mut dyn FnMut(&Expression)) {
    match expression {
        Expression::Negative(of) => each(of, visit),
        Expression::Binary(_, sides) | Expression::Call(_, sides) => {
            each(&sides.0, visit);
            each(&sides.1, visit);
        }
        Expression::If(parts) => {
            [&parts.0, &parts.1, &parts.2].into_iter().for_each(|part| each(part, visit))
        }
        Expression::Literal(_) | Expression::HasEvent(_) | Expression::IsCpu(_) => visit(expression),
        Expression::Number(_) | Expression::Name(_) | Expression::SourceCount(_) => {}
    }
}

/// Names with the events that count them.
type Counted = Vec<(String, Vec<usize>)>;

/// Gives each metric its events, or those of one that counts them all. The metrics are shown in their old order.
fn place(drafts: Vec<Draft<'_>>, options: &MetricChoice, requests: &mut Requests) -> Vec<Measured> {
    let mut order: Vec<usize> = (0..drafts.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(drafts[at].names.len()));
    let mut placed: Vec<(usize, Counted)> = Vec::new();
    for at in order {
        let draft = &drafts[at];
        let same =
            |other: &Draft<'_>| other.modifiers == draft.modifiers && other.metric.pmu == draft.metric.pmu;
        let found = |counted: &Counted| {
            let of =
                |(name, _): &(String, Vec<EventSpec>)| counted.iter().find(|(own, _)| own == name).cloned();
            draft.names.iter().map(of).collect::<Option<Counted>>()
        };
        let mut others = placed.iter().filter(|(other, _)| same(&drafts[*other]) && !options.no_merge);
        let counted = match others.find_map(|(_, counted)| found(counted)) {
            Some(counted) => counted,
            None => {
                let grouped = !(draft.metric.apart || options.no_group);
                requests.add_metric(&draft.names, grouped)
            }
        };
        placed.push((at, counted));
    }
    placed.sort_by_key(|(at, _)| *at);
    let measured = |(draft, (_, counted)): (Draft<'_>, (usize, Counted))| {
        let is_tools = |at: &usize| requests.all[*at].spec.is_tools();
        let leader = counted.iter().flat_map(|(_, events)| events.iter().copied());
        let leader = leader.min_by_key(|at| (is_tools(at), *at)).unwrap_or(0);
        let name = match draft.modifiers {
            "" => draft.metric.name.clone(),
            modifiers => format!("{}:{modifiers}", draft.metric.name),
        };
        let mut metric = draft.metric.clone();
        metric.name = name;
        let sources = counted.iter().map(|(name, events)| (name.clone(), events.len())).collect();
        Measured { metric, others: draft.others, counted, sources, facts: draft.facts, leader }
    };
    drafts.into_iter().zip(placed).map(measured).collect()
}

impl Requests {
    /// Adds the events of a metric, those of each PMU as a weak group. Events that perfuse measures itself are asked
    /// for once.
    fn add_metric(&mut self, names: &[(String, Vec<EventSpec>)], grouped: bool) -> Counted {
        let pmu = |spec: &EventSpec| spec.pmu.as_ref().map(|pmu| pmu.name.clone());
        let counted = |spec: &EventSpec| !spec.is_tools();
        let all: Vec<&EventSpec> = names.iter().flat_map(|(_, specs)| specs).collect();
        let first = all.iter().filter(|spec| counted(spec)).find_map(|spec| pmu(spec));
        // Events of no PMU of their own go with the first that has one.
        let key = |spec: &EventSpec| pmu(spec).or_else(|| first.clone());
        let mut groups: Vec<(Option<String>, u32)> = Vec::new();
        for spec in all.iter().copied().filter(|spec| grouped && counted(spec)) {
            let members = all.iter().filter(|other| counted(other) && key(other) == key(spec)).count();
            if members > 1 && !groups.iter().any(|(own, _)| *own == key(spec)) {
                self.groups += 1;
                groups.push((key(spec), self.groups));
            }
        }
        // A group stands together in the list.
        let mut sorted: Vec<(usize, &EventSpec)> = names
            .iter()
            .enumerate()
            .flat_map(|(name, (_, specs))| specs.iter().map(move |s| (name, s)))
            .collect();
        sorted.sort_by_key(|(_, spec)| {
            let group = groups.iter().position(|(own, _)| counted(spec) && *own == key(spec));
            (spec.is_tools(), group)
        });
        let mut found: Counted = names.iter().map(|(name, _)| (name.clone(), Vec::new())).collect();
        for (name, spec) in sorted {
            let group =
                groups.iter().find(|(own, _)| counted(spec) && *own == key(spec)).map(|(_, group)| *group);
            let known = |request: &Request| {
                request.spec == *spec && request.group.is_none() && request.cgroup.is_none()
            };
            let known = self.all.iter().position(known).filter(|_| group.is_none());
            let at = known.unwrap_or(self.all.len());
            if known.is_none() {
                let wish = u32::MAX - u32::try_from(name).unwrap_or(0);
                self.all.push(Request {
                    spec: spec.clone(),
                    group,
                    weak: group.is_some(),
                    cgroup: None,
                    wish,
                    filter: None,
                });
            }
            found[name].1.push(at);
        }
        found
    }
}

/// Computes a metric from the counts at a place.
pub fn value<'r>(report: &'r Report, measured: &'r Measured, place: &RowPlace) -> Value<'r> {
    let mut counts = Counts { report, measured, place, metrics: BTreeMap::new() };
    for other in &measured.others {
        let value = other.expression.value(&counts);
        counts.metrics.insert(other.name.to_ascii_lowercase(), value);
    }
    let metric = &measured.metric;
    let plain = metric.expression.value(&counts);
    let own_name = metric.name.split(':').next().unwrap_or_default().to_ascii_lowercase();
    counts.metrics.insert(own_name, plain);
    let beyond = metric.threshold.as_ref().map(|threshold| threshold.value(&counts));
    let value = plain * metric.scale.as_ref().map_or(1.0, |scale| scale.factor);
    Value {
        name: &metric.name,
        description: &metric.description,
        value: Some(value).filter(|value| value.is_finite()),
        scale: metric.scale.as_ref(),
        threshold: metric.threshold.as_ref(),
        is_beyond: beyond
            .filter(|_| plain.is_finite())
            .filter(|beyond| !beyond.is_nan())
            .map(|beyond| beyond != 0.0),
    }
}

/// The metrics that stand next to an event at a place.
pub fn beside<'r>(report: &'r Report, event: usize, place: &'r RowPlace) -> impl Iterator<Item = Value<'r>> {
    let here = report.metrics.iter().filter(move |measured| measured.leader == event);
    here.map(move |measured| value(report, measured, place))
}

struct Counts<'r> {
    report: &'r Report,
    measured: &'r Measured,
    place: &'r RowPlace,
    metrics: BTreeMap<String, f64>,
}

impl Counts<'_> {
    fn events(&self, name: &str) -> Option<&[usize]> {
        self.measured.counted.iter().find(|(own, _)| own == name).map(|(_, events)| events.as_slice())
    }

    fn fact(&self, key: &str) -> Option<f64> {
        self.measured.facts.get(key).copied().filter(|value| !value.is_nan())
    }
}

impl Context for Counts<'_> {
    fn literal(&self, name: &str) -> Option<f64> {
        self.fact(&format!("#{name}"))
    }

    fn has_event(&self, name: &str) -> Option<bool> {
        self.fact(&format!("has_event {name}")).map(|has| has != 0.0)
    }

    fn is_cpu(&self, pattern: &str) -> Option<bool> {
        self.fact(&format!("is_cpu {pattern}")).map(|is| is != 0.0)
    }

    fn value(&self, name: &str) -> Option<f64> {
        if let Some(value) = self.metrics.get(&name.to_ascii_lowercase()) {
            return Some(*value);
        }
        match self.events(name) {
            // On kinds of cores where nothing ran, nothing happened.
            Some(events) => {
                let values = events.iter().filter_map(|&at| counted(&self.report.events[at], self.place));
                values.reduce(|a, b| a + b)
            }
            None => self.fact(name),
        }
    }

    fn source_count(&self, name: &str) -> Option<f64> {
        self.measured.sources.get(name).map(|&sources| sources as f64)
    }
}

/// The count of an event at a place, as definitions want it: what the kernel counted, and times in seconds.
fn counted(event: &Event, place: &RowPlace) -> Option<f64> {
    let row = match event.source {
        // A value that is measured once for all places is shown at the first.
        Source::Tool(_) => event.rows.iter().find(|row| matches!(row.outcome, Outcome::Counted(_))),
        _ => event.row_at(place),
    };
    let factor = if matches!(event.source, Source::Tool(_)) { 1e-9 } else { 1.0 };
    row?.spread().map(|spread| spread.mean * factor)
}
