//! Many events on many targets: what counting a process with all its threads, or a whole machine, takes.

use crate::builder::{Accepted, Builder};
use crate::call::Call;
use crate::count::Count;
use crate::counter::Counter;
use crate::error::{Error, Result};
use crate::group::sibling;
use crate::options::Inherit;
use crate::scope::{Scope, Slot};
use crate::target::{Cgroup, Target};
use perfuse_abi::{AttrFlags, Software};
use perfuse_sys::{Errno, limits};

/// One event of a [`CounterSet`] or a [`SamplerSet`](crate::SamplerSet).
#[derive(Clone, Debug)]
pub struct SetEvent {
    /// The event and its options; the scope adds target and inheritance.
    pub builder: Builder,
    /// Events that follow each other with the same number form a group on each target.
    pub group: Option<u32>,
    /// On targets that are cpus: only the tasks of this cgroup are measured there. Refused on others.
    pub cgroup: Option<Cgroup>,
    /// On targets that are cpus, or bound to one: only on these, such as those of its PMU.
    pub cpus: Option<Vec<u32>>,
    /// Whether what the tasks start is measured too, in place of what the scope says. On whole cpus it means
    /// nothing.
    pub inherit: Option<bool>,
    /// In a [`SamplerSet`](crate::SamplerSet), whether its oldest records give way to the newest, in place of
    /// what the [`RingOptions`](crate::RingOptions) say for all.
    pub overwrite: Option<bool>,
}

impl From<Builder> for SetEvent {
    fn from(builder: Builder) -> Self {
        SetEvent { builder, group: None, cgroup: None, cpus: None, inherit: None, overwrite: None }
    }
}

impl SetEvent {
    /// Which tasks inherit it from those of the scope.
    pub(crate) fn inheritance(&self, scope: &Scope) -> Inherit {
        match self.inherit {
            Some(true) => Inherit::All,
            Some(false) => Inherit::No,
            None => scope.inherit(),
        }
    }

    /// Whether it is to be opened there.
    pub(crate) fn is_for(&self, slot: &Slot) -> bool {
        match (&self.cpus, slot.cpu()) {
            (Some(cpus), Some(cpu)) => cpus.contains(&cpu),
            _ => true,
        }
    }
}

/// Every event of a list, open on every target of a [`Scope`].
///
/// An event that is refused does not disturb the others: it has an [error](Self::error) in place of
/// counts, or, where it was refused on some targets only, tells [which](Self::refused). Where the first
/// event of a group is refused, the next one leads.
///
/// ```
/// # if perfuse::Perf::linux_refuses().is_some() { return Ok(()) }
/// use perfuse::{Command, Counter, CounterSet, Scope, abi::{Hardware, Software}};
///
/// let command = Command::new("true").hold()?;
/// let events = [Counter::builder(Software::TASK_CLOCK), Counter::builder(Hardware::CPU_CYCLES)]
///     .map(|event| event.enable_on_exec(true).into());
/// let set = CounterSet::open(&Scope::command(&command), &events)?;
/// command.release()?.wait()?;
/// for (index, name) in ["task-clock", "cycles"].iter().enumerate() {
///     match set.error(index) {
///         None => println!("{name}: {}", set.total(index)?.value),
///         Some(error) => println!("{name}: {error}"),
///     }
/// }
/// # Ok::<(), perfuse::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the events are closed when this is dropped"]
pub struct CounterSet {
    slots: Vec<Slot>,
    events: Vec<Opened>,
}

/// The kernel's answers to a list of events, kept for the next time the same list is opened, on targets of the same kind:
/// an event that this machine or user cannot have is not asked for again, nor diagnosed.
#[derive(Clone, Debug, Default)]
pub struct Answers(Vec<(Option<Accepted>, Option<Error>)>);

/// One event on all targets.
#[derive(Debug)]
struct Opened {
    /// As many as there are slots; `None` where the target was gone, or refused.
    counters: Vec<Option<Counter>>,
    /// For each counter, whether a group leader switches it.
    follows: Vec<bool>,
    /// Where it was refused, and why. If the first target that still exists refuses, no other is asked.
    refused: Vec<(usize, Error)>,
    /// As what it was opened on the target before.
    accepted: Option<Accepted>,
}

