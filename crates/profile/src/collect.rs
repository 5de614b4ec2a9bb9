//! Samples in, a [`Profile`] out. Here each address becomes a location; what was there before is found [by another](counting),
//! on a processor of its own where there are many samples.

mod counting;
mod functions;
mod places;

use crate::hash::{FastMap, Fingerprint};
use crate::keys::Key;
use crate::locate::{Locator, ThreadTime, level_of};
use crate::mem;
use crate::profile::Profile;
use crate::strings::StringId;
use crate::tables::{
    Cgroup, ChainStart, Contexts, EventSum, Given, Location, LocationId, Locations, ObjectId, Thread,
};
use counting::{Counted, Counting, Head, Place, Sum};
use perfuse_abi::Attr;
use perfuse_abi::record::{CallchainContext, DataSrc, Sample, Weight};
use perfuse_abi::wire::Words;
use perfuse_data::session::{CommId, Level, Session};
use perfuse_symbols::Symbolizer;
use places::{Places, Wanted};
use std::collections::HashMap;
use std::sync::Arc;

/// A plan: which samples to collect, and by what to tell them apart.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The keys that tell samples apart, beside their stacks.
    pub keys: Vec<Key>,
    /// Whether callchains count, or only where the samples were.
    pub chains: bool,
    /// Callchains are cut after this many addresses from where the sample was. [`MAX_STACK`](Self::MAX_STACK) by default:
    /// with what functions call, each frame becomes an entry with a tree of its own, so a view of a callchain grows with
    /// the square of its length.
    pub max_stack: usize,
    /// The steps of [`Key::Time`].
    pub time_step_ns: u64,
    /// Whether each sample is kept with its time too: then memory grows with the samples.
    pub times: bool,
    /// Samples of other tasks are left out of the stacks. They are still part of the event's sum.
    pub tasks: TaskFilter,
    /// The socket of each cpu, for [`Key::Socket`].
    pub sockets: Vec<u32>,
    /// Reads what processes tell of code that they make while they run (jitdumps): where code changes, this tells when.
    pub code: Option<Arc<Symbolizer>>,
    /// Whether views will show functions alone, without addresses or lines in them. Then all addresses of a function that
    /// [`code`](Self::code) knows become one location in stacks, that of the first of them: few locations and few stacks are
    /// left where programs run in many processes, each at addresses of its own.
    pub by_function: bool,
    /// Whether views will tell inlined functions, too. Then locations [by function](Self::by_function) are those of addresses
    /// in the file, where debug information tells of inlined functions there.
    pub inlined: bool,
}

/// Tasks that are wanted; an empty list admits all.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    /// Names of threads.
    pub comms: Vec<String>,
    /// Processes.
    pub pids: Vec<u32>,
    /// Threads.
    pub tids: Vec<u32>,
    /// Numbers of threads that ran, where these are known.
    pub parallelism: Vec<u32>,
}

impl TaskFilter {
    fn admits(&self, pid: u32, tid: u32, comm: &[u8]) -> bool {
        let listed = |list: &[u32], value| list.is_empty() || list.contains(&value);
        listed(&self.pids, pid)
            && listed(&self.tids, tid)
            && (self.comms.is_empty() || self.comms.iter().any(|name| name.as_bytes() == comm))
    }
}

impl Plan {
    /// So many frames Linux records at most, unless `kernel.perf_event_max_stack` says otherwise, and perf shows.
    pub const MAX_STACK: usize = 127;

    /// Process, thread, name, cgroup and cpu: by these a profile can be seen from every side later.
    pub const ALL_KEYS: [Key; 5] = [Key::Tgid, Key::Pid, Key::Comm, Key::Cgroup, Key::Cpu];

    /// Callchains and all samples, told apart by these keys. Keys that the stack of a sample tells need not be given.
    pub fn new(keys: &[Key]) -> Self {
        let mut plan = Plan {
            keys: Vec::new(),
            chains: true,
            max_stack: Self::MAX_STACK,
            time_step_ns: 100_000_000,
            times: false,
            tasks: TaskFilter::default(),
            sockets: Vec::new(),
            code: None,
            by_function: false,
            inlined: false,
        };
        for &key in keys.iter().filter(|key| !key.is_of_stack()) {
            if !plan.keys.contains(&key) {
                plan.keys.push(key);
            }
        }
        plan
    }
}

