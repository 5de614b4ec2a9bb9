//! Events that leave records, on everything a [`Scope`] covers: one ring for each cpu, shared by all
//! events and tasks, or one for each thread. Recording a program with its children, or a whole machine, needs this.

mod records;
mod watch;

pub use records::SetBatch;

use crate::builder::{Accepted, Builder};
use crate::call::Call;
use crate::counter::Counter;
use crate::error::{Error, Result};
use crate::group::sibling;
use crate::kernel::surroundings::until;
use crate::kernel::{Request, Surroundings, ThisMachine};
use crate::options::{GivenUp, Inherit};
use crate::ring::{Batch, Ring, Snapshot};
use crate::sampler::{RingOptions, Wait, protection};
use crate::scope::{Scope, Slot};
use crate::set::{SetEvent, within};
use crate::target::Target;
use perfuse_abi::{Attr, AttrFlags, IocFlags, ReadFormat, SampleType};
use perfuse_sys::{Errno, limits};
use records::{Formats, Order};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;
use watch::Watch;

/// Every event of a list on every target of a [`Scope`], with a ring for each cpu, or for each thread where
/// the scope is [by thread](Scope::by_thread).
///
/// The kernel lets events of different tasks share a ring only if all are bound to its cpu (rule G31),
/// and gives inherited events no ring otherwise (rule F1). So each task's event is opened once for every
/// cpu.
///
/// An event may have its records [overwritten](SetEvent::overwrite) where others do not; there is a second ring
/// for each cpu or thread then.
///
/// Where there are several events, each record tells its own, at a place that does not depend on the event: by
/// `ID` if all have the same fields, else by `IDENTIFIER`. One that is asked for `IDENTIFIER` has it in any case.
///
/// Members of a group are on the PMU together and sample each by itself, unless their attrs say otherwise:
/// one whose `sample_type` has `READ` and whose `read_format` has `GROUP` gives the values of all with each
/// sample of the leader, those of its task alone (rule D7). Older kernels refuse that for events that are
/// inherited; it is the inheritance that is then given up (Linux 6.13 can do both).
///
/// ```
/// # if perfuse::Perf::linux_refuses().is_some() { return Ok(()) }
/// use perfuse::{Command, Counter, RingOptions, SamplerSet, Scope, abi::{AttrFlags, Software}};
///
/// let command = Command::new("true").hold()?;
/// let event = Counter::builder(Software::DUMMY)
///     .enable_on_exec(true)
///     .with(|attr| attr.flags |= AttrFlags::TASK | AttrFlags::COMM | AttrFlags::MMAP);
/// let mut set = SamplerSet::open(&Scope::command(&command), &[event.into()], RingOptions::default())?;
/// command.release()?.wait()?;
/// let records: usize = (0..set.rings()).map(|ring| set.batch(ring).iter().count()).sum();
/// assert!(records >= 3, "a COMM, some MMAPs and an EXIT");
/// # Ok::<(), perfuse::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the events are closed when this is dropped"]
pub struct SamplerSet {
    watch: Watch,
    // Unmapped before the events are closed.
    rings: Vec<SetRing>,
    sources: Vec<SetSource>,
    /// `None` for those that are open nowhere.
    events: Vec<Option<Accepted>>,
    formats: Formats,
    order: Order,
}

#[derive(Debug)]
struct SetRing {
    ring: Ring,
    /// Index of the source that owns it.
    owner: usize,
    overwrite: bool,
}

/// One event on one target.
#[derive(Debug)]
pub struct SetSource {
    /// Index of the event in the list that was opened.
    pub event: usize,
    /// Index of its ring.
    pub ring: usize,
    /// The cpu; `None` for a thread that is followed from cpu to cpu.
    pub cpu: Option<u32>,
    /// The thread, unless the event is for everything on the cpu.
    pub tid: Option<u32>,
    /// The event's id, as records carry it.
    pub id: u64,
    counter: Counter,
    /// A leader switches it.
    follows: bool,
}

impl SetSource {
    /// The counter.
    pub fn counter(&self) -> &Counter {
        &self.counter
    }
}

