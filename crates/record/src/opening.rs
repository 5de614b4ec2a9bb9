//! Opening the events on whom they are to measure: the step from cycles to a clock where there is no PMU,
//! threads that start meanwhile, filters, and what is said about all that.

use crate::attrs::{self, Wanted};
use crate::clocks::Clocks;
use crate::plan::{Plan, Request, Target};
use crate::sieve::{self, Sieve};
use crate::{Remark, rings, terms};
use perfuse::abi::{AttrFlags, EventType, Software};
use perfuse::diagnosis::Cause;
use perfuse::{HeldCommand, RingOptions, SamplerSet, Scope};
use perfuse_events::{EventSpec, Source};
use perfuse_sys::{Errno, page_size};
use perfuse_trace::Expr;
use std::collections::BTreeSet;
use std::fs;

/// Open events with their rings.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) set: SamplerSet,
    /// The events of the set, without the one that only tells about tasks.
    pub(crate) requests: Vec<Request>,
    /// Names of all events of the set.
    pub(crate) names: Vec<String>,
    /// Index of the event that tells about tasks.
    pub(crate) tracker: usize,
    /// News for the user: options that were given up, or work otherwise than one might think.
    pub(crate) remarks: Vec<Remark>,
    /// How each event was opened.
    pub(crate) details: Vec<String>,
    /// What of filters the kernel cannot do.
    pub(crate) sieve: Sieve,
}

/// Opens what the plan asks for, and tells which plan it was. It steps down as often as something is lacking, whatever else was
/// given up before: from cycles to the clock, from weak groups to single events, from threads to cpus. Where only the clock can be
/// sampled, that of the cpus by `following` is better than one of the command's own, if it may be had; and where processes have
/// more threads than there are descriptors, the cpus can be had.
pub(crate) fn open<'p>(
    mut plan: &'p Plan,
    following: Option<&'p Plan>,
    command: Option<&HeldCommand>,
) -> Result<(&'p Plan, Opened), crate::Error> {
    let mut remarks = Vec::new();
    let mut requests = plan.events.clone();
    let mut is_clock = false;
    let opened = loop {
        match attempt(plan, &requests, command) {
            // The clock has no branches either: then it is the PMU that is missed.
            Err(error)
                if plan.default_events && !is_clock && error.is_unsupported() && !needs_branches(plan) =>
            {
                let (rate, chains) = (plan.rate, plan.chains);
                remarks.push(Remark::Clock { why: error.cause().words(), rate, chains });
                let sampled = requests.iter_mut().filter(|request| request.spec.is_cycles());
                sampled.for_each(|request| request.spec = in_place_of(&request.spec));
                is_clock = true;
                let following = following.filter(|_| plan.target == Target::Command);
                if let Some((following, opened)) = on_cpus(following, &requests, command) {
                    plan = following;
                    break opened;
                }
            }
            Err(error)
                if error.cause() == Cause::Group
                    && requests.iter().any(|request| request.weak && request.group.is_some()) =>
            {
                remarks.push(Remark::WeakGroups(error.cause().words()));
                for request in requests.iter_mut().filter(|request| request.weak) {
                    request.group = None;
                }
            }
            Err(error)
                if error.cause() == Cause::OpenFiles && matches!(plan.target, Target::Processes(_)) =>
            {
                let Some((following, opened)) = on_cpus(following, &requests, command) else {
                    return Err(error.into());
                };
                remarks.push(Remark::Following(error.diagnosis().explanation.clone()));
                plan = following;
                break opened;
            }
            opened => break opened?,
        }
    };
    let (set, Wanted { tracker, .. }, missed) = opened;
    if missed {
        remarks.push(Remark::ThreadsMissed);
    }
    let mut opened = Opened {
        set,
        requests,
        names: Vec::new(),
        tracker,
        remarks,
        details: Vec::new(),
        sieve: Sieve::default(),
    };
    opened.filter(plan)?;
    opened.describe(plan);
    Ok((plan, opened))
}

/// Opens these events on whole cpus, if the plan for that is there and can be had.
fn on_cpus<'p>(
    following: Option<&'p Plan>,
    requests: &[Request],
    command: Option<&HeldCommand>,
) -> Option<(&'p Plan, (SamplerSet, Wanted, bool))> {
    following.and_then(|plan| Some((plan, attempt(plan, requests, command).ok()?)))
}

fn needs_branches(plan: &Plan) -> bool {
    terms::any_branches(plan)
}

pub(crate) fn cpu_clock() -> EventSpec {
    let (type_, config) = (EventType::SOFTWARE, Software::CPU_CLOCK.0);
    EventSpec::new("cpu-clock", Source::Kernel { type_, config, more: [0; 4] })
}