/// A sample, and what it is a sample of.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// The index of its event, and the attr that it was opened with.
    pub event: (usize, &'a Attr),
    /// Processes and mappings at its time.
    pub session: &'a Session,
    /// The sample.
    pub sample: &'a Sample<'a>,
    /// Its callchain: that of the sample, or one that was unwound from its registers and stack. Addresses, the innermost
    /// first, with markers of [`CallchainContext`] before those of another level.
    pub chain: Option<&'a Words<'a>>,
    /// The level of its address.
    pub level: Level,
    /// The occurrences of the event that it stands for.
    pub weight: u64,
}

impl<'a> Taken<'a> {
    /// A sample with the callchain that it has itself.
    pub fn new(
        event: (usize, &'a Attr),
        session: &'a Session,
        sample: &'a Sample<'a>,
        level: Level,
        weight: u64,
    ) -> Self {
        let chain = sample.callchain.as_ref().map(|chain| &chain.words);
        Taken { event, session, sample, chain, level, weight }
    }
}

/// Facts of a thread, which hold as long as nothing but samples comes.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    pub(crate) tid: u32,
    pid: u32,
    /// The count of changes when it was looked up.
    changes: u64,
    comm: StringId,
    pub(crate) maps: u64,
    is_wanted: bool,
    /// Whether the process tells of code that it makes.
    makes_code: bool,
}

const TASKS: usize = 256;
/// Addresses that are found without a look into the table of all; a power of two.
const RECENT: usize = 1 << 11;
/// Addresses that are remembered; then they are worked out again.
const MOST_ADDRESSES: usize = 1 << 22;
/// More locations than this are not told apart: what comes then is one location, which says so.
const MOST_LOCATIONS: usize = if cfg!(test) { 1 << 12 } else { 1 << 22 };

/// Takes samples in.
pub struct Collector {
    plan: Plan,
    pub(crate) locator: Locator,
    pub(crate) locations: Locations,
    contexts: Contexts,
    threads: Numbered<u32>,
    cgroups: Numbered<u64>,
    texts: Numbered<Given>,
    events: Vec<EventSum>,
    counting: Counting,
    /// Counts all that may change tasks.
    changes: u64,
    tasks: Vec<Task>,
    comms: FastMap<u32, StringId>,
    kernel_maps: u64,
    /// By the state of the maps, and address.
    addresses: FastMap<(u64, u64), LocationId>,
    /// By place of a sample and where its callchain begins.
    chained: FastMap<(LocationId, u64), LocationId>,
    /// Some of these, each at the place that its address names.
    recent: Vec<((u64, u64), LocationId)>,
    /// By object and function, or place in the file, the location that stands for all of its addresses.
    functions: FastMap<(ObjectId, u64), LocationId>,
    /// Stands for all locations beyond the number that is told apart.
    rest: Option<LocationId>,
    pub(crate) places: Places,
    /// Whether values of keys have to be looked up.
    has_places: bool,
    /// Of the sample that is taken: values of its keys, and addresses of its callchain with whose they are.
    values: Vec<u64>,
    path: Vec<(Level, u64)>,
    stack: Vec<LocationId>,
    given: Vec<u64>,
    /// How many threads run, where that is known.
    parallelism: u32,
}

/// Things by their numbers, each once.
#[derive(Debug, Default)]
struct Numbered<T> {
    list: Vec<T>,
    numbers: HashMap<T, u64>,
}

impl<T: Copy + Eq + std::hash::Hash> Numbered<T> {
    fn number(&mut self, thing: T) -> u64 {
        *self.numbers.entry(thing).or_insert_with(|| {
            self.list.push(thing);
            self.list.len() as u64 - 1
        })
    }
}

impl Collector {
    /// With nothing collected yet.
    pub fn new(plan: Plan) -> Self {
        let locator = Locator::new(plan.code.clone());
        Collector::with(plan, locator)
    }

