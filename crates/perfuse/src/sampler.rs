//! Events that leave records in a ring: samples, and what happens to the tasks they belong to.

use crate::SignalOwner;
use crate::aux::AuxArea;
use crate::builder::Builder;
use crate::call::Call;
use crate::counter::Counter;
use crate::error::{Error, Result};
use crate::kernel::Request;
use crate::kernel::surroundings::until;
use crate::ring::{Batch, Ring, Snapshot};
use crate::target::Target;
use perfuse_abi::record::{Decoded, RawRecord, RecordFormat};
use perfuse_abi::wire::Short;
use perfuse_abi::{AttrFlags, Breakpoint, ByteOrder, IocFlags, SampleType};
use perfuse_sys::{Errno, Protection};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

/// Makes a [`Sampler`] from its events, its target and its ring.
#[derive(Clone, Debug)]
pub struct SamplerBuilder {
    target: Target,
    events: Vec<Builder>,
    ring: RingOptions,
}

impl Default for SamplerBuilder {
    fn default() -> Self {
        let target = Target::this_thread().into();
        SamplerBuilder { target, events: Vec::new(), ring: RingOptions::default() }
    }
}

/// Size and kind of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// Data pages, rounded up to a power of two.
    pub pages: usize,
    /// This size or none; otherwise a smaller ring is taken where the limits of locked memory do not
    /// allow as much.
    pub exact: bool,
    /// Whether the oldest records give way to the newest (Linux 4.7).
    pub overwrite: bool,
}

impl Default for RingOptions {
    /// 128 pages (512 KiB, mostly) or as many as there may be, read continuously.
    fn default() -> Self {
        RingOptions { pages: 128, exact: false, overwrite: false }
    }
}

impl RingOptions {
    /// The event as a ring of this kind needs it, with the field by which each record tells its event.
    pub(crate) fn prepare(&self, event: &Builder, target: Target, id: SampleType) -> Builder {
        let overwrite = self.overwrite;
        event.clone().target(target).with(move |attr| {
            attr.sample_type |= id;
            attr.flags |= AttrFlags::SAMPLE_ID_ALL;
            attr.flags.set(AttrFlags::WRITE_BACKWARD, overwrite);
        })
    }

    /// Maps rings of this kind with `attempt`, which gets their pages: as many as wanted, or what may be had.
    pub(crate) fn map<T>(&self, mut attempt: impl FnMut(usize) -> Result<T>) -> Result<T> {
        let mut pages = self.pages.clamp(1, 1 << 24).next_power_of_two();
        loop {
            match attempt(pages) {
                // The limit of locked memory, or of what can be had in one piece.
                Err(error)
                    if !self.exact && pages > 1 && [Errno::EPERM, Errno::ENOMEM].contains(&error.errno()) =>
                {
                    pages /= 2;
                }
                result => return result,
            }
        }
    }
}

/// A ring of which nobody gives room back is one that the kernel overwrites.
pub(crate) fn protection(overwrite: bool) -> Protection {
    if overwrite { Protection::Read } else { Protection::ReadWrite }
}

impl SamplerBuilder {
    /// The processes, threads or cpus that all events measure.
    #[must_use]
    pub fn target(mut self, target: impl Into<Target>) -> Self {
        self.target = target.into();
        self
    }

    /// Adds an event; its target is the sampler's. The first one owns the ring.
    #[must_use]
    pub fn event(mut self, event: Builder) -> Self {
        self.events.push(event);
        self
    }

    /// Size of the ring in pages, rounded up to a power of two; 128 (512 KiB, mostly) unless said
    /// otherwise. Where the limits of locked memory do not allow as much, a smaller ring is taken;
    /// [`Sampler::ring_bytes`] tells.
    #[must_use]
    pub fn pages(mut self, pages: usize) -> Self {
        (self.ring.pages, self.ring.exact) = (pages, false);
        self
    }

    /// Size of the ring in pages, this or none.
    #[must_use]
    pub fn exactly_pages(mut self, pages: usize) -> Self {
        (self.ring.pages, self.ring.exact) = (pages, true);
        self
    }

    /// Keeps the newest records in place of the oldest: a flight recorder, read with
    /// [`Sampler::snapshot`] (Linux 4.7).
    #[must_use]
    pub fn overwrite(mut self, on: bool) -> Self {
        self.ring.overwrite = on;
        self
    }