impl SamplerSet {
    /// Opens all events on all targets. Targets that are gone meanwhile are left out; `ESRCH` if all are.
    /// Fails where an event is refused, or descriptors run out (the limit is raised before, as far as may be).
    pub fn open(scope: &Scope, events: &[SetEvent], ring: RingOptions) -> Result<Self> {
        let surroundings = events
            .first()
            .map_or(&ThisMachine as &dyn Surroundings, |event| event.builder.kernel.surroundings());
        let slots = slots(scope, surroundings);
        let needed = (slots.len() * events.len()) as u64 + limits::OTHERS;
        limits::provide_open_files(needed);
        let id = id_field(events);
        let infos = events.iter().map(|_| None).collect();
        let mut set = SamplerSet {
            watch: Watch::new(&[], &[])?,
            rings: Vec::new(),
            sources: Vec::new(),
            events: infos,
            formats: Formats::default(),
            order: Order::default(),
        };
        let mut gone = None;
        // For each ring the source that owns it, and the rings by place.
        let mut owners = Vec::new();
        let mut rings = BTreeMap::new();
        for slot in &slots {
            // The group that is being opened, and the source that leads it.
            let mut group: Option<(u32, usize)> = None;
            for (index, event) in events.iter().enumerate() {
                if !event.is_for(slot) {
                    continue;
                }
                let leader = group.filter(|(number, _)| event.group == Some(*number));
                let leader = leader.map(|(_, source)| &set.sources[source].counter);
                let overwrite = event.overwrite.unwrap_or(ring.overwrite);
                let ring = RingOptions { overwrite, ..ring };
                let builder = prepare(event, slot, event.inheritance(scope), ring, id, leader)?;
                let leader_handle = leader.map(|leader| &leader.handle);
                let counter = match builder.open_like(leader_handle, None, &mut set.events[index]) {
                    Ok(counter) => counter,
                    Err(error) if error.is_gone() => {
                        gone = Some(error);
                        continue;
                    }
                    Err(error) => return Err(error.wanting(needed)),
                };
                let follows = leader.is_some();
                if let (Some(number), false) = (event.group, follows) {
                    group = Some((number, set.sources.len()));
                }
                let (cpu, tid) = (slot.cpu(), slot.tid());
                // A thread's events on one cpu go to the ring of that cpu.
                let place = (cpu, tid.filter(|_| cpu.is_none()), overwrite);
                let ring = *rings.entry(place).or_insert_with(|| {
                    owners.push((set.sources.len(), overwrite));
                    owners.len() - 1
                });
                let id = counter.id()?;
                set.sources.push(SetSource { event: index, ring, cpu, tid, id, counter, follows });
            }
        }
        if let (Some(error), true) = (gone, set.sources.is_empty()) {
            return Err(error);
        }
        // All in one size: what the first took of the limit would be missing for the last.
        set.rings = ring.map(|pages| {
            let event = |owner: usize| &set.sources[owner].counter.handle;
            let map = |&(owner, overwrite)| {
                let ring = Ring::map(event(owner), pages, protection(overwrite))?;
                Ok(SetRing { ring, owner, overwrite })
            };
            owners.iter().map(map).collect()
        })?;
        for (index, source) in set.sources.iter().enumerate() {
            let (owner, _) = owners[source.ring];
            if index != owner {
                let owner = set.sources[owner].counter.as_fd();
                source.counter.handle.ioctl(Request::SetOutput(Some(owner)))?;
            }
        }
        set.watch = Watch::new(&set.rings, &set.sources)?;
        set.formats = Formats::of(&set);
        Ok(set)
    }