    fn with(plan: Plan, locator: Locator) -> Self {
        Collector {
            has_places: plan.keys.iter().any(|key| key.is_place()),
            plan,
            locator,
            locations: Locations::default(),
            contexts: Contexts::default(),
            threads: Numbered { list: Vec::new(), numbers: HashMap::new() },
            cgroups: Numbered { list: Vec::new(), numbers: HashMap::new() },
            texts: Numbered { list: Vec::new(), numbers: HashMap::new() },
            events: Vec::new(),
            counting: Counting::default(),
            changes: 1,
            tasks: vec![Task::default(); TASKS],
            comms: FastMap::default(),
            kernel_maps: 0,
            addresses: FastMap::default(),
            chained: FastMap::default(),
            recent: Vec::new(),
            functions: FastMap::default(),
            rest: None,
            places: Places::default(),
            values: Vec::new(),
            path: Vec::new(),
            stack: Vec::new(),
            given: Vec::new(),
            parallelism: 0,
        }
    }

    /// The number of a text that is the value of a key, for [`give`](Self::give); `order` are the bytes by which it is
    /// sorted.
    pub fn text(&mut self, text: &str, order: &[u8]) -> u64 {
        let strings = &mut self.locator.strings;
        let given = Given { text: strings.id(text.as_bytes()), order: strings.id(order) };
        self.texts.number(given)
    }

    /// The values of the keys that are [given](Key::Given), of the sample that is added next.
    pub fn give(&mut self, values: &[u64]) {
        self.given.clear();
        self.given.extend_from_slice(values);
    }

    /// Tells how many threads run at the sample that is added next: [`Key::Parallelism`].
    pub fn set_parallelism(&mut self, threads: u32) {
        self.parallelism = threads;
    }

