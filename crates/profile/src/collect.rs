//! Samples in, a profile for each event out. What a sample costs when its like was there before is one hash
//! over its callchain and one look into a table; only new callchains are taken apart.

use crate::filter::Filter;
#[cfg(test)]
use crate::frames::FrameId;
use crate::frames::{Frames, Moment, level_of};
use crate::hash::{FastMap, Fingerprint};
use crate::keys::Key;
use crate::tree::{NONE, Tree};
use perfuse_abi::Attr;
use perfuse_abi::record::{CallchainContext, Sample};
use perfuse_data::session::{Level, Session};

/// What to collect.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// What samples are told apart by, beside their frames.
    pub keys: Vec<Key>,
    /// Whether callchains count, or only where the samples were.
    pub chains: bool,
    /// Callchains are cut after this many addresses from where the sample was.
    pub max_stack: usize,
    /// The steps of [`Key::Time`].
    pub time_step_ns: u64,
    /// Which samples become part of the profile. What does not is still part of the whole.
    pub filter: Filter,
}

impl Plan {
    /// Callchains and all samples.
    pub fn new(keys: &[Key]) -> Self {
        let keys = keys.iter().copied().filter(|key| !key.is_of_frame()).collect();
        let filter = Filter::default();
        Plan { keys, chains: true, max_stack: usize::MAX, time_step_ns: 100_000_000, filter }
    }
}

/// What was found of one event.
#[derive(Debug, Default)]
pub struct Profile {
    /// Values of the keys that are not of frames, for each context.
    pub(crate) contexts: Vec<Box<[u64]>>,
    roots: FastMap<Box<[u64]>, u32>,
    pub(crate) tree: Tree,
    /// All samples, also those that the filter leaves out.
    pub samples: u64,
    /// The occurrences of the event that they stand for.
    pub weight: u64,
    /// Samples that have a callchain.
    pub chains: u64,
}

impl Profile {
    fn root(&mut self, values: &[u64], thread: u32) -> u32 {
        if let Some(&root) = self.roots.get(values) {
            return root;
        }
        let root = self.tree.root(self.contexts.len() as u32, thread);
        self.contexts.push(values.into());
        self.roots.insert(values.into(), root);
        root
    }
}

/// What is known of a thread, as long as nothing but samples comes.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    tid: u32,
    pid: u32,
    /// When it was looked up.
    moment: u64,
    comm: u32,
    maps: u64,
    is_wanted: bool,
    /// Whether the process tells of code that it makes.
    makes_code: bool,
}

/// A callchain that was taken apart, so that the next one need not be where they are the same.
#[derive(Debug, Default)]
struct Recent {
    event: usize,
    root: u32,
    maps: (u64, u64),
    /// How much code the process had made.
    code: u64,
    words: Vec<u64>,
    /// For each word, whose address it is and the node it led to.
    nodes: Vec<(Option<Level>, u32)>,
}

const TASKS: usize = 256;
/// Callchains that are remembered of processes that make code; then they are taken apart again.
const MOST_SEEN: usize = 1 << 20;
const RECENT: usize = 64;

/// Takes samples in.
pub struct Collector {
    plan: Plan,
    frames: Frames,
    profiles: Vec<Profile>,
    /// The node of each combination of task state, key values and callchain.
    seen: FastMap<Fingerprint, u32>,
    /// Counts what may change tasks.
    moment: u64,
    tasks: Vec<Task>,
    kernel_maps: u64,
    recent: Vec<Recent>,
    values: Vec<u64>,
    words: Vec<u64>,
}

impl Collector {
    /// With nothing collected yet.
    pub fn new(plan: Plan, frames: Frames) -> Self {
        Collector {
            plan,
            frames,
            profiles: Vec::new(),
            seen: FastMap::default(),
            moment: 1,
            tasks: vec![Task::default(); TASKS],
            kernel_maps: 0,
            recent: std::iter::repeat_with(Recent::default).take(RECENT).collect(),
            values: Vec::new(),
            words: Vec::new(),
        }
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
    pub fn finish(self) -> (Vec<Profile>, Frames) {
        let close = |mut profile: Profile| {
            profile.roots = FastMap::default();
            profile.tree.close();
            profile
        };
        let Collector { profiles, mut frames, .. } = self;
        frames.forget_addresses();
        (profiles.into_iter().map(close).collect(), frames)
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
        let is_wanted = self.plan.filter.admits_task(pid, tid, comm.map_or(&[], |comm| session.comm(comm)));
        let comm = comm.unwrap_or_default().0;
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
            self.profiles.resize_with(event + 1, Profile::default);
        }
        let profile = &mut self.profiles[event];
        profile.samples += 1;
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
        for key in &self.plan.keys {
            let value = key.value(sample, task.comm, self.plan.time_step_ns);
            self.values.push(value);
            print.add(value);
        }
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
        let node = match self.seen.get(&print) {
            Some(&node) => node,
            None => {
                let node = self.node_of(event, session, sample, level, task, (at, code));
                // Where code changes all the time, hardly anything comes twice.
                if task.makes_code && self.seen.len() >= MOST_SEEN {
                    self.seen.clear();
                }
                self.seen.insert(print, node);
                node
            }
        };
        if node != NONE {
            self.profiles[event].tree.add(node, weight);
        }
    }