    /// Opens the events and maps the ring. Fails where one of them is refused.
    pub fn open(&self) -> Result<Sampler> {
        let mut members = Vec::with_capacity(self.events.len());
        for event in &self.events {
            let counter = self.ring.prepare(event, self.target.clone(), SampleType::IDENTIFIER).open()?;
            let format = RecordFormat::of(counter.attr(), ByteOrder::NATIVE);
            members.push(Source { id: counter.id()?, format, counter });
        }
        let Some((owner, others)) = members.split_first_mut() else {
            let event = Builder::new(perfuse_abi::Software::DUMMY).attr();
            let (pid, cpu, flags) = self.target.arguments();
            return Err(Error::new(Call::Open { attr: event, pid, cpu, leader: None, flags }, Errno::EINVAL));
        };
        let event = &owner.counter.handle;
        let ring = self.ring.map(|pages| Ring::map(event, pages, protection(self.ring.overwrite)))?;
        for other in others {
            other.counter.handle.ioctl(Request::SetOutput(Some(owner.counter.as_fd())))?;
        }
        Ok(Sampler { aux: None, ring, members })
    }
}

/// Events that share one ring, and the ring.
///
/// ```
/// # if perfuse::Perf::linux_refuses().is_some() { return Ok(()) }
/// use perfuse::{Counter, Sampler, abi::{SampleType, Software, record::Record}};
///
/// let mut sampler = Sampler::builder()
///     .event(Counter::builder(Software::PAGE_FAULTS).period(1).sample(SampleType::IP | SampleType::ADDR))
///     .open()?;
/// sampler.enable()?;
/// let touched = vec![1u8; 1 << 16];
/// sampler.disable()?;
/// for entry in sampler.batch().iter() {
///     if let Record::Sample(sample) = entry.decode()?.record {
///         println!("fault at {:#x} by {:#x}", sample.addr.unwrap_or(0), sample.ip.unwrap_or(0));
///     }
/// }
/// # drop(touched);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the events are closed when this is dropped"]
pub struct Sampler {
    // Dropped in this order: the AUX area is unmapped before the ring, both before the events are closed.
    aux: Option<AuxArea>,
    ring: Ring,
    /// The owner of the ring first.
    members: Vec<Source>,
}

/// An event of a sampler: its counter and the layout of its records.
#[derive(Debug)]
pub struct Source {
    id: u64,
    format: RecordFormat,
    counter: Counter,
}

impl Source {
    /// The event's id, as records carry it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How its records are laid out.
    pub fn format(&self) -> &RecordFormat {
        &self.format
    }

    /// The counter.
    pub fn counter(&self) -> &Counter {
        &self.counter
    }
}

/// An event of a sampler, to change it. It cannot be exchanged for another: the ring is its own.
#[derive(Debug)]
pub struct SourceMut<'s>(&'s mut Counter);

impl SourceMut<'_> {
    /// [`Counter::enable`]
    pub fn enable(&mut self) -> Result<()> {
        self.0.enable()
    }

    /// [`Counter::disable`]
    pub fn disable(&mut self) -> Result<()> {
        self.0.disable()
    }

    /// [`Counter::reset`]
    pub fn reset(&mut self) -> Result<()> {
        self.0.reset()
    }

    /// [`Counter::set_period`]
    pub fn set_period(&mut self, period: u64) -> Result<()> {
        self.0.set_period(period)
    }

    /// [`Counter::refresh`]
    pub fn refresh(&mut self, overflows: i32) -> Result<()> {
        self.0.refresh(overflows)
    }

    /// [`Counter::set_filter`]
    pub fn set_filter(&mut self, filter: &str) -> Result<()> {
        self.0.set_filter(filter)
    }

    /// [`Counter::set_bpf`]
    pub fn set_bpf(&mut self, program: BorrowedFd<'_>) -> Result<()> {
        self.0.set_bpf(program)
    }

    /// [`Counter::move_breakpoint`]
    pub fn move_breakpoint(&mut self, access: Breakpoint, addr: u64, len: u64) -> Result<()> {
        self.0.move_breakpoint(access, addr, len)
    }

    /// [`Counter::pause_output`]
    pub fn pause_output(&mut self, pause: bool) -> Result<()> {
        self.0.pause_output(pause)
    }

    /// [`Counter::deliver_signal`]
    pub fn deliver_signal(&mut self, owner: SignalOwner, signal: i32) -> Result<()> {
        self.0.deliver_signal(owner, signal)
    }
}

