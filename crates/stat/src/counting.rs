//! The events of a plan, open on their targets: opened, switched, and read into the rows of a report.

use super::model::{Aggregation, Missing, MissingKind, Outcome, Reading, RowPlace};
use super::plan::{Plan, Request, Target};
use perfuse::diagnosis::Cause;
use perfuse::kernel::Seat;
use perfuse::{
    Answers, Builder, Cgroup, Count, Counter, CounterSet, Error, GivenUpWhy, HeldCommand, Scope, SetEvent,
    Slot, Start,
};
use perfuse_events::abi::{Attr, AttrFlags, EventType, ReadFormat, SampleType, Software};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Open events.
#[derive(Debug)]
pub(crate) struct Counting {
    set: CounterSet,
    /// For each event of the plan its place in the set; `None` for those the kernel does not count.
    indices: Vec<Option<usize>>,
    /// The rows with their number of targets, and for each target the one it belongs to.
    places: Vec<(RowPlace, u32)>,
    row_of_slot: Vec<usize>,
    /// The counts at the end of the last interval, by event and target.
    before: Vec<Vec<Count>>,
    scale: bool,
    /// The last counts as the kernel gave them, by event and target.
    read: RefCell<Vec<Vec<(usize, Count)>>>,
    /// Single events were started or stopped.
    singly: bool,
}

/// The fields that perf sets for counting: results are read event by event, with the times.
fn as_perf(attr: &mut Attr) {
    attr.sample_type = SampleType::IDENTIFIER;
    attr.read_format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
}

/// The name of an event once it is open, and the parts that its numbers leave out.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) name: String,
    pub(crate) lost_kernel_side: bool,
    /// Children are left out, against the user's wish.
    pub(crate) lost_children: bool,
    /// Only the kernel makes it happen, and the kernel is left out.
    pub(crate) impossible: bool,
}

impl Counting {
    /// Opens the plan's events, switched off. `answers` are those of the last time that it was opened.
    pub(crate) fn open(
        plan: &Plan,
        command: Option<&HeldCommand>,
        answers: &mut Answers,
    ) -> Result<Self, Error> {
        let scope = scope(plan, command)?;
        let scope = if plan.inherit { scope } else { scope.without_children() };
        let on_exec = plan.target == Target::Command && plan.start == Start::AtOnce;
        let mut wanted = Vec::new();
        let mut indices = Vec::new();
        let mut cgroups: BTreeMap<&str, Cgroup> = BTreeMap::new();
        for Request { spec, group, cgroup, .. } in &plan.events {
            let cgroup = match cgroup.as_deref().map(|name| (name, cgroups.get(name))) {
                None => None,
                Some((_, Some(open))) => Some(open.clone()),
                Some((name, None)) => {
                    Some(cgroups.entry(name).or_insert(plan.kernel.surroundings().cgroup(name)?).clone())
                }
            };
            let Some(builder) = Builder::from_spec(spec) else {
                indices.push(None);
                continue;
            };
            indices.push(Some(wanted.len()));
            let builder = builder.kernel(&plan.kernel).enable_on_exec(on_exec).with(as_perf);
            // On whole cpus it means nothing; perf sets it there too.
            let inherit = (plan.inherit && matches!(plan.target, Target::Cpus { .. })).then_some(true);
            wanted.push(SetEvent {
                group: *group,
                cgroup,
                cpus: spec.cpus(),
                inherit,
                ..SetEvent::from(builder)
            });
        }
        let mut set = CounterSet::open_again(&scope, &wanted, answers)?;
        // Weak groups of which a member was refused are opened again, in single events.
        let refused = |request: &Request, index: &Option<usize>| {
            let error = index.and_then(|index| set.error(index));
            request.weak && request.group.is_some() && error.is_some_and(|e| e.cause() == Cause::Group)
        };
        let broken = plan.events.iter().zip(&indices).filter(|(request, index)| refused(request, index));
        let broken: Vec<_> = broken.map(|(request, _)| request.group).collect();
        if !broken.is_empty() {
            drop(set);
            wanted.iter_mut().filter(|event| broken.contains(&event.group)).for_each(|e| e.group = None);
            set = CounterSet::open(&scope, &wanted)?;
        }
        for (request, index) in plan.events.iter().zip(&indices) {
            if let (Some(filter), Some(index)) = (&request.filter, index) {
                set.set_filter(*index, filter)?;
            }
        }
        let mut places = Vec::new();
        let mut row_of_slot = Vec::new();
        for (number, slot) in set.slots().iter().enumerate() {
            // Among all threads there are some that end before they are measured.
            let is_open = |event| set.counter(event, number).is_some();
            if matches!(plan.target, Target::EveryThread(_)) && !(0..set.len()).any(is_open) {
                row_of_slot.push(0);
                continue;
            }
            let place = place(plan, slot);
            let known = places.iter().position(|(known, _)| *known == place);
            let row = known.unwrap_or(places.len());
            if known.is_none() {
                places.push((place, 0));
            }
            places[row].1 += 1;
            row_of_slot.push(row);
        }
        let before = Vec::new();
        let read = RefCell::default();
        Ok(Counting { set, indices, places, row_of_slot, before, scale: plan.scale, read, singly: false })
    }