    /// Names an event. Events of two profiles that are merged are the same if they have the same name.
    pub fn name_event(&mut self, event: usize, name: &str) {
        let name = self.locator.strings.id(name.as_bytes());
        self.event(event).name = name;
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// To be told when the session was told anything but a sample.
    #[inline]
    pub fn session_changed(&mut self) {
        self.changes += 1;
    }

    /// The profile of all samples.
    pub fn finish(mut self, session: &Session) -> Profile {
        self.take(session)
    }

    /// The profile of all samples until now. The collector goes on with none, so that its memory is that of one such
    /// window, however long it goes on.
    pub fn take(&mut self, session: &Session) -> Profile {
        let names: Vec<StringId> = self.events.iter().map(|event| event.name).collect();
        let next =
            Collector { changes: self.changes, ..Collector::with(self.plan.clone(), self.locator.renewed()) };
        let mut done = std::mem::replace(self, next);
        for (event, name) in names.into_iter().enumerate() {
            let name = self.locator.strings.id(done.locator.strings.get(name));
            self.event(event).name = name;
        }
        let Counted { mut stacks, rows, times, .. } = done.counting.finish();
        stacks.close();
        let strings = &mut done.locator.strings;
        let mut thread = |&id: &u32| Thread { id, name: strings.id(&session.name_of(id)) };
        let threads = done.threads.list.iter().map(&mut thread).collect();
        let mut cgroup = |&id: &u64| Cgroup { id, path: session.cgroup(id).map(|path| strings.id(path)) };
        let cgroups = done.cgroups.list.iter().map(&mut cgroup).collect();
        Profile {
            strings: done.locator.strings,
            objects: done.locator.objects,
            locations: done.locations,
            stacks,
            keys: done.plan.keys,
            contexts: done.contexts,
            threads,
            cgroups,
            texts: done.texts.list,
            events: done.events,
            rows,
            times,
        }
    }

    #[cold]
    fn event(&mut self, event: usize) -> &mut EventSum {
        if self.events.len() <= event {
            self.events.resize_with(event + 1, EventSum::default);
        }
        &mut self.events[event]
    }

    #[inline]
    fn task(&mut self, session: &Session, pid: u32, tid: u32) -> Task {
        let place = tid as usize % TASKS;
        let known = self.tasks[place];
        match (known.tid, known.pid, known.changes) == (tid, pid, self.changes) {
            true => known,
            false => self.look_at_task(session, pid, tid),
        }
    }

    #[cold]
    fn look_at_task(&mut self, session: &Session, pid: u32, tid: u32) -> Task {
        self.kernel_maps = session.kernel_maps().id();
        let name = session.name_of(tid);
        let is_wanted = self.plan.tasks.admits(pid, tid, &name);
        let strings = &mut self.locator.strings;
        let comm = match session.comm_of(tid) {
            Some(CommId(id)) => *self.comms.entry(id).or_insert_with(|| strings.id(&name)),
            None => strings.id(&name),
        };
        let maps = session.maps_of(pid, tid);
        let (maps, makes_code) = (maps.id(), maps.jit_dump().is_some() && self.plan.code.is_some());
        let task = Task { tid, pid, changes: self.changes, comm, maps, is_wanted, makes_code };
        self.tasks[tid as usize % TASKS] = task;
        task
    }

    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, taken: &Taken<'_>) {
        let Taken { event: (event, attr), session, sample, chain, level, weight } = *taken;
        let at = ThreadTime::of(attr, sample);
        let task = self.task(session, at.pid, at.tid);
        if self.events.len() <= event {
            self.event(event);
        }
        let sum = &mut self.events[event];
        sum.samples += 1;
        // Weights of broken files must leave room, here and in every sum.
        let weight = weight.min(u64::MAX - sum.weight);
        sum.weight += weight;
        sum.chains += u64::from(chain.is_some());
        if self.parallelism > 0 {
            let latency = weight.saturating_mul(1000) / u64::from(self.parallelism);
            sum.latency = sum.latency.saturating_add(latency);
        }
        let counts = &self.plan.tasks.parallelism;
        if !task.is_wanted || !counts.is_empty() && !counts.contains(&self.parallelism) {
            return;
        }
        let chain = chain.filter(|_| self.plan.chains);
        let wanted = Wanted { session, sample, level, at, task, branch: None };
        self.values(&wanted);
        // Code that the process makes decides where its addresses are.
        let maps = match task.makes_code {
            true => {
                let code = self.locator.code_known(session, at).unwrap_or(0);
                self.locator.state_of(task.maps, code)
            }
            false => task.maps,
        };
        let mut print = Fingerprint::default();
        print.add((event as u64) << 8 | level as u64);
        print.add(maps);
        print.add(self.kernel_maps);
        self.values.iter().for_each(|&value| print.add(value));
        print.add(sample.ip.unwrap_or(0));
        if let Some(chain) = chain {
            chain.iter().for_each(|word| print.add(word));
        }
        let time_ns = sample.time.filter(|_| self.plan.times);
        if let Some(place) = self.counting.again(print.finish(), weight, time_ns) {
            let sum = Sum { weight, samples: 1, time_ns };
            let head = self.head(event, &wanted, sum, place);
            self.count(head, &wanted, maps, chain);
        }
    }

    /// Samples of an event, with the present values of its keys.
    fn head(&mut self, event: usize, of: &Wanted<'_>, sum: Sum, place: Place) -> Head {
        Head { event: event as u32, context: self.contexts.id(&self.values), thread: of.task.tid, sum, place }
    }

    /// Takes the values of all keys.
    #[inline]
    fn values(&mut self, of: &Wanted<'_>) {
        self.values.clear();
        if self.has_places {
            return self.look_up(of);
        }
        for index in 0..self.plan.keys.len() {
            let value = self.value(self.plan.keys[index], of);
            self.values.push(value);
        }
    }

    /// The values of all keys, some of which have to be looked up.
    #[cold]
    fn look_up(&mut self, of: &Wanted<'_>) {
        for index in 0..self.plan.keys.len() {
            let key = self.plan.keys[index];
            let value = if key.is_place() { self.place(key, of) } else { self.value(key, of) };
            self.values.push(value);
        }
    }

    #[inline]
    fn value(&mut self, key: Key, of: &Wanted<'_>) -> u64 {
        // Most profiles have this key alone.
        if key == Key::Comm { of.task.comm.0.into() } else { self.other_value(key, of) }
    }

    fn other_value(&mut self, key: Key, of: &Wanted<'_>) -> u64 {
        match key {
            Key::Pid => self.threads.number(of.at.tid),
            Key::Tgid => self.threads.number(of.at.pid),
            Key::Cgroup => self.cgroups.number(of.sample.cgroup.unwrap_or(0)),
            Key::Parallelism => self.parallelism.into(),
            key => value_of(key, of.sample, &self.plan, &self.given),
        }
    }