/// The reason why [`Sampler::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// There are records.
    Records,
    /// The time is over, and there are none.
    TimedOut,
    /// The measured task and all who inherited the event are gone, and every record has been read.
    Ended,
    /// A signal was handled meanwhile.
    Interrupted,
    /// Another of the descriptors waited for is ready (only [`SamplerSet`](crate::SamplerSet)).
    Other,
}

impl Sampler {
    /// To choose the events and the rest.
    pub fn builder() -> SamplerBuilder {
        SamplerBuilder::default()
    }

    /// The events, in the order they were given.
    pub fn sources(&self) -> &[Source] {
        &self.members
    }

    /// One of the [events](Self::sources), to change it.
    ///
    /// # Panics
    /// Where there are not so many.
    pub fn source_mut(&mut self, index: usize) -> SourceMut<'_> {
        SourceMut(&mut self.members[index].counter)
    }

    /// Starts all events, one after the other.
    pub fn enable(&mut self) -> Result<()> {
        self.members.iter().try_for_each(|member| member.counter.handle.enable(IocFlags::empty()))
    }

    /// Stops all events, one after the other.
    pub fn disable(&mut self) -> Result<()> {
        self.members.iter().try_for_each(|member| member.counter.handle.disable(IocFlags::empty()))
    }

    /// Bytes of the ring.
    pub fn ring_bytes(&self) -> usize {
        self.ring.size()
    }

    /// The records that are there now, without waiting. Dropping the batch gives their room back.
    ///
    /// An [overwritten](SamplerBuilder::overwrite) ring has none: see [`snapshot`](Self::snapshot).
    pub fn batch(&mut self) -> SamplerBatch<'_> {
        SamplerBatch { records: self.ring.batch(), members: &self.members }
    }

    /// Waits until there are records. Whether the kernel wakes us at the first one or later is up to the
    /// events' wake-up settings: at half the ring unless they say otherwise. For an
    /// [overwritten](SamplerBuilder::overwrite) ring it waits for records that are newer than those of the last snapshot.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Wait> {
        let owner = &self.members[0].counter;
        let surroundings = owner.handle.surroundings();
        let deadline = timeout.and_then(|timeout| surroundings.now().checked_add(timeout));
        loop {
            if self.ring.has_records() {
                return Ok(Wait::Records);
            }
            let (found, is_over) = match until(surroundings, &[owner.as_fd()], deadline) {
                Ok((found, is_over)) => (found[0], is_over),
                Err(Errno::EINTR) => return Ok(Wait::Interrupted),
                Err(errno) => return Err(owner.handle.error(Call::Poll, errno)),
            };
            owner.handle.polled(found);
            // Records may have come between the look at the ring and the news that the task is gone.
            if self.ring.has_records() {
                return Ok(Wait::Records);
            }
            if found.hangup || found.error {
                return Ok(Wait::Ended);
            }
            if is_over || surroundings.is_over() {
                return Ok(Wait::TimedOut);
            }
        }
    }

    /// Tells that an event loop of your own (poll, epoll, an async runtime) has heard that the descriptor is readable, so
    /// that the next wake-up is told again. To be called each time, before the records are read. Linux takes readiness
    /// back by itself when it tells it (rule G24), and nothing happens; descriptors of the embedded kernel are pipes, which
    /// would stay readable. [`wait`](Self::wait) does it.
    pub fn acknowledge(&self) {
        self.members[0].counter.acknowledge();
    }

    /// Stops the ring, copies what it holds, and lets it go on: the newest records of an
    /// [overwritten](SamplerBuilder::overwrite) ring. Events that happen meanwhile leave no record.
    pub fn snapshot(&mut self) -> Result<SamplerSnapshot<'_>> {
        let records = self.ring.paused_snapshot(&self.members[0].counter.handle)?;
        Ok(SamplerSnapshot { records, members: &self.members })
    }

    /// Maps an AUX area of `pages` (a power of two) for the first event, whose PMU must trace. With
    /// `overwrite` the oldest trace data gives way. `EOPNOTSUPP` for other PMUs.
    pub fn map_aux(&mut self, pages: usize, overwrite: bool) -> Result<()> {
        let protection = if overwrite { Protection::Read } else { Protection::ReadWrite };
        self.aux = Some(AuxArea::map(&self.members[0].counter.handle, &self.ring, pages, protection)?);
        Ok(())
    }

    /// Bytes of the AUX area; 0 without one.
    pub fn aux_bytes(&self) -> usize {
        self.aux.as_ref().map_or(0, AuxArea::size)
    }

    /// Hands the trace data that arrived since the last call to `take`, in two parts where it lies across
    /// the end of the area, and gives its room back. Of an overwritten area a copy is handed over, of the whole of
    /// it, made with the event switched off. `None` without an area.
    pub fn read_aux<T>(&mut self, take: impl FnOnce(&[u8], &[u8]) -> T) -> Result<Option<T>> {
        let Some(aux) = &mut self.aux else { return Ok(None) };
        let owner = &self.members[0].counter.handle;
        if aux.is_overwritten() {
            owner.disable(IocFlags::empty())?;
        }
        let result = aux.read(&mut self.ring, take);
        if aux.is_overwritten() {
            owner.enable(IocFlags::empty())?;
        }
        Ok(Some(result))
    }
}

