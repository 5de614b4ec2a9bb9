//! Events that leave records, on everything a [`Scope`] covers: one ring for each cpu, shared by all
//! events and tasks. What recording a program with its children, or a whole machine, takes.

use crate::builder::{Builder, GivenUp};
use crate::counter::Counter;
use crate::error::{Call, Error, Result};
use crate::kernel::Request;
use crate::pmu::online_cpus;
use crate::ring::{Batch, Ring, Snapshot};
use crate::sampler::{RingOptions, Wait};
use crate::scope::Scope;
use crate::target::Target;
use perfuse_abi::{Attr, AttrFlags, IocFlags};
use perfuse_sys::poll::poll;
use perfuse_sys::{Errno, limits};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Every event of a list on every target of a [`Scope`], with a ring for each cpu.
///
/// The kernel lets events of different tasks share a ring only if all are bound to its cpu (rule G31),
/// and gives inherited events no ring otherwise (rule F1). So each task's event is opened once for every
/// cpu.
///
/// ```
/// use perfuse::{Command, Counter, RingOptions, SamplerSet, Scope, abi::{AttrFlags, Software}};
///
/// let command = Command::new("true").hold()?;
/// let event = Counter::builder(Software::DUMMY)
///     .enable_on_exec(true)
///     .with(|attr| attr.flags |= AttrFlags::TASK | AttrFlags::COMM | AttrFlags::MMAP);
/// let mut set = SamplerSet::open(&Scope::command(&command), &[event], RingOptions::default())?;
/// command.release()?.wait()?;
/// let records: usize = (0..set.rings()).map(|ring| set.batch(ring).iter().count()).sum();
/// assert!(records >= 3, "a COMM, some MMAPs and an EXIT");
/// # Ok::<(), perfuse::Error>(())
/// ```
#[derive(Debug)]
pub struct SamplerSet {
    // Unmapped before the events are closed.
    rings: Vec<CpuRing>,
    sources: Vec<SetSource>,
    events: Vec<SetEventInfo>,
}

#[derive(Debug)]
struct CpuRing {
    ring: Ring,
    /// Index of the source that owns it.
    owner: usize,
}

/// One event on one target.
#[derive(Debug)]
pub struct SetSource {
    /// Index of the event in the list that was opened.
    pub event: usize,
    /// Index of its ring.
    pub ring: usize,
    /// The cpu.
    pub cpu: u32,
    /// The thread, unless the event is for everything on the cpu.
    pub tid: Option<u32>,
    /// The event's id, as records carry it.
    pub id: u64,
    counter: Counter,
}

impl SetSource {
    /// The counter.
    pub fn counter(&self) -> &Counter {
        &self.counter
    }
}

/// What the kernel accepted of an event.
#[derive(Debug)]
struct SetEventInfo {
    attr: Attr,
    given_up: Vec<GivenUp>,
}