/// The clock that is sampled where there are no such cycles: of the same sides, and read in the same way.
fn in_place_of(cycles: &EventSpec) -> EventSpec {
    let mut clock = cpu_clock();
    (clock.exclude, clock.sample_read) = (cycles.exclude, cycles.sample_read);
    let letters = cycles.name.split_once(':').map_or("", |(_, letters)| letters);
    let letters: String = letters.chars().filter(|letter| !"pP".contains(*letter)).collect();
    if !letters.is_empty() {
        (clock.name, clock.has_modifiers) = (format!("{}:{letters}", clock.name), true);
    }
    clock
}

/// Opens these events; the flag tells that threads may have been missed.
pub(crate) fn attempt(
    plan: &Plan,
    requests: &[Request],
    command: Option<&HeldCommand>,
) -> Result<(SamplerSet, Wanted, bool), perfuse::Error> {
    /// Threads that start other threads all the time are never all known.
    const ATTEMPTS: usize = 5;
    let wanted = attrs::wanted(plan, requests)?;
    for number in 1.. {
        let before = threads(plan);
        let scope = scope(plan, command)?;
        let scope = if plan.inherit { scope } else { scope.without_children() };
        let open = |scope: Scope, rings| {
            let pages = plan.pages.unwrap_or_else(|| rings::default_pages(plan, rings));
            let ring = RingOptions { pages, exact: false, overwrite: plan.overwrite };
            SamplerSet::open(&scope, &wanted.events, ring)
        };
        let cpus = plan.kernel.surroundings().online_cpus().len();
        let set = match plan.by_thread {
            true => match open(scope.clone().by_thread(), scope.slots().len()) {
                // Of so many rings the smallest are too much: threads share those of the cpus.
                Err(error) if error.cause() == Cause::LockedMemory => open(scope, cpus)?,
                opened => opened?,
            },
            false => open(scope, cpus)?,
        };
        // A thread that started before its parent was attached is not inherited.
        let missed = before != threads(plan);
        if !missed || number >= ATTEMPTS {
            return Ok((set, wanted, missed));
        }
    }
    unreachable!("the last attempt returns")
}

fn threads(plan: &Plan) -> BTreeSet<u32> {
    let Target::Processes(pids) = &plan.target else { return BTreeSet::new() };
    let surroundings = plan.kernel.surroundings();
    pids.iter().flat_map(|&pid| surroundings.threads(pid).unwrap_or_default()).collect()
}

fn scope(plan: &Plan, command: Option<&HeldCommand>) -> Result<Scope, perfuse::Error> {
    Ok(match (&plan.target, command) {
        (Target::Processes(pids), _) => Scope::processes_of(plan.kernel.surroundings(), pids)?,
        (Target::Threads(tids), _) => Scope::threads(tids),
        // Tasks begin and map their code anywhere before they come to the cpus that are sampled.
        (Target::Cpus(cpus), _) => {
            let online = plan.kernel.surroundings().online_cpus();
            Scope::cpus(
                &online
                    .into_iter()
                    .chain(cpus.iter().copied())
                    .collect::<BTreeSet<_>>()
                    .into_iter()
                    .collect::<Vec<_>>(),
            )
        }
        (Target::Command, Some(command)) => Scope::command(command),
        // A plan for a command is never opened without one.
        (Target::Command, None) => Scope::threads(&[]),
    })
}

impl Opened {
    /// Puts the filters into the kernel.
    fn filter(&mut self, plan: &Plan) -> Result<(), crate::Error> {
        for (index, request) in self.requests.iter().enumerate() {
            let Some(text) = &request.filter else { continue };
            let name = &request.spec.name;
            if !request.is_tracepoint() {
                let why = format!("--filter is for tracepoints, and {name} is none");
                return Err(crate::Error::Plan(why));
            }
            let attr = self.set.attr(index).copied().unwrap_or_default();
            let split = sieve::split(request, &attr, plan.kernel.facts().is_embedded)?;
            let ids =
                self.set.sources().iter().filter(|source| source.event == index).map(|source| source.id);
            let told = split.kernel.clone();
            self.sieve.add(split, &attr, ids, self.requests.len() == 1);
            let Some(told) = told else { continue };
            self.set.set_filter(index, &told).map_err(|error| {
                let fields = fields_of(name).map(|fields| format!("; its fields: {fields}"));
                let why = match error.errno() {
                    Errno::EINVAL => "the kernel does not understand it".to_owned(),
                    errno => errno.to_string(),
                };
                let fields = fields.unwrap_or_default();
                // Of what nobody understands, the place is told.
                match text.parse::<Expr>() {
                    Err(fault) if error.errno() == Errno::EINVAL => {
                        crate::Error::Filter(format!("--filter for {name}: {}", fault.explain()))
                    }
                    _ => crate::Error::Filter(format!("--filter '{text}' for {name}: {why}{fields}")),
                }
            })?;
        }
        Ok(())
    }

