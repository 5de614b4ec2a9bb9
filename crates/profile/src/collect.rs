//! Samples in, a profile for each event out. What a sample costs when its like was there before is one hash
//! over its callchain and one look into a table; only new callchains are taken apart.

use crate::chains::Order;
use crate::filter::Filter;
use crate::frames::{FrameId, Frames, Moment, level_of};
use crate::hash::{FastMap, Fingerprint};
use crate::keys::Key;
use crate::places::{NameTest, Places, Wanted};
use crate::rows::Rows;
use crate::seen::{Counted, Seen};
use crate::stacks::Stacks;
use perfuse_abi::Attr;
use perfuse_abi::record::{CallchainContext, Sample};
use perfuse_data::session::{Level, Session};

/// A plan: which samples to collect, and what to tell them apart by.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The keys that tell samples apart, beside their frames.
    pub keys: Vec<Key>,
    /// Whether callchains count, or only where the samples were.
    pub chains: bool,
    /// Callchains are cut after this many addresses from where the sample was. [`MAX_STACK`](Self::MAX_STACK) by default:
    /// with `--children` each frame becomes an entry with a tree of its own, so what is shown of a callchain grows with the
    /// square of its length.
    pub max_stack: usize,
    /// The steps of [`Key::Time`].
    pub time_step_ns: u64,
    /// Which samples become part of the profile. What does not is still part of the whole.
    pub filter: Filter,
    /// How call trees will be read.
    pub order: Order,
    /// The socket of each cpu, for [`Key::Socket`].
    pub sockets: Vec<u32>,
    /// Which functions are looked for among the callers, for [`Key::Parent`].
    pub parent: Option<NameTest>,
    /// Functions whose callees are taken for the functions themselves.
    pub ignore_callees: Option<NameTest>,
}

impl Plan {
    /// So many frames Linux records at most, unless `kernel.perf_event_max_stack` says otherwise, and perf shows.
    pub const MAX_STACK: usize = 127;

    /// Callchains and all samples, each counted where it was.
    pub fn new(keys: &[Key]) -> Self {
        let keys = keys.iter().copied().filter(|key| !key.is_of_frame()).collect();
        let filter = Filter::default();
        Plan {
            keys,
            chains: true,
            max_stack: Self::MAX_STACK,
            time_step_ns: 100_000_000,
            filter,
            order: Order::new(true, false),
            sockets: Vec::new(),
            parent: None,
            ignore_callees: None,
        }
    }
}

/// The samples of one event.
#[derive(Debug)]
pub struct Profile {
    /// Values of the keys that are not of frames, for each context.
    pub(crate) contexts: Vec<Box<[u64]>>,
    numbers: FastMap<Box<[u64]>, u32>,
    stacks: Stacks,
    /// The stacks, when all are there.
    pub(crate) rows: Rows,
    pub(crate) order: Order,
    /// All samples, also those that the filter leaves out.
    pub samples: u64,
    /// The occurrences of the event that they stand for.
    pub weight: u64,
    /// Samples that have a callchain.
    pub chains: u64,
}

impl Default for Profile {
    fn default() -> Self {
        Profile::new(Order::new(true, false))
    }
}

impl Profile {
    pub(crate) fn new(order: Order) -> Self {
        Profile {
            contexts: Vec::new(),
            numbers: FastMap::default(),
            stacks: Stacks::default(),
            rows: Rows::default(),
            order,
            samples: 0,
            weight: 0,
            chains: 0,
        }
    }

    /// Makes what a report reads of what was collected.
    pub(crate) fn close(&mut self) {
        self.numbers = FastMap::default();
        let mut stacks = std::mem::take(&mut self.stacks);
        stacks.close();
        self.rows = Rows::new(&stacks, self.order.caller_first);
    }

    fn context(&mut self, values: &[u64]) -> u32 {
        if let Some(&context) = self.numbers.get(values) {
            return context;
        }
        let context = self.contexts.len() as u32;
        self.contexts.push(values.into());
        self.numbers.insert(values.into(), context);
        context
    }
}

/// Facts of a thread, which hold as long as nothing but samples comes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Task {
    pub(crate) tid: u32,
    pid: u32,
    /// When it was looked up.
    moment: u64,
    /// The number of its name, or [`NAMELESS`] and its own.
    comm: u64,
    pub(crate) maps: u64,
    is_wanted: bool,
    /// Whether the process tells of code that it makes.
    makes_code: bool,
}

/// Stands with a thread's number for its name, where no record tells that.
const NAMELESS: u64 = 1 << 32;

/// perf's name for such a thread.
pub(crate) fn nameless(tid: u32) -> String {
    format!(":{}", tid as i32)
}

/// The thread that has no name, by the value of [`Key::Comm`].
pub(crate) fn nameless_tid(comm: u64) -> Option<u32> {
    (comm & NAMELESS != 0).then_some(comm as u32)
}

const TASKS: usize = 256;
/// Callchains that are remembered of processes that make code; then they are taken apart again.
const MOST_SEEN: usize = 1 << 20;
/// Stands for the stack of what is not wanted.
const UNWANTED: u32 = u32::MAX;