    /// Adds the branches of a sample in place of the sample, each by where it went to. Callchains do not count.
    pub fn add_branches(&mut self, taken: &Taken<'_>) {
        let Taken { event: (event, attr), session, sample, level, .. } = *taken;
        let Some(branches) = &sample.branch_stack else { return };
        let at = ThreadTime::of(attr, sample);
        let task = self.task(session, at.pid, at.tid);
        let mut wanted = Wanted { session, sample, level, at, task, branch: None };
        for branch in branches.entries.iter() {
            let sum = self.event(event);
            (sum.samples, sum.weight) = (sum.samples + 1, sum.weight.saturating_add(1));
            if !task.is_wanted {
                continue;
            }
            wanted.branch = Some(branch);
            self.values(&wanted);
            let (target, _) = self.location_of(&wanted, None, branch.to);
            let sum = Sum { weight: 1, samples: 1, time_ns: sample.time.filter(|_| self.plan.times) };
            let head = self.head(event, &wanted, sum, Place::BEHIND);
            self.counting.add(head, &[target]);
        }
    }

    /// Counts samples with their stack. The number of the maps of the program is that of the code that it has made, too.
    #[inline(never)]
    fn count(&mut self, head: Head, of: &Wanted<'_>, user_maps: u64, chain: Option<&Words<'_>>) {
        let Wanted { session, sample, level, at, .. } = *of;
        let kernel_maps = self.kernel_maps;
        let maps_of = |level| match level {
            Level::User => user_maps,
            Level::Kernel => kernel_maps,
            _ => 0,
        };
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        let mut marked = Some(level);
        for word in chain.iter().flat_map(|chain| chain.iter()).take(u16::MAX.into()) {
            match (CallchainContext::of(word), marked) {
                // Its frames were none.
                (Some(context), _) if !context.is_written() => {
                    path.clear();
                    break;
                }
                (Some(context), _) => marked = level_of(context),
                (None, Some(level)) => path.push((level, word)),
                (None, None) => {}
            }
        }
        path.truncate(self.plan.max_stack);
        // The sampled address itself is placed before its callers. It takes the place of the first address, which may be later.
        let ip = sample.ip.unwrap_or(0);
        let mut leaf = self.location_at(session, at, maps_of(level), level, ip);
        match path.first() {
            Some(&first) if first != (level, ip) => {
                let first = self.location_at(session, at, maps_of(first.0), first.0, first.1);
                leaf = self.chained(leaf, ChainStart::At(first));
            }
            Some(_) => {}
            None => {
                path.push((level, ip));
                if chain.is_some() {
                    leaf = self.chained(leaf, ChainStart::Nowhere);
                }
            }
        }
        let mut locations = std::mem::take(&mut self.stack);
        locations.clear();
        locations.reserve(path.len());
        for &(level, ip) in path[1..].iter().rev() {
            locations.push(self.location_at(session, at, maps_of(level), level, ip));
        }
        locations.push(leaf);
        self.counting.add(head, &locations);
        (self.stack, self.path) = (locations, path);
    }

    /// The place of a sample whose callchain begins elsewhere.
    fn chained(&mut self, leaf: LocationId, chain: ChainStart) -> LocationId {
        if chain == ChainStart::At(leaf) || self.locations.list.len() >= MOST_LOCATIONS {
            return leaf;
        }
        let Collector { locations, chained, .. } = self;
        *chained.entry((leaf, chain.number())).or_insert_with(|| {
            let of = locations.list[leaf.0 as usize];
            locations.id(Location { chain, ..of })
        })
    }

    /// The location of an address of a thread, when the number of the maps is known.
    #[inline(always)]
    fn location_at(
        &mut self,
        session: &Session,
        at: ThreadTime,
        maps: u64,
        level: Level,
        ip: u64,
    ) -> LocationId {
        let key = (maps << 3 | level as u64, ip);
        let place = (ip ^ ip >> 11 ^ key.0) as usize % RECENT;
        match self.recent.get(place) {
            Some((known, location)) if *known == key => *location,
            _ => self.older_location(session, at, key, level),
        }
    }

