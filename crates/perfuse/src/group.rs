//! Events that count together: on the PMU all at once or not at all, so that their ratios are true.

use crate::builder::Builder;
use crate::call::Call;
use crate::count::{Count, times_of};
use crate::counter::Counter;
use crate::error::Result;
use crate::event::Event;
use crate::perf::Perf;
use crate::target::Target;
use perfuse_abi::read::{ReadValues, len_for};
use perfuse_abi::{AttrFlags, IocFlags, ReadFormat};
use perfuse_sys::Errno;
use std::fmt;
use std::ops::Index;
use std::sync::atomic::{AtomicU64, Ordering};

/// Events on one target that are scheduled together.
///
/// ```
/// # if perfuse::Perf::linux_refuses().is_some() { return Ok(()) }
/// use perfuse::{Group, abi::Software};
///
/// let mut group = Group::new();
/// let faults = group.add(Software::PAGE_FAULTS)?;
/// let clock = group.add(Software::TASK_CLOCK)?;
/// group.enable()?;
/// # std::hint::black_box(vec![1u8; 1 << 16]);
/// group.disable()?;
/// let counts = group.read()?;
/// println!("{} faults in {} ns", counts[faults].value, counts[clock].value);
/// # Ok::<(), perfuse::Error>(())
/// ```
///
/// A member that cannot be opened, or is [removed](Self::remove), leaves the rest as it was.
#[derive(Debug)]
pub struct Group {
    kernel: Perf,
    target: Target,
    /// The leader first. Never shrinks to nothing while the leader's descriptor is needed: a removed
    /// leader stays open, but is not shown.
    counters: Vec<Counter>,
    /// For each counter its event id and its key; no key: removed.
    ids: Vec<(u64, Option<Member>)>,
    enabled: bool,
}

/// A member of a [`Group`], for asking a reading for its count. Unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member(u64);