/// Takes samples in.
pub struct Collector {
    pub(crate) plan: Plan,
    pub(crate) frames: Frames,
    profiles: Vec<Profile>,
    /// The stack of each combination of task state, key values and callchain, and its samples.
    seen: Seen,
    /// Counts what may change tasks.
    moment: u64,
    tasks: Vec<Task>,
    kernel_maps: u64,
    values: Vec<u64>,
    /// Of the callchain that is taken apart, addresses with whose they are, and frames.
    addresses: Vec<(Level, u64)>,
    path: Vec<FrameId>,
    given: Vec<u64>,
    /// Whether values of keys have to be looked up.
    has_places: bool,
    pub(crate) places: Places,
}

impl Collector {
    /// With nothing collected yet.
    pub fn new(plan: Plan, frames: Frames) -> Self {
        Collector {
            has_places: plan.keys.iter().any(|key| key.is_place()),
            plan,
            frames,
            profiles: Vec::new(),
            seen: Seen::default(),
            moment: 1,
            tasks: vec![Task::default(); TASKS],
            kernel_maps: 0,
            values: Vec::new(),
            addresses: Vec::new(),
            path: Vec::new(),
            given: Vec::new(),
            places: Places::default(),
        }
    }

    /// The values of the keys that are [given](Key::Given), of the sample that is added next.
    pub fn give(&mut self, values: &[u64]) {
        self.given.clear();
        self.given.extend_from_slice(values);
    }

    /// The keys that are the whole sample's, which [`Names`](crate::Names) wants to know.
    pub fn keys(&self) -> &[Key] {
        &self.plan.keys
    }

    /// To be told when the session was told anything but a sample.
    #[inline]
    pub fn session_changed(&mut self) {
        self.moment += 1;
    }

    /// The profiles by the index of the event, and the frames they consist of.
    pub fn finish(mut self) -> (Vec<Profile>, Frames) {
        self.settle();
        let Collector { mut profiles, mut frames, .. } = self;
        frames.forget_addresses();
        profiles.iter_mut().for_each(Profile::close);
        (profiles, frames)
    }

    #[inline]
    fn task(&mut self, session: &Session, pid: u32, tid: u32) -> Task {
        let place = tid as usize % TASKS;
        let known = self.tasks[place];
        if (known.tid, known.pid, known.moment) == (tid, pid, self.moment) {
            return known;
        }
        self.kernel_maps = session.kernel_maps().id();
        let comm = session.comm_of(pid, tid);
        let own = comm.is_none().then(|| nameless(tid));
        let name = own.as_ref().map(String::as_bytes).or(comm.map(|comm| session.comm(comm)));
        let is_wanted = self.plan.filter.admits_task(pid, tid, name.unwrap_or_default());
        let comm = comm.map_or(NAMELESS | u64::from(tid), |comm| comm.0.into());
        let maps = session.maps_of(pid, tid);
        let (maps, makes_code) = (maps.id(), maps.jit_dump().is_some());
        let task = Task { tid, pid, moment: self.moment, comm, maps, is_wanted, makes_code };
        self.tasks[place] = task;
        task
    }

    /// Adds a sample of an event, which has this index and attr. `level` says whose the sample's address is.
    #[inline]
    pub fn add(
        &mut self,
        (event, attr): (usize, &Attr),
        session: &Session,
        sample: &Sample<'_>,
        level: Level,
        weight: u64,
    ) {
        let at = Moment::of(attr, sample);
        let task = self.task(session, at.pid, at.tid);
        if self.profiles.len() <= event {
            let order = self.plan.order;
            self.profiles.resize_with(event + 1, || Profile::new(order));
        }
        let profile = &mut self.profiles[event];
        profile.samples += 1;
        // Weights of broken files must leave room, here and in every sum.
        let weight = weight.min(u64::MAX - profile.weight);
        profile.weight += weight;
        profile.chains += u64::from(sample.callchain.is_some());
        if !task.is_wanted {
            return;
        }
        let ip = sample.ip.unwrap_or(0);
        let mut print = Fingerprint::default();
        print.add((event as u64) << 8 | level as u64);
        print.add(task.maps);
        print.add(self.kernel_maps);
        self.values.clear();
        if self.has_places {
            let wanted = Wanted { session, sample, level, at, task, branch: None };
            self.look_up(&wanted);
        } else {
            for key in &self.plan.keys {
                self.values.push(key.value(sample, task.comm, &self.plan, &self.given));
            }
        }
        self.values.iter().for_each(|&value| print.add(value));
        print.add(ip);
        if let (true, Some(chain)) = (self.plan.chains, &sample.callchain) {
            chain.words.iter().for_each(|word| print.add(word));
        }
        let code = match task.makes_code {
            true => self.frames.code_time(session, at).map_or(0, |(_, known)| known),
            false => 0,
        };
        print.add(code);
        let print = print.finish();
        if self.seen.count(print, weight) {
            return;
        }
        let stack = self.stack_of(event, session, sample, level, task, (at, code));
        // Where code changes all the time, hardly anything comes twice.
        if task.makes_code && self.seen.len() >= MOST_SEEN {
            self.settle();
        }
        self.seen.insert(print, event, stack, weight);
    }