impl AsFd for Sampler {
    /// The descriptor that becomes readable when the ring asks to be read: for epoll and async runtimes.
    /// Each wake-up is reported once, so [acknowledge](Sampler::acknowledge) it and read everything before waiting again.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.members[0].counter.as_fd()
    }
}

impl AsRawFd for Sampler {
    /// As [`as_fd`](AsFd::as_fd), for runtimes that ask for this.
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// A record with the event it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct SamplerRecord<'b> {
    /// Header and bytes.
    pub raw: RawRecord<'b>,
    /// Index of the event: among [`Sampler::sources`], or in the list that a [`SamplerSet`](crate::SamplerSet) was opened with.
    pub source: usize,
    pub(crate) format: &'b RecordFormat,
}

impl<'b> SamplerRecord<'b> {
    fn new(raw: RawRecord<'b>, members: &'b [Source]) -> Self {
        // With IDENTIFIER the id's place is the same in every event's records.
        let id = members[0].format.id_of(&raw);
        // A record without an id of ours is the ring's own.
        let source = if members.len() == 1 { 0 } else { position(members, id).unwrap_or(0) };
        SamplerRecord { raw, source, format: &members[source].format }
    }

    /// Takes the record apart.
    #[inline]
    pub fn decode(&self) -> Result<Decoded<'b>, Short> {
        self.raw.decode(self.format)
    }

    /// [`decode`](Self::decode) in place of an earlier result, which saves moving a large value: for loops
    /// over many records. After an error the content is that of no record.
    #[inline]
    pub fn decode_into(&self, decoded: &mut Decoded<'b>) -> Result<(), Short> {
        decoded.fill(&self.raw, self.format)
    }

    /// When it was written, in ns of the event's clock; with [`SampleType::TIME`].
    pub fn time_ns(&self) -> Option<u64> {
        self.format.time_of(&self.raw)
    }
}

fn position(members: &[Source], id: Option<u64>) -> Option<usize> {
    let id = id?;
    members.iter().position(|member| member.id == id)
}

/// The records that a sampler's ring held at one moment.
#[derive(Debug)]
#[must_use = "records are taken by iterating"]
pub struct SamplerBatch<'s> {
    records: Batch<'s>,
    members: &'s [Source],
}

impl<'s> SamplerBatch<'s> {
    /// The records, oldest first. Each can be taken once.
    pub fn iter(&self) -> impl Iterator<Item = SamplerRecord<'_>> {
        std::iter::from_fn(|| self.records.next().map(|raw| SamplerRecord::new(raw, self.members)))
    }

    /// The records without their events: the fastest way through.
    pub fn raw(&self) -> &Batch<'s> {
        &self.records
    }
}

/// The newest records of an overwritten ring.
#[derive(Debug)]
pub struct SamplerSnapshot<'s> {
    records: Snapshot,
    members: &'s [Source],
}

impl SamplerSnapshot<'_> {
    /// The records, newest first.
    pub fn iter(&self) -> impl Iterator<Item = SamplerRecord<'_>> {
        self.records.iter().map(|raw| SamplerRecord::new(raw, self.members))
    }
}