impl CounterSet {
    /// Opens all events on all targets. Targets that are gone meanwhile are left out.
    ///
    /// Fails as a whole only where descriptors run out; the limit is raised before, as far as may be.
    pub fn open(scope: &Scope, events: &[SetEvent]) -> Result<Self> {
        Self::open_again(scope, events, &mut Answers::default())
    }

    /// The same, for a list that is opened again and again, as for each run of a command. `answers` begin empty; with
    /// those to another list the set is another one.
    #[expect(clippy::missing_errors_doc, reason = "as for open")]
    pub fn open_again(scope: &Scope, events: &[SetEvent], answers: &mut Answers) -> Result<Self> {
        answers.0.resize_with(events.len(), Default::default);
        let mut opened: Vec<Opened> =
            answers.0.iter().map(|answer| Opened::after(answer, scope.slots().len())).collect();
        Self::open_all(scope, events, &mut opened).map_err(|error| {
            // An event that is refused everywhere needs none.
            let events = opened.iter().filter(|event| event.error().is_none()).count();
            error.wanting((scope.slots().len() * events) as u64 + limits::OTHERS)
        })?;
        for ((accepted, refusal), event) in answers.0.iter_mut().zip(&opened) {
            accepted.clone_from(&event.accepted);
            *refusal = event.error().filter(|error| error.lasts()).cloned();
        }
        Ok(CounterSet { slots: scope.slots().to_vec(), events: opened })
    }

    fn open_all(scope: &Scope, events: &[SetEvent], opened: &mut [Opened]) -> Result<()> {
        let slots = scope.slots();
        limits::provide_open_files(slots.len() as u64 * events.len() as u64 + limits::OTHERS);
        for slot in slots {
            let mut group = None;
            let mut late = Vec::new();
            for (index, event) in events.iter().enumerate() {
                // The leader of the group on this target: the first member that could be opened.
                let leader = match (event.group, group) {
                    (Some(own), Some((number, leader))) if own == number => Some(leader),
                    _ => None,
                };
                let target = match &event.cgroup {
                    None => Ok(slot.target.clone()),
                    Some(cgroup) => within(cgroup, slot),
                };
                let builder = target
                    .map(|target| event.builder.clone().target(target).inherit(event.inheritance(scope)));
                let mut accepted = opened[index].accepted.take();
                let earlier = opened.iter().filter_map(|event| event.refused.last()).next_back();
                let earlier = earlier.map(|(_, error)| error);
                let counter = match (builder, leader) {
                    _ if opened[index].error().is_some() || !event.is_for(slot) => None,
                    (Err(error), _) => opened[index].take(Err(error))?,
                    (Ok(builder), None) => {
                        // A leader starts when its group is complete: siblings that come later may not
                        // be taken along.
                        let starts = !builder.attr().flags.contains(AttrFlags::DISABLED);
                        let waits = starts && event.group.is_some();
                        let builder = if waits { builder.enabled(false) } else { builder };
                        late.extend(waits.then_some(index));
                        let counter = builder.open_like(None, earlier, &mut accepted);
                        opened[index].take(counter)?
                    }
                    (Ok(builder), Some(leader)) => {
                        let builder = sibling(builder);
                        let leader: &Opened = &opened[leader];
                        let leader = leader.counters.last().and_then(Option::as_ref).map(|c| &c.handle);
                        let counter = builder.open_like(leader, earlier, &mut accepted);
                        opened[index].take(counter)?
                    }
                };
                if let (Some(number), None, true) = (event.group, leader, counter.is_some()) {
                    group = Some((number, index));
                }
                opened[index].accepted = accepted;
                opened[index].follows.push(leader.is_some());
                opened[index].counters.push(counter);
            }
            for index in late {
                opened[index].counters.last_mut().and_then(Option::as_mut).map_or(Ok(()), Counter::enable)?;
            }
        }
        Ok(())
    }

    /// The targets.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Why an event could not be opened on any target.
    pub fn error(&self, event: usize) -> Option<&Error> {
        self.events[event].error()
    }

    /// The targets on which an event was refused though others took it, by their index, and why: its
    /// [total](Self::total) is without them. Targets that are gone are not among them.
    pub fn refused(&self, event: usize) -> impl Iterator<Item = (usize, &Error)> {
        let event = &self.events[event];
        let some = event.error().is_none();
        event.refused.iter().filter(move |_| some).map(|(slot, error)| (*slot, error))
    }

    /// An event's counter on one target; `None` where it could not be opened there.
    pub fn counter(&self, event: usize, slot: usize) -> Option<&Counter> {
        self.events[event].counters.get(slot)?.as_ref()
    }