    /// Adds what was counted to the stacks.
    fn settle(&mut self) {
        for Counted { event, stack, weight, samples } in
            self.seen.take().filter(|counted| counted.stack != UNWANTED)
        {
            self.profiles[event].stacks.add(stack, (weight, samples));
        }
    }

    /// The values of all keys, some of which have to be looked up.
    #[cold]
    fn look_up(&mut self, wanted: &Wanted<'_>) {
        self.values.clear();
        for index in 0..self.plan.keys.len() {
            let key = self.plan.keys[index];
            let value = match key.is_place() {
                true => self.place(key, wanted),
                false => key.value(wanted.sample, wanted.task.comm, &self.plan, &self.given),
            };
            self.values.push(value);
        }
    }

    /// Adds the branches of a sample in place of the sample, each by where it went to. Callchains do not count.
    pub fn add_branches(
        &mut self,
        (event, attr): (usize, &Attr),
        session: &Session,
        sample: &Sample<'_>,
        level: Level,
    ) {
        let Some(branches) = &sample.branch_stack else { return };
        let at = Moment::of(attr, sample);
        let task = self.task(session, at.pid, at.tid);
        if self.profiles.len() <= event {
            let order = self.plan.order;
            self.profiles.resize_with(event + 1, || Profile::new(order));
        }
        let mut is_wanted = task.is_wanted;
        if is_wanted && !self.plan.filter.admits_all_frames() {
            let leaf = self.frames.locate(session, at, level, sample.ip.unwrap_or(0)).frame;
            is_wanted = self.plan.filter.admits_frame(&self.frames, leaf);
        }
        let mut wanted = Wanted { session, sample, level, at, task, branch: None };
        for branch in branches.entries.iter() {
            self.profiles[event].samples += 1;
            self.profiles[event].weight += 1;
            if !is_wanted {
                continue;
            }
            wanted.branch = Some(branch);
            self.look_up(&wanted);
            let target = self.target_of(&wanted, branch.to);
            let profile = &mut self.profiles[event];
            let context = profile.context(&self.values);
            let stack = profile.stacks.intern(context, &[target], task.tid);
            profile.stacks.add(stack, (1, 1));
        }
    }

    /// The stack of a sample; [`UNWANTED`] if the sample is.
    #[inline(never)]
    fn stack_of(
        &mut self,
        event: usize,
        session: &Session,
        sample: &Sample<'_>,
        level: Level,
        task: Task,
        (at, code): (Moment, u64),
    ) -> u32 {
        let Collector { plan, frames, addresses, path, .. } = self;
        let user_maps = if task.makes_code { frames.state_of(task.maps, code) } else { task.maps };
        let maps_of = |level| match level {
            Level::User => user_maps,
            Level::Kernel => self.kernel_maps,
            _ => 0,
        };
        let mut leaf = frames.frame_at(session, at, maps_of(level), level, sample.ip.unwrap_or(0));
        if !plan.filter.admits_frame(frames, leaf) {
            return UNWANTED;
        }
        addresses.clear();
        if let (true, Some(chain)) = (plan.chains, &sample.callchain) {
            let mut marked = Some(level);
            for word in chain.words.iter().take(u16::MAX.into()) {
                match (CallchainContext::of(word), marked) {
                    (Some(context), _) => marked = level_of(context),
                    (None, Some(level)) => addresses.push((level, word)),
                    (None, None) => {}
                }
            }
            addresses.truncate(plan.max_stack);
        }
        path.clear();
        // The first address is where the sample was, which is known better.
        let mut callers = addresses.get(1..).unwrap_or(&[]);
        if let Some(test) = &plan.ignore_callees {
            // The outermost of them is taken for where the sample was.
            for (index, &(level, ip)) in callers.iter().enumerate().rev() {
                let frame = frames.frame_at(session, at, maps_of(level), level, ip);
                if frames.get(frame).symbol.as_deref().is_some_and(|name| test.admits(name)) {
                    (leaf, callers) = (frame, &callers[index + 1..]);
                    break;
                }
            }
        }
        let callers = callers.iter().rev();
        path.extend(callers.map(|&(level, ip)| frames.frame_at(session, at, maps_of(level), level, ip)));
        path.push(leaf);
        let profile = &mut self.profiles[event];
        let context = profile.context(&self.values);
        profile.stacks.intern(context, path, task.tid)
    }
}

/// A frame with its own number, for tests.
#[cfg(test)]
impl Profile {
    pub(crate) fn add_stack(&mut self, frames: &[u32], weight: u64) {
        let context = self.context(&[]);
        let path: Vec<FrameId> = frames.iter().rev().map(|&frame| FrameId(frame)).collect();
        let stack = self.stacks.intern(context, &path, 0);
        self.stacks.add(stack, (weight, 1));
        self.samples += 1;
        self.weight += weight;
    }
}