    /// Opens all events on a whole process, switched on: its threads of now, and what those start from now on. The events
    /// share a ring of the usual size for each cpu.
    ///
    /// ```
    /// # if perfuse::Perf::linux_refuses().is_some() { return Ok(()) }
    /// use perfuse::{Counter, SamplerSet, abi::{SampleType, Software}};
    ///
    /// let fields = SampleType::IP | SampleType::TID | SampleType::TIME;
    /// let event = Counter::builder(Software::TASK_CLOCK).frequency(999).user_only().sample(fields);
    /// let mut set = SamplerSet::process(std::process::id(), [event])?;
    /// std::thread::spawn(|| (0..1_000_000u64).map(std::hint::black_box).sum::<u64>()).join().unwrap();
    /// set.disable()?;
    /// for record in set.records().iter() {
    ///     println!("{:?} {:?}", record.time_ns(), record.decode()?.record);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn process(pid: u32, events: impl IntoIterator<Item = impl Into<SetEvent>>) -> Result<Self> {
        let events: Vec<SetEvent> = events.into_iter().map(Into::into).collect();
        let mut set = Self::open(&Scope::processes(&[pid])?, &events, RingOptions::default())?;
        set.enable()?;
        Ok(set)
    }

    /// Each event on each target, in the order of opening.
    pub fn sources(&self) -> &[SetSource] {
        &self.sources
    }

    /// The attr of an event as the kernel accepted it; `None` for one that is open nowhere.
    pub fn attr(&self, event: usize) -> Option<&Attr> {
        self.events.get(event)?.as_ref().map(|info| &info.attr)
    }

    /// The preferences of an event that had to be given up.
    pub fn given_up(&self, event: usize) -> &[GivenUp] {
        self.events.get(event).and_then(Option::as_ref).map_or(&[], |info| &info.given_up)
    }

    /// Number of rings.
    pub fn rings(&self) -> usize {
        self.rings.len()
    }

    /// The cpu of a ring; `None` for one of a thread.
    pub fn cpu(&self, ring: usize) -> Option<u32> {
        self.sources[self.rings[ring].owner].cpu
    }

    /// Whether the oldest records of a ring give way to the newest.
    pub fn is_overwritten(&self, ring: usize) -> bool {
        self.rings[ring].overwrite
    }

    /// Bytes of one ring.
    pub fn ring_bytes(&self) -> usize {
        self.rings.first().map_or(0, |ring| ring.ring.size())
    }

    /// Starts every event that was opened switched off; members of a group with their leader.
    pub fn enable(&mut self) -> Result<()> {
        self.switchable().try_for_each(|source| source.counter.handle.enable(IocFlags::empty()))
    }

    /// Stops every event, as far as its PMU has not gone for good.
    pub fn disable(&mut self) -> Result<()> {
        let leaders = self.sources.iter().filter(|source| !source.follows);
        leaders.map(|source| &source.counter).try_for_each(Counter::stop)
    }

    /// Starts or stops one event of many, on all targets. A member of a group goes with its leader, which stops the whole group.
    pub fn switch_event(&mut self, event: usize, on: bool) -> Result<()> {
        let mut counters = self.sources.iter().filter(|source| source.event == event).map(SetSource::counter);
        match on {
            true => counters.try_for_each(|counter| counter.handle.enable(IocFlags::empty())),
            false => counters.try_for_each(Counter::stop),
        }
    }

    /// Counts only hits of a tracepoint that match `filter`, on all targets.
    pub fn set_filter(&mut self, event: usize, filter: &str) -> Result<()> {
        self.counters_mut(event).try_for_each(|counter| counter.set_filter(filter))
    }

    /// The counters of an event, to be changed.
    pub(crate) fn counters_mut(&mut self, event: usize) -> impl Iterator<Item = &mut Counter> {
        self.sources.iter_mut().filter(move |source| source.event == event).map(|source| &mut source.counter)
    }

    fn switchable(&self) -> impl Iterator<Item = &SetSource> {
        self.sources.iter().filter(|source| source.counter.attr().flags.contains(AttrFlags::DISABLED))
    }

    /// The records that one ring holds now, without waiting. Dropping the batch gives the room back.
    pub fn batch(&mut self, ring: usize) -> Batch<'_> {
        self.rings[ring].ring.batch()
    }

    /// The records that all rings hold now, to be taken in the order of time, without waiting: for a set that has been
    /// [stopped](Self::disable) or has [ended](Self::is_over). It takes events with [`SampleType::TIME`], of one clock.
    pub fn records(&mut self) -> SetBatch<'_> {
        SetBatch::new(self, Some(u64::MAX))
    }

    /// As [`records`](Self::records), while the events go on: hands out only records that are older than any still to come, so that
    /// all calls together give the order of time. The others stay for the next call: what one call has seen, the
    /// next one hands out. [`records`](Self::records) takes the rest.
    pub fn settled(&mut self) -> SetBatch<'_> {
        let until = self.is_over().then_some(u64::MAX);
        SetBatch::new(self, until)
    }

    /// Whether records wait for their turn that are in no ring any more.
    pub(crate) fn has_early(&self) -> bool {
        self.order.has_early()
    }

    /// Stops an overwritten ring, copies what it holds, and lets it go on.
    pub fn snapshot(&mut self, ring: usize) -> Result<Snapshot> {
        let SetRing { ring, owner, .. } = &mut self.rings[ring];
        ring.paused_snapshot(&self.sources[*owner].counter.handle)
    }

    fn surroundings(&self) -> &dyn Surroundings {
        let source = self.sources.first();
        source.map_or(&ThisMachine, |source| source.counter.handle.surroundings())
    }

    /// The descriptor that becomes readable when a ring asks to be read: for event loops of your own. Each wake-up is
    /// reported once, so [acknowledge](Self::acknowledge) it and read the whole ring before waiting again.
    pub fn fd(&self, ring: usize) -> BorrowedFd<'_> {
        self.sources[self.rings[ring].owner].counter.as_fd()
    }

    /// Tells that an event loop of your own has heard that a ring's [descriptor](Self::fd) is readable: as
    /// [`Counter::acknowledge`]. [`wait`](Self::wait) does it.
    pub fn acknowledge(&self, ring: usize) {
        self.sources[self.rings[ring].owner].counter.acknowledge();
    }

    /// Tells that an event loop of your own has heard that the [set](AsFd::as_fd) is readable: of every ring. To be called
    /// each time, before the records are read. [`wait`](Self::wait) does it.
    pub fn acknowledge_all(&self) -> Result<()> {
        self.watch.heard(&self.sources)
    }

    /// Whether every measured task is gone, as far as [waits](Self::wait) or [acknowledging](Self::acknowledge_all) have
    /// heard: the rings get nothing any more.
    pub fn is_over(&self) -> bool {
        self.watch.is_over()
    }

    /// Waits until a ring asks to be read, or one of `others` is ready, or the time is over.
    /// [`Wait::Ended`] once every measured task is gone and its records have been read.
    pub fn wait(&self, others: &[BorrowedFd<'_>], timeout: Option<Duration>) -> Result<Wait> {
        let surroundings = self.surroundings();
        let deadline = timeout.and_then(|timeout| surroundings.now().checked_add(timeout));
        let all: Vec<_> = std::iter::once(self.as_fd()).chain(others.iter().copied()).collect();
        loop {
            let (found, is_time) = match until(surroundings, &all, deadline) {
                Err(Errno::EINTR) => return Ok(Wait::Interrupted),
                found => found.map_err(|errno| Error::new(Call::Poll, errno))?,
            };
            if found[0].any() {
                self.acknowledge_all()?;
            }
            if self.rings.iter().any(|ring| ring.ring.has_records()) {
                return Ok(Wait::Records);
            } else if found[1..].iter().any(|other| other.any()) {
                return Ok(Wait::Other);
            } else if self.is_over() {
                return Ok(Wait::Ended);
            } else if is_time || surroundings.is_over() {
                return Ok(Wait::TimedOut);
            }
        }
    }
}