    /// An event's counters with the index of their targets.
    pub fn counters(&self, event: usize) -> impl Iterator<Item = (usize, &Counter)> {
        let counters = self.events[event].counters.iter().enumerate();
        counters.filter_map(|(slot, counter)| Some((slot, counter.as_ref()?)))
    }

    /// Starts counting.
    pub fn enable(&mut self) -> Result<()> {
        self.leaders().try_for_each(Counter::enable)
    }

    /// Stops counting, as far as PMUs have not gone for good.
    pub fn disable(&mut self) -> Result<()> {
        self.leaders().try_for_each(|counter| counter.stop())
    }

    /// Starts one event of many, on all targets. A member of a group counts while its leader does.
    pub fn enable_event(&mut self, event: usize) -> Result<()> {
        self.events[event].counters.iter_mut().flatten().try_for_each(Counter::enable)
    }

    /// Stops one event of many, on all targets; the leader of a group stops the whole group.
    pub fn disable_event(&mut self, event: usize) -> Result<()> {
        self.events[event].counters.iter_mut().flatten().try_for_each(Counter::disable)
    }

    /// Counts only hits of a tracepoint that match `filter`, on all targets.
    pub fn set_filter(&mut self, event: usize, filter: &str) -> Result<()> {
        self.events[event].counters.iter_mut().flatten().try_for_each(|counter| counter.set_filter(filter))
    }

    /// Sets all counts to zero; the times go on.
    pub fn reset(&mut self) -> Result<()> {
        self.all().try_for_each(Counter::reset)
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Counter> {
        self.events.iter_mut().flat_map(|event| event.counters.iter_mut().flatten())
    }

    /// Counters that are switched by themselves: siblings are created on and follow their leader.
    fn leaders(&mut self) -> impl Iterator<Item = &mut Counter> {
        let pairs = self.events.iter_mut().flat_map(|event| event.counters.iter_mut().zip(&event.follows));
        pairs.filter(|(_, follows)| !**follows).filter_map(|(counter, _)| counter.as_mut())
    }

    /// An event's count over all targets.
    pub fn total(&self, event: usize) -> Result<Count> {
        self.counters(event).map(|(_, counter)| counter.read()).sum()
    }
}

/// The tasks of a cgroup, on the cpu that `slot` is.
pub(crate) fn within(cgroup: &Cgroup, slot: &Slot) -> Result<Target> {
    match (slot.tid(), slot.cpu()) {
        (None, Some(cpu)) => Ok(Target::cgroup(cgroup, cpu)),
        // The kernel would refuse it too: a cgroup's tasks are counted cpu by cpu (rule B9).
        _ => {
            let attr = Builder::new(Software::DUMMY).attr();
            let (pid, _, flags) = Target::cgroup(cgroup, 0).arguments();
            Err(Error::new(Call::Open { attr, pid, cpu: -1, leader: None, flags }, Errno::EINVAL))
        }
    }
}

impl Opened {
    fn after((accepted, refusal): &(Option<Accepted>, Option<Error>), slots: usize) -> Self {
        let (counters, follows) = (Vec::with_capacity(slots), Vec::with_capacity(slots));
        let refused = refusal.iter().map(|error| (0, error.clone())).collect();
        Opened { counters, follows, refused, accepted: accepted.clone() }
    }

    /// The first refusal, where nothing else came of it.
    fn error(&self) -> Option<&Error> {
        let (_, error) = self.refused.first()?;
        self.counters.iter().all(Option::is_none).then_some(error)
    }

    /// Keeps an error, unless the target is gone. `Err` for what must end the whole.
    fn take(&mut self, counter: Result<Counter>) -> Result<Option<Counter>> {
        match counter {
            Ok(counter) => Ok(Some(counter)),
            Err(error) if [Errno::EMFILE, Errno::ENFILE].contains(&error.errno()) => Err(error),
            Err(error) => {
                if !error.is_gone() {
                    self.refused.push((self.counters.len(), error));
                }
                Ok(None)
            }
        }
    }
}

/// An event that was opened to see whether it can be.
#[derive(Debug)]
pub struct Rehearsed {
    /// Its name.
    pub event: String,
    /// Why it cannot be had; `None` if it can.
    pub error: Option<crate::Error>,
    /// It was asked for: without it nothing is recorded.
    pub required: bool,
}