impl SamplerSet {
    /// Opens all events on all targets. Targets that are gone meanwhile are left out; `ESRCH` if all are.
    /// Fails where an event is refused, or descriptors run out (the soft limit is raised before).
    pub fn open(scope: &Scope, events: &[Builder], ring: RingOptions) -> Result<Self> {
        let cpus = online_cpus();
        let targets = targets(scope, &cpus);
        limits::provide_open_files((targets.len() * events.len()) as u64 + 64);
        let inherit = scope.inherit();
        let mut set = SamplerSet { rings: Vec::new(), sources: Vec::new(), events: Vec::new() };
        let mut gone = None;
        // The rings by cpu; a cpu number is small.
        let mut by_cpu: Vec<Option<usize>> = Vec::new();
        for (target, cpu) in targets {
            for (index, event) in events.iter().enumerate() {
                let counter = match ring.prepare(event, target.clone()).inherit(inherit).open() {
                    Ok(counter) => counter,
                    Err(error) if error.is_gone() => {
                        gone = Some(error);
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                if set.events.len() == index {
                    set.events
                        .push(SetEventInfo { attr: *counter.attr(), given_up: counter.given_up().to_vec() });
                }
                let place = cpu as usize;
                if by_cpu.len() <= place {
                    by_cpu.resize(place + 1, None);
                }
                let number = match by_cpu[place] {
                    Some(number) => {
                        let owner = &set.sources[set.rings[number].owner].counter;
                        counter.handle.ioctl(Request::SetOutput(Some(owner.as_fd())))?;
                        number
                    }
                    None => {
                        set.rings
                            .push(CpuRing { ring: ring.map(&counter.handle)?, owner: set.sources.len() });
                        *by_cpu[place].insert(set.rings.len() - 1)
                    }
                };
                let (id, tid) = (counter.id()?, target.tid());
                set.sources.push(SetSource { event: index, ring: number, cpu, tid, id, counter });
            }
        }
        match gone {
            Some(error) if set.sources.is_empty() => Err(error),
            _ => Ok(set),
        }
    }

    /// Each event on each target, in the order of opening.
    pub fn sources(&self) -> &[SetSource] {
        &self.sources
    }

    /// The attr of an event as the kernel accepted it; `None` for one that is open nowhere.
    pub fn attr(&self, event: usize) -> Option<&Attr> {
        self.events.get(event).map(|info| &info.attr)
    }

    /// The preferences of an event that had to be given up.
    pub fn given_up(&self, event: usize) -> &[GivenUp] {
        self.events.get(event).map_or(&[], |info| &info.given_up)
    }

    /// Number of rings.
    pub fn rings(&self) -> usize {
        self.rings.len()
    }

    /// The cpu of a ring.
    pub fn cpu(&self, ring: usize) -> u32 {
        self.sources[self.rings[ring].owner].cpu
    }

    /// Bytes of one ring.
    pub fn ring_bytes(&self) -> usize {
        self.rings.first().map_or(0, |ring| ring.ring.size())
    }

    /// Starts every event that was opened switched off.
    pub fn enable(&mut self) -> Result<()> {
        self.switchable().try_for_each(|source| source.counter.handle.enable(IocFlags::empty()))
    }

    /// Stops every event.
    pub fn disable(&mut self) -> Result<()> {
        self.sources.iter().try_for_each(|source| source.counter.handle.disable(IocFlags::empty()))
    }

    fn switchable(&self) -> impl Iterator<Item = &SetSource> {
        self.sources.iter().filter(|source| source.counter.attr().flags.contains(AttrFlags::DISABLED))
    }

    /// What one ring holds now, without waiting. Dropping the batch gives the room back.
    pub fn batch(&mut self, ring: usize) -> Batch<'_> {
        self.rings[ring].ring.batch()
    }

    /// Stops an overwritten ring, copies what it holds, and lets it go on.
    pub fn snapshot(&mut self, ring: usize) -> Result<Snapshot> {
        let CpuRing { ring, owner } = &mut self.rings[ring];
        ring.paused_snapshot(&self.sources[*owner].counter.handle)
    }

    /// Waits until a ring asks to be read, or one of `others` is ready, or the time is over.
    /// [`Wait::Ended`] once every measured task is gone and its records have been read.
    pub fn wait(&self, others: &[BorrowedFd<'_>], timeout: Option<Duration>) -> Result<Wait> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let owners = self.rings.iter().map(|ring| self.sources[ring.owner].counter.as_fd());
        let all: Vec<_> = owners.chain(others.iter().copied()).collect();
        match poll(&all, left()) {
            Err(Errno::EINTR) => Ok(Wait::Interrupted),
            Err(errno) => Err(Error::new(Call::Poll, errno)),
            Ok(found) => {
                let (rings, others) = found.split_at(self.rings.len());
                Ok(if self.rings.iter().any(|ring| ring.ring.has_records()) {
                    Wait::Records
                } else if others.iter().any(|other| other.any()) {
                    Wait::Other
                } else if !rings.is_empty() && rings.iter().all(|ring| ring.hangup || ring.error) {
                    Wait::Ended
                } else {
                    Wait::TimedOut
                })
            }
        }
    }
}

/// Each target of the scope with a cpu of its own.
fn targets(scope: &Scope, cpus: &[u32]) -> Vec<(Target, u32)> {
    let mut targets = Vec::new();
    for slot in scope.slots() {
        match (slot.cpu(), slot.tid()) {
            (Some(cpu), _) => targets.push((slot.target.clone(), cpu)),
            (None, Some(tid)) => {
                targets.extend(cpus.iter().map(|&cpu| (Target::thread(tid).on_cpu(cpu), cpu)))
            }
            (None, None) => {}
        }
    }
    targets
}