    /// The location of an address that is none of the [recent](RECENT).
    #[inline(never)]
    fn older_location(
        &mut self,
        session: &Session,
        at: ThreadTime,
        key: (u64, u64),
        level: Level,
    ) -> LocationId {
        let location = match self.addresses.get(&key) {
            Some(&known) => known,
            None => self.new_location(session, at, key, level),
        };
        // No address has this key.
        self.recent.resize(RECENT, ((u64::MAX, 0), LocationId(0)));
        self.recent[(key.1 ^ key.1 >> 11 ^ key.0) as usize % RECENT] = (key, location);
        location
    }

    #[cold]
    fn new_location(
        &mut self,
        session: &Session,
        at: ThreadTime,
        key: (u64, u64),
        level: Level,
    ) -> LocationId {
        let location = self.locator.locate(session, at, level, key.1);
        let id = match self.locations.list.len() >= MOST_LOCATIONS {
            true => self.rest(),
            false => self.own_or_of_function(location),
        };
        if self.addresses.len() >= MOST_ADDRESSES {
            self.addresses.clear();
        }
        self.addresses.insert(key, id);
        id
    }

    /// The location that stands for all those that are not told apart.
    #[cold]
    fn rest(&mut self) -> LocationId {
        let Collector { rest, locator, locations, .. } = self;
        *rest.get_or_insert_with(|| {
            let object = locator.function_object("[more than are told apart]");
            let level = Level::Unknown;
            locations.id(Location {
                object,
                level,
                ip: 0,
                address: 0,
                mapped: 0,
                time: u64::MAX,
                chain: ChainStart::Here,
            })
        })
    }
}

/// The value of a key that is the whole sample's and no place, as a number that is the same for what is to
/// be taken together.
#[inline]
fn value_of(key: Key, sample: &Sample<'_>, plan: &Plan, given: &[u64]) -> u64 {
    let cost = |number| match (sample.weight, number) {
        (Some(Weight::Struct { var2, .. }), 2) => u64::from(var2),
        (Some(Weight::Struct { var3, .. }), 3) => u64::from(var3),
        _ => 0,
    };
    match key {
        Key::Cpu => sample.cpu.map_or(u64::MAX, |cpu| cpu.cpu.into()),
        Key::Socket => {
            let cpu = sample.cpu.map(|cpu| cpu.cpu as usize);
            cpu.and_then(|cpu| plan.sockets.get(cpu)).map_or(u64::MAX, |&socket| socket.into())
        }
        Key::Time => sample.time.unwrap_or(0) / plan.time_step_ns * plan.time_step_ns,
        Key::Weight | Key::LocalWeight => sample.weight.map_or(0, Weight::first),
        Key::InsLat | Key::LocalInsLat => cost(2),
        Key::PStageCyc | Key::LocalPStageCyc => cost(3),
        Key::PhysDaddr => sample.phys_addr.unwrap_or(0),
        Key::DataPageSize => sample.data_page_size.unwrap_or(0),
        Key::CodePageSize => sample.code_page_size.unwrap_or(0),
        Key::Transaction => sample.transaction.map_or(0, |txn| txn.bits()),
        Key::Given(number) => given.get(usize::from(number)).copied().unwrap_or(0),
        // Values that read the same are one value.
        Key::Locked | Key::Tlb | Key::Mem | Key::Snoop | Key::Blocked => {
            mem::part(key, sample.data_src.unwrap_or(DataSrc::NA))
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_bounded() {
        let mut collector = Collector::new(Plan::new(&[]));
        let session = Session::new();
        let at = ThreadTime::of(&Attr::default(), &Sample::default());
        let mut location = |ip| collector.location_at(&session, at, 0, Level::User, ip);
        let last = (0..MOST_LOCATIONS as u64).map(&mut location).last();
        assert_eq!(last, Some(LocationId(MOST_LOCATIONS as u32 - 1)));
        let rest = location(u64::MAX);
        assert_eq!((rest.0 as usize, location(u64::MAX - 1)), (MOST_LOCATIONS, rest));
        let profile = collector.finish(&session);
        let object = profile.location(rest).object;
        assert_eq!(profile.object_path(object), "[more than are told apart]");
    }
}