    /// The rows each event has, with their number of targets.
    pub(crate) fn places(&self) -> &[(RowPlace, u32)] {
        &self.places
    }

    /// Starts counting, of single events that were stopped too.
    pub(crate) fn enable(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.singly) {
            (0..self.set.len()).try_for_each(|event| self.set.enable_event(event))?;
        }
        self.set.enable()
    }

    /// Starts or stops the events of this name; `false` if there is none.
    pub(crate) fn switch(&mut self, plan: &Plan, name: &str, on: bool) -> Result<bool, Error> {
        let is_it =
            |&event: &usize| plan.events[event].spec.name == name || self.describe(plan, event).name == name;
        let found: Vec<usize> = (0..self.indices.len()).filter(is_it).collect();
        for index in found.iter().filter_map(|&event| self.indices[event]) {
            if on { self.set.enable_event(index) } else { self.set.disable_event(index) }?;
            self.singly = true;
        }
        Ok(!found.is_empty())
    }

    /// Stops counting.
    pub(crate) fn disable(&mut self) -> Result<(), Error> {
        self.set.disable()
    }

    /// The first refusal, if no event at all could be opened.
    pub(crate) fn refused_altogether(&self) -> Option<&Error> {
        let any = (0..self.set.len()).any(|event| self.set.counters(event).next().is_some());
        if any { None } else { (0..self.set.len()).find_map(|event| self.set.error(event)) }
    }

    /// Why an event of the plan could not be opened.
    pub(crate) fn error(&self, event: usize) -> Option<&Error> {
        self.indices[event].and_then(|index| self.set.error(index))
    }

    /// Finds out why events are refused, where [`Error`] has left that for later.
    pub(crate) fn explain(&self) {
        (0..self.set.len()).filter_map(|event| self.set.error(event)).for_each(|error| {
            error.diagnosis();
        });
    }

    /// Remarks on how each event was opened.
    pub(crate) fn remarks(&self, plan: &Plan) -> Vec<String> {
        let remark = |(request, index): (&Request, &Option<usize>)| {
            let name = &request.spec.name;
            let Some(index) = *index else { return format!("{name}: measured by perfuse") };
            if let Some(error) = self.set.error(index) {
                return format!("{name}: {error}");
            }
            let Some((_, counter)) = self.set.counters(index).next() else {
                return format!("{name}: its targets are gone");
            };
            let given_up: Vec<_> =
                counter.given_up().iter().map(|given_up| format!("; without {given_up}")).collect();
            format!("{name}: {}{}", counter.attr(), given_up.concat())
        };
        plan.events.iter().zip(&self.indices).map(remark).collect()
    }

    /// How an event of the plan is to be presented.
    pub(crate) fn describe(&self, plan: &Plan, event: usize) -> Description {
        let name = plan.events[event].spec.name.clone();
        let counter = self.indices[event].and_then(|index| self.set.counters(index).next());
        let Some((_, counter)) = counter else {
            return Description { name, lost_kernel_side: false, lost_children: false, impossible: false };
        };
        let attr = counter.attr();
        let without_kernel = attr.flags.contains(AttrFlags::EXCLUDE_KERNEL);
        let lost_kernel_side =
            without_kernel && counter.given_up().iter().any(|given| given.what == "kernel side");
        // perf appends the modifier in the same way.
        let name = match (lost_kernel_side, name.contains([':', '/'])) {
            (false, _) => name,
            (true, true) => name + "u",
            (true, false) => name + ":u",
        };
        let lost_children = counter.given_up().iter().any(|given| given.why == GivenUpWhy::BreaksForks);
        let impossible = without_kernel && is_made_by_kernel(attr);
        Description { name, lost_kernel_side, lost_children, impossible }
    }

    /// The targets that are measured.
    pub(crate) fn slots(&self) -> &[Slot] {
        self.set.slots()
    }

    /// The open counters of an event of the plan, with the index of their target.
    pub(crate) fn counters(&self, event: usize) -> impl Iterator<Item = (usize, &Counter)> {
        self.indices[event].into_iter().flat_map(|index| self.set.counters(index))
    }

    /// The last counts of an event, each with the index of its target.
    pub(crate) fn read_last(&self, event: usize) -> Vec<(usize, Count)> {
        self.read.borrow().get(event).cloned().unwrap_or_default()
    }

    /// The counts of an event since it was opened, one outcome per place.
    pub(crate) fn totals(&self, event: usize) -> Vec<Outcome> {
        self.outcomes(event, |_, count| count)
    }

    /// The counts of all events since the last call, one outcome per event and place.
    pub(crate) fn since_last(&mut self, plan: &Plan) -> Vec<Vec<Outcome>> {
        let events = self.indices.len();
        let mut before = std::mem::take(&mut self.before);
        before.resize_with(events, || vec![Count::default(); self.row_of_slot.len()]);
        let outcomes = (0..events)
            .map(|event| {
                let last = &mut before[event];
                // The difference of two states is none.
                let is_state = plan.events[event].spec.pmu.as_ref().is_some_and(|pmu| pmu.snapshot);
                self.outcomes(event, |slot, count| {
                    let before = std::mem::replace(&mut last[slot], count);
                    if is_state { count } else { count - before }
                })
            })
            .collect();
        self.before = before;
        outcomes
    }

    /// Reads an event on all targets; `change` sees each count with the index of its target.
    fn outcomes(&self, event: usize, mut change: impl FnMut(usize, Count) -> Count) -> Vec<Outcome> {
        let Some(index) = self.indices[event] else { return Vec::new() };
        if let Some(error) = self.set.error(index) {
            return vec![Outcome::Missing(refusal(error)); self.places.len()];
        }
        let mut rows: Vec<Result<Option<Reading>, Missing>> = vec![Ok(None); self.places.len()];
        let mut read = Vec::new();
        for (slot, counter) in self.set.counters(index) {
            let row = &mut rows[self.row_of_slot[slot]];
            match counter.read() {
                Ok(count) => {
                    read.push((slot, count));
                    if let Ok(sum) = row {
                        let reading = self.reading(change(slot, count));
                        *sum = Some(sum.map_or(reading, |sum| add(sum, reading)));
                    }
                }
                Err(error) => *row = Err(refusal(&error)),
            }
        }
        let mut all = self.read.borrow_mut();
        all.resize_with(self.indices.len(), Vec::new);
        all[event] = read;
        rows.into_iter()
            .map(|row| match row {
                // An event that hits while its thread sleeps takes no time of its own.
                Ok(Some(reading)) if reading.enabled_ns == 0 && reading.raw > 0 => {
                    Outcome::Counted(vec![Reading {
                        value: reading.raw,
                        enabled_ns: 1,
                        running_ns: 1,
                        ..reading
                    }])
                }
                Ok(Some(Reading { enabled_ns: 0, .. })) | Ok(None) => {
                    Outcome::Missing(Missing::never_enabled())
                }
                Ok(Some(Reading { running_ns: 0, .. })) => Outcome::Missing(Missing::never_scheduled()),
                Ok(Some(reading)) => Outcome::Counted(vec![reading]),
                Err(missing) => Outcome::Missing(missing),
            })
            .collect()
    }

    fn reading(&self, count: Count) -> Reading {
        let Count { value: raw, enabled_ns, running_ns, .. } = count;
        let scaled = if self.scale { count.scaled().value() } else { None };
        Reading { value: scaled.unwrap_or(raw), raw, enabled_ns, running_ns }
    }
}

