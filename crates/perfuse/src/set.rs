//! Many events on many targets: what counting a process with all its threads, or a whole machine, takes.

use crate::builder::{Builder, Inherit};
use crate::count::Count;
use crate::counter::Counter;
use crate::error::{Error, Result};
use crate::group::LEADER_ONLY;
use crate::scope::{Scope, Slot};
use perfuse_abi::AttrFlags;
use perfuse_sys::{Errno, limits};

/// One event of a [`CounterSet`].
#[derive(Clone, Debug)]
pub struct SetEvent {
    /// What and how; target and inheritance are the scope's.
    pub builder: Builder,
    /// Events that follow each other with the same number form a group on each target.
    pub group: Option<u32>,
}

impl From<Builder> for SetEvent {
    fn from(builder: Builder) -> Self {
        SetEvent { builder, group: None }
    }
}

/// Every event of a list, open on every target of a [`Scope`].
///
/// An event that is refused does not disturb the others: it has an [error](Self::error) in place of
/// counts. Where the first event of a group is refused, the next one leads.
///
/// ```
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
pub struct CounterSet {
    slots: Vec<Slot>,
    events: Vec<Opened>,
}

/// One event on all targets.
#[derive(Debug)]
struct Opened {
    /// As many as there are slots; `None` where the target was gone.
    counters: Vec<Option<Counter>>,
    /// Why there are none.
    error: Option<Error>,
}

impl CounterSet {
    /// Opens all events on all targets. Targets that are gone meanwhile are left out.
    ///
    /// Fails as a whole only where descriptors run out; the soft limit is raised to the hard one before.
    pub fn open(scope: &Scope, events: &[SetEvent]) -> Result<Self> {
        let slots = scope.slots().to_vec();
        let needed = slots.len() as u64 * events.len() as u64 + 64;
        if limits::open_files().is_ok_and(|limit| limit.soft < needed) {
            // Where that is refused, the opens tell.
            let _ = limits::raise_open_files();
        }
        let inherit = if scope.inherits() { Inherit::All } else { Inherit::No };
        let mut opened: Vec<Opened> = events
            .iter()
            .map(|_| Opened { counters: Vec::with_capacity(slots.len()), error: None })
            .collect();
        for slot in &slots {
            let mut group = None;
            for (index, event) in events.iter().enumerate() {
                // The leader of the group on this target: the first member that could be opened.
                let leader = match (event.group, group) {
                    (Some(own), Some((number, leader))) if own == number => Some(leader),
                    _ => None,
                };
                let builder = event.builder.clone().target(slot.target.clone()).inherit(inherit);
                let counter = match leader {
                    _ if opened[index].error.is_some() => None,
                    None => opened[index].take(builder.open())?,
                    Some(leader) => {
                        // The leader switches and places the whole group.
                        let siblings_do_not = LEADER_ONLY.union(AttrFlags::ENABLE_ON_EXEC);
                        let builder = builder.enabled(true).with(|attr| attr.flags.remove(siblings_do_not));
                        let leader: &Opened = &opened[leader];
                        let leader = leader.counters.last().and_then(Option::as_ref).map(|c| &c.handle);
                        let counter = builder.open_in(leader);
                        opened[index].take(counter)?
                    }
                };
                if let (Some(number), None, true) = (event.group, leader, counter.is_some()) {
                    group = Some((number, index));
                }
                opened[index].counters.push(counter);
            }
        }
        Ok(CounterSet { slots, events: opened })
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

    /// Why an event could not be opened.
    pub fn error(&self, event: usize) -> Option<&Error> {
        self.events[event].error.as_ref()
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

    /// Starts counting: every event or group that was opened switched off.
    pub fn enable(&mut self) -> Result<()> {
        self.leaders().try_for_each(Counter::enable)
    }

    /// Stops counting.
    pub fn disable(&mut self) -> Result<()> {
        self.leaders().try_for_each(Counter::disable)
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
        self.all().filter(|counter| counter.attr().flags.contains(AttrFlags::DISABLED))
    }

    /// An event's count over all targets.
    pub fn total(&self, event: usize) -> Result<Count> {
        self.counters(event).map(|(_, counter)| counter.read()).sum()
    }
}

impl Opened {
    /// Keeps an error that would meet the other targets as well. `Err` for what must end the whole.
    fn take(&mut self, counter: Result<Counter>) -> Result<Option<Counter>> {
        match counter {
            Ok(counter) => Ok(Some(counter)),
            Err(error) if [Errno::EMFILE, Errno::ENFILE].contains(&error.errno()) => Err(error),
            Err(error) => {
                let others_are_open = self.counters.iter().any(Option::is_some);
                if !error.is_gone() && !others_are_open {
                    self.error = Some(error);
                }
                Ok(None)
            }
        }
    }
}