impl Member {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Member(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for Group {
    fn default() -> Self {
        Self::new()
    }
}

impl Group {
    /// An empty group on the calling thread, with Linux ([`Perf::group`]: with another kernel).
    pub fn new() -> Self {
        Self::on(Target::this_thread())
    }

    /// An empty group on this target.
    pub fn on(target: impl Into<Target>) -> Self {
        let (counters, ids) = (Vec::new(), Vec::new());
        Group { kernel: Perf::linux(), target: target.into(), counters, ids, enabled: false }
    }

    /// The kernel to ask, in place of the running Linux; for an empty group.
    #[must_use]
    pub fn kernel(mut self, kernel: impl Into<Perf>) -> Self {
        self.kernel = kernel.into();
        self
    }

    /// Adds an event with the default options of [`Builder`]. The first one leads the group. To a group
    /// that is counting too: all members then pause for a moment.
    pub fn add(&mut self, event: impl Into<Event>) -> Result<Member> {
        self.add_built(Builder::new(event))
    }

    /// Adds an event with these options; its target is the group's. Options about being scheduled
    /// (`pinned`, `exclusive`) belong to the first.
    pub fn add_built(&mut self, builder: Builder) -> Result<Member> {
        let builder = builder
            .kernel(&self.kernel)
            .target(self.target.clone())
            .with(|attr| attr.read_format |= ReadFormat::GROUP | ReadFormat::ID)
            // Siblings are created on: the leader switches the whole group. A sibling created off stays
            // off with some leaders (see the architecture notes).
            .enabled(!self.counters.is_empty());
        let counter = builder.open_in(self.counters.first().map(|leader| &leader.handle))?;
        let id = counter.id()?;
        let member = Member::next();
        self.counters.push(counter);
        self.ids.push((id, Some(member)));
        if self.enabled && self.ids.len() > 1 {
            // From the start: a member on another software PMU than its leader is not taken along before
            // the leader is scheduled again, and a hardware event that joins software events sets every
            // state back to that of the opening (rule C36).
            self.disable()?;
            self.enable()?;
        }
        Ok(member)
    }

    /// Takes a member out; the others go on undisturbed. The leader keeps its place on the PMU until the
    /// group is dropped, since the kernel knows the group by it.
    pub fn remove(&mut self, member: Member) {
        let Some(index) = self.ids.iter().position(|(_, key)| *key == Some(member)) else { return };
        if index == 0 {
            self.ids[0].1 = None;
        } else {
            self.ids.remove(index);
            drop(self.counters.remove(index));
        }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.ids.iter().filter(|(_, key)| key.is_some()).count()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A member's counter.
    pub fn counter(&self, member: Member) -> Option<&Counter> {
        let index = self.ids.iter().position(|(_, key)| *key == Some(member))?;
        self.counters.get(index)
    }

    /// Every member with its counter, in the order they were added.
    pub fn members(&self) -> impl Iterator<Item = (Member, &Counter)> {
        self.ids.iter().zip(&self.counters).filter_map(|((_, key), counter)| Some(((*key)?, counter)))
    }

    /// Starts all of them at once.
    pub fn enable(&mut self) -> Result<()> {
        self.enabled = true;
        self.counters.first().map_or(Ok(()), |leader| leader.handle.enable(IocFlags::GROUP))
    }

    /// Stops all of them at once.
    pub fn disable(&mut self) -> Result<()> {
        self.enabled = false;
        // Plain: the leader takes its group along, and the siblings stay ready for it.
        self.counters.first().map_or(Ok(()), |leader| leader.handle.disable(IocFlags::empty()))
    }

    /// Sets all counts to zero; the times go on.
    pub fn reset(&mut self) -> Result<()> {
        self.counters.first().map_or(Ok(()), |leader| leader.handle.reset(IocFlags::GROUP))
    }

    /// All counts, taken at the same moment.
    ///
    /// `ECHILD`: the group inherits, and members were added since a child was made that still lives
    /// (rule D12). `ENODATA`: the leader is pinned and found no room on the PMU.
    pub fn read(&self) -> Result<Counts> {
        let mut counts = Counts::default();
        self.read_into(&mut counts)?;
        Ok(counts)
    }

    /// [`read`](Self::read) into an earlier reading, whose memory is used again: the way to read often.
    pub fn read_into(&self, counts: &mut Counts) -> Result<()> {
        let Counts { words, counts } = counts;
        counts.clear();
        let Some(leader) = self.counters.first() else { return Ok(()) };
        let format = leader.attr().read_format;
        words.resize(len_for(format, self.counters.len()) / 8, 0);
        counts.reserve(self.counters.len());
        let refused = |errno| Err(leader.handle.error(Call::Read, errno));
        let mut answer = leader.handle.read(words);
        if answer == Err(Errno::ENOSPC) {
            // A member that was removed here lives on while a forked process has its descriptor. No read
            // returns more than this (rule B31).
            words.resize(2048, 0);
            answer = leader.handle.read(words);
        }
        let filled = match answer {
            Ok(0) => return refused(Errno::ENODATA),
            Ok(filled) => &words[..filled.min(words.len())],
            Err(errno) => return refused(errno),
        };
        // The usual format as a constant, so that the compiler knows where everything is.
        const USUAL: ReadFormat = Count::FORMAT.union(ReadFormat::GROUP);
        let complete = match format {
            USUAL => self.collect(filled, USUAL, counts),
            format => self.collect(filled, format, counts),
        };
        complete.ok_or(()).or_else(|()| refused(Errno::EIO))
    }

    /// Gives each member its count; `None` if there are too few words.
    #[inline(always)]
    fn collect(&self, words: &[u64], format: ReadFormat, counts: &mut Vec<(Member, Count)>) -> Option<()> {
        let values = ReadValues::from_words(words, format).ok()?;
        let times = times_of(&values);
        let mut in_order = self.ids.iter();
        for entry in values.entries() {
            // In the order of opening, as a rule; by id where something was removed meanwhile.
            let own = in_order.next().filter(|(id, _)| Some(*id) == entry.id);
            let own = own.or_else(|| self.ids.iter().find(|(id, _)| Some(*id) == entry.id));
            if let Some((_, Some(member))) = own {
                counts.push((*member, Count::new(entry, times)));
            }
        }
        Some(())
    }
}

impl Perf {
    /// An empty group on the calling thread, as [`Group::new`] makes it, with this kernel.
    pub fn group(&self) -> Group {
        Group::new().kernel(self)
    }
}

/// The counts of a [`Group`], by member.
#[derive(Clone, Default)]
pub struct Counts {
    /// As `read(2)` filled them.
    words: Vec<u64>,
    counts: Vec<(Member, Count)>,
}

impl Counts {
    /// The count of a member; `None` if it was not in the group at that time.
    #[inline]
    pub fn get(&self, member: Member) -> Option<&Count> {
        self.counts.iter().find(|(key, _)| *key == member).map(|(_, count)| count)
    }

    /// All counts, in the order the members were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Member, &Count)> {
        self.counts.iter().map(|(member, count)| (*member, count))
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Index<Member> for Counts {
    type Output = Count;

    /// The count of a member.
    ///
    /// # Panics
    /// If it was not in the group when this was read; see [`get`](Counts::get).
    fn index(&self, member: Member) -> &Count {
        self.get(member).expect("the member belongs to the group that was read")
    }
}

/// The scheduling flags that only a leader may have.
const LEADER_ONLY: AttrFlags = AttrFlags::PINNED.union(AttrFlags::EXCLUSIVE);

/// The event as a member that follows its leader, which switches and places the whole group.
pub(crate) fn sibling(event: Builder) -> Builder {
    event.enabled(true).with(|attr| attr.flags.remove(LEADER_ONLY | AttrFlags::ENABLE_ON_EXEC))
}