/// The sum of two readings.
pub(crate) fn add(a: Reading, b: Reading) -> Reading {
    Reading {
        value: a.value.wrapping_add(b.value),
        raw: a.raw.wrapping_add(b.raw),
        enabled_ns: a.enabled_ns + b.enabled_ns,
        running_ns: a.running_ns + b.running_ns,
    }
}

/// Adds two parts of one count, run by run. If one of them was not counted, the other stands alone.
pub(crate) fn together(a: Outcome, b: Outcome) -> Outcome {
    match (a, b) {
        (Outcome::Counted(a), Outcome::Counted(b)) => {
            Outcome::Counted(a.into_iter().zip(b).map(|(a, b)| add(a, b)).collect())
        }
        (Outcome::Missing(_), counted @ Outcome::Counted(_)) => counted,
        (known, Outcome::Missing(_)) => known,
    }
}

fn scope(plan: &Plan, command: Option<&HeldCommand>) -> Result<Scope, Error> {
    Ok(match (&plan.target, command) {
        (Target::Processes(pids), _) => Scope::processes_of(plan.kernel.surroundings(), pids)?,
        (Target::Threads(tids) | Target::EveryThread(tids), _) => Scope::threads(tids),
        (Target::Cpus { cpus, .. }, _) => Scope::cpus(cpus),
        (Target::Command, Some(command)) => Scope::command(command),
        // A plan for a command is never opened without one.
        (Target::Command, None) => Scope::threads(&[]),
    })
}