    /// The node of a sample: that of its innermost frame. [`NONE`] if it is not wanted.
    fn node_of(
        &mut self,
        event: usize,
        session: &Session,
        sample: &Sample<'_>,
        level: Level,
        task: Task,
        (at, code): (Moment, u64),
    ) -> u32 {
        let Collector { plan, frames, .. } = self;
        let maps_of = |level, maps, kernel| match level {
            Level::User => maps,
            Level::Kernel => kernel,
            _ => 0,
        };
        let maps = (task.maps, self.kernel_maps);
        let ip = sample.ip.unwrap_or(0);
        let leaf = frames.frame_at(session, at, maps_of(level, maps.0, maps.1), level, ip);
        if !plan.filter.admits_frame(frames, leaf) {
            return NONE;
        }
        let profile = &mut self.profiles[event];
        let root = profile.root(&self.values, task.tid);
        self.words.clear();
        if let (true, Some(chain)) = (plan.chains, &sample.callchain) {
            self.words.extend(chain.words.iter().take(u16::MAX.into()));
        }
        let words = &mut self.words;
        let is_marker = |word: &u64| CallchainContext::of(*word).is_some();
        // The first address is where the sample was, which is known better.
        let skipped = words.iter().position(|word| !is_marker(word)).map_or(words.len(), |first| first + 1);
        let mut start = level;
        for word in &words[..skipped] {
            if let Some(context) = CallchainContext::of(*word) {
                start = level_of(context).unwrap_or(Level::Unknown);
            }
        }
        words.drain(..skipped);
        if plan.max_stack < usize::MAX {
            let mut left = plan.max_stack.saturating_sub(1);
            words.retain(|word| {
                let has_room = left > 0;
                left -= usize::from(has_room && !is_marker(word));
                is_marker(word) || has_room
            });
        }
        // What lies further out is often the same as the last time.
        let recent = &mut self.recent[task.maps as usize % RECENT];
        let is_like = (recent.event, recent.root, recent.maps, recent.code) == (event, root, maps, code);
        let pairs = words.iter().rev().zip(recent.words.iter().rev());
        let mut same = if is_like { pairs.take_while(|(one, other)| one == other).count() } else { 0 };
        let mut levels = Vec::with_capacity(words.len());
        let mut marked = Some(start);
        for word in words.iter() {
            if let Some(context) = CallchainContext::of(*word) {
                marked = level_of(context);
                levels.push(None);
            } else {
                levels.push(marked);
            }
        }
        // Addresses mean the same only under the same marker, which may lie before what is the same.
        let known = |same: usize| recent.nodes[recent.words.len() - same].0;
        if same > 0 && levels[words.len() - same] != known(same) {
            same = 0;
        }
        let mut node = if same > 0 { recent.nodes[recent.words.len() - same].1 } else { root };
        let mut fresh = Vec::with_capacity(words.len() - same);
        for (&word, &level) in words.iter().zip(&levels).rev().skip(same) {
            if let Some(level) = level {
                let maps = maps_of(level, maps.0, maps.1);
                let frame = frames.frame_at(session, at, maps, level, word);
                node = profile.tree.child(node, frame, task.tid);
            }
            fresh.push((level, node));
        }
        (recent.event, recent.root, recent.maps, recent.code) = (event, root, maps, code);
        let kept = recent.words.len() - same;
        recent.nodes.splice(..kept, fresh.into_iter().rev());
        recent.words.clear();
        recent.words.extend_from_slice(words);
        profile.tree.child(node, leaf, task.tid)
    }
}

/// A frame with its own number, for tests.
#[cfg(test)]
impl Profile {
    pub(crate) fn add_stack(&mut self, frames: &[u32], weight: u64) {
        let root = self.root(&[], 0);
        let node = frames.iter().rev().fold(root, |node, &frame| self.tree.child(node, FrameId(frame), 0));
        self.tree.add(node, weight);
        self.samples += 1;
        self.weight += weight;
    }
}