impl AsFd for SamplerSet {
    /// One descriptor for all rings, readable when one of them asks to be read or all tasks are gone: for poll, epoll and
    /// async runtimes. Each wake-up is reported once, so [acknowledge](Self::acknowledge_all) it and read everything before
    /// waiting again.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.fd()
    }
}

impl AsRawFd for SamplerSet {
    /// As [`as_fd`](AsFd::as_fd), for runtimes that ask for this.
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// The field by which records tell which of these events they belong to.
fn id_field(events: &[SetEvent]) -> SampleType {
    let fields: Vec<_> = events.iter().map(|event| event.builder.attr().sample_type).collect();
    if fields.iter().any(|fields| fields.contains(SampleType::IDENTIFIER)) {
        SampleType::IDENTIFIER
    } else if fields.len() <= 1 {
        SampleType::empty()
    } else if fields.windows(2).all(|pair| pair[0] == pair[1]) {
        SampleType::ID
    } else {
        SampleType::IDENTIFIER
    }
}

/// The event as it is opened in this place.
fn prepare(
    event: &SetEvent,
    slot: &Slot,
    inherit: Inherit,
    ring: RingOptions,
    id: SampleType,
    leader: Option<&Counter>,
) -> Result<Builder> {
    let target = match &event.cgroup {
        None => slot.target.clone(),
        Some(cgroup) => within(cgroup, slot)?,
    };
    let builder = ring.prepare(&event.builder, target, id).inherit(inherit);
    if let Some(leader) = leader {
        // All of a group are inherited, or none (rule B13): as the kernel has taken the leader.
        let inherits = leader.attr().flags.contains(AttrFlags::INHERIT);
        let inherit = if inherits { inherit } else { Inherit::No };
        return Ok(sibling(builder).inherit(inherit));
    }
    let Attr { sample_type, read_format, .. } = builder.attr();
    let reads_group = sample_type.contains(SampleType::READ) && read_format.contains(ReadFormat::GROUP);
    if reads_group && slot.tid().is_none() {
        // On whole cpus nothing is inherited, and there is nothing to give up.
        return Ok(builder.inherit(Inherit::No));
    }
    if reads_group && inherit != Inherit::No {
        let flags = builder.attr().flags;
        return Ok(builder.inherit(Inherit::No).prefer(|attr| attr.flags = flags));
    }
    Ok(builder)
}

/// The targets of the scope, each with a cpu of its own unless threads are to have rings.
fn slots(scope: &Scope, surroundings: &dyn Surroundings) -> Vec<Slot> {
    let cpus = surroundings.online_cpus();
    let mut slots = Vec::new();
    for slot in scope.slots() {
        match slot.tid() {
            Some(tid) if slot.cpu().is_none() && !scope.is_by_thread() => {
                slots.extend(cpus.iter().map(|&cpu| Slot::new(Target::thread(tid).on_cpu(cpu))));
            }
            _ => slots.push(slot.clone()),
        }
    }
    slots
}