/// Switches happen in the kernel only, whoever causes them.
fn is_made_by_kernel(attr: &Attr) -> bool {
    let switches = [Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS, Software::CGROUP_SWITCHES];
    attr.type_ == EventType::SOFTWARE && switches.contains(&Software(attr.config))
}

fn place(plan: &Plan, slot: &Slot) -> RowPlace {
    let surroundings = plan.kernel.surroundings();
    let seat = |slot: &Slot| slot.cpu().map(|cpu| surroundings.seat(cpu)).unwrap_or_default();
    match plan.aggregation {
        Aggregation::Everything => RowPlace::Everywhere,
        Aggregation::Cpu => RowPlace::Cpu(slot.cpu().unwrap_or(0)),
        Aggregation::Core => {
            let Seat { socket, die, core } = seat(slot);
            RowPlace::Core { socket, die, core }
        }
        Aggregation::Cluster => {
            let Seat { socket, die, .. } = seat(slot);
            RowPlace::Cluster { socket, die, cluster: slot.cpu().map_or(0, |cpu| surroundings.cluster(cpu)) }
        }
        Aggregation::Cache(level) => {
            let Seat { socket, die, .. } = seat(slot);
            let cache = slot.cpu().and_then(|cpu| surroundings.cache(cpu, level)).unwrap_or_default();
            RowPlace::Cache { socket, die, level: cache.level, first_cpu: cache.first_cpu }
        }
        Aggregation::Die => {
            let Seat { socket, die, .. } = seat(slot);
            RowPlace::Die { socket, die }
        }
        Aggregation::Socket => RowPlace::Socket(seat(slot).socket),
        Aggregation::Node => RowPlace::Node(slot.cpu().map_or(0, |cpu| surroundings.node(cpu))),
        Aggregation::Thread => {
            let tid = slot.tid().unwrap_or(0);
            let name = String::from_utf8_lossy(&surroundings.name(tid)).into_owned();
            RowPlace::Thread { name, tid }
        }
    }
}

/// The library's diagnosis as a row's reason.
fn refusal(error: &Error) -> Missing {
    let diagnosis = error.diagnosis();
    Missing {
        kind: MissingKind::NotSupported,
        short: match diagnosis.cause {
            Cause::Unknown => format!("{}: {}", diagnosis.cause.words(), error.errno()),
            cause => cause.words().to_owned(),
        },
        cause: diagnosis.cause.name().to_owned(),
        errno: error.errno().name().map(str::to_owned),
        explanation: diagnosis.explanation.clone(),
        remedies: diagnosis.remedies.clone(),
    }
}