    /// Names the events as what they are, and says what they are not.
    fn describe(&mut self, plan: &Plan) {
        let mut without_kernel = Vec::new();
        let mut given_up = BTreeSet::new();
        for (index, request) in self.requests.iter().enumerate() {
            let mut name = request.spec.name.clone();
            let kernel = |given: &perfuse::GivenUp| given.what == "kernel side";
            if self.set.given_up(index).iter().any(kernel) {
                without_kernel.push(name.clone());
                // perf appends the modifier in the same way.
                name += if name.contains([':', '/']) { "u" } else { ":u" };
            }
            self.names.push(name);
        }
        let events = self.names.len().max(self.tracker + 1);
        if self.names.len() < events {
            self.names.push("dummy:u".to_owned());
        }
        for index in 0..events {
            let Some(attr) = self.set.attr(index) else { continue };
            let gone = self.set.given_up(index);
            let list: Vec<_> = gone.iter().map(|given| format!("; without {given}")).collect();
            self.details.push(format!("{}: {attr}{}", self.names[index], list.concat()));
            // Options that perf gives up silently as well are no news, unless the user asks.
            let silent = ["kernel side", "precise_ip", "inherit"];
            let asked = gone.iter().filter(|given| !silent.contains(&&*given.what));
            given_up.extend(asked.map(ToString::to_string));
        }
        if plan.verbose || given_up.iter().any(|given| !given.contains("does not know")) {
            self.remarks.extend(given_up.into_iter().map(Remark::Without));
        }
        let alone = |index: &usize| {
            self.set.given_up(*index).iter().any(|given| given.why == perfuse::GivenUpWhy::BreaksForks)
        };
        let alone: Vec<_> = (0..events).filter(alone).map(|index| self.names[index].clone()).collect();
        if !alone.is_empty() {
            self.remarks.push(Remark::ProbesAlone(alone));
        }
        let inherit = |given: &perfuse::GivenUp| {
            given.what == "inherit" && given.why != perfuse::GivenUpWhy::BreaksForks
        };
        if (0..events).any(|index| self.set.given_up(index).iter().any(inherit)) {
            self.remarks.push(Remark::NotInherited);
        }
        if !without_kernel.is_empty() {
            self.remarks.push(Remark::UserOnly(setting(plan, "perf_event_paranoid")));
        }
        if plan.by_thread && (0..self.set.rings()).any(|ring| self.set.cpu(ring).is_some()) {
            self.remarks.push(Remark::SharedRings);
        }
        let size = self.set.ring_bytes();
        let wished = plan.pages.unwrap_or_else(|| rings::default_pages(plan, self.set.rings()));
        let wished = wished.next_power_of_two() * page_size();
        let missed = if plan.pages.is_some() { wished } else { wished.min(128 * page_size()) };
        if (1..missed).contains(&size) {
            let limit = setting(plan, "perf_event_mlock_kb");
            self.remarks.push(Remark::SmallRings { bytes: size, wished, limit });
        }
    }

    /// The clocks among the events, by the ids of their samples.
    pub(crate) fn clocks(&self) -> Clocks {
        let mut clocks = Clocks::default();
        for source in self.set.sources().iter().filter(|source| source.event < self.requests.len()) {
            self.set.attr(source.event).into_iter().for_each(|attr| clocks.add(source.id, attr));
        }
        clocks
    }

    /// Whether the kernel's side is recorded.
    pub(crate) fn has_kernel(&self) -> bool {
        (0..self.requests.len()).any(|index| {
            self.set.attr(index).is_some_and(|attr| !attr.flags.contains(AttrFlags::EXCLUDE_KERNEL))
        })
    }
}

/// A setting of the running kernel; nothing where another machine is measured.
fn setting(plan: &Plan, name: &str) -> String {
    if plan.kernel.facts().is_simulated {
        return String::new();
    }
    let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    text.trim().to_owned()
}

/// The fields of a tracepoint, from its format.
fn fields_of(name: &str) -> Option<String> {
    let path = perfuse::tracefs::root().ok()?.join("events").join(name.replace(':', "/")).join("format");
    let text = fs::read_to_string(path).ok()?;
    let fields = text.lines().filter_map(|line| {
        let declaration = line.trim().strip_prefix("field:")?.split(';').next()?;
        let field = declaration.split_whitespace().last()?.split('[').next()?;
        Some(field.trim_start_matches('*').to_owned())
    });
    Some(fields.collect::<Vec<_>>().join(", "))
}
