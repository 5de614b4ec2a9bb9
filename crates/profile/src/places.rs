//! Keys whose values have to be looked up: where branches came from and went to, what data was accessed, which
//! caller decides. Such a value is the number of a frame, or of an object, with the letter of its level above.

use crate::collect::{Collector, Task};
use crate::frames::{Frame, FrameId, Located, Moment, level_of};
use crate::hash::FastMap;
use crate::keys::Key;
use perfuse_abi::Attr;
use perfuse_abi::record::{BranchEntry, CallchainContext, Sample};
use perfuse_data::session::{Level, Session};
use std::fmt;
use std::sync::Arc;

/// Places that are remembered; then they are looked up again.
const MOST_PLACES: usize = 1 << 20;

/// Bytes of a cache line, of nearly all processors.
const LINE: u64 = 64;

/// Decides by the name of a function.
#[derive(Clone)]
pub struct NameTest(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl NameTest {
    /// A test by this function.
    pub fn new(test: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        NameTest(Arc::new(test))
    }

    pub(crate) fn admits(&self, name: &str) -> bool {
        self.0(name)
    }
}

impl fmt::Debug for NameTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameTest")
    }
}

/// A place that was looked up.
#[derive(Clone, Copy, Debug)]
struct Spot {
    /// The function.
    function: FrameId,
    /// The address.
    exact: FrameId,
    /// The object, the same for all of its name.
    object: u32,
    level: Level,
}

/// Places by the state of the maps, whose address it is (or any), and the address.
#[derive(Debug, Default)]
pub(crate) struct Places {
    known: FastMap<(u64, u64, u32, u64), Spot>,
    /// Cache lines by object, level and address.
    lines: FastMap<(u32, char, u64), FrameId>,
}

/// The address of the cache line that a frame is in, as its object counts.
pub(crate) fn cache_line(frame: &Frame) -> u64 {
    frame.address.wrapping_add(frame.offset) & !(LINE - 1)
}

/// The part of a sample that a value is wanted of.
pub(crate) struct Wanted<'a> {
    pub(crate) session: &'a Session,
    pub(crate) sample: &'a Sample<'a>,
    pub(crate) level: Level,
    pub(crate) at: Moment,
    pub(crate) task: Task,
    pub(crate) branch: Option<BranchEntry>,
}

/// The value of a branch's flag without a branch.
pub(crate) const NO_BRANCH: u64 = u64::MAX;

fn value(frame: FrameId, letter: char) -> u64 {
    u64::from(letter as u32) << 32 | u64::from(frame.0)
}

/// The frame of a value, and the letter of its level.
pub(crate) fn parts(value: u64) -> (FrameId, char) {
    (FrameId(value as u32), char::from_u32((value >> 32) as u32).unwrap_or('?'))
}

impl Collector {
    /// The value of a key that has to be looked up.
    pub(crate) fn place(&mut self, key: Key, of: &Wanted<'_>) -> u64 {
        let Wanted { sample, level, .. } = *of;
        let flags = of.branch.map(|branch| branch.flags);
        let flag = |flag: Option<bool>| flag.map_or(NO_BRANCH, u64::from);
        match key {
            Key::Mispredict => flags.map_or(NO_BRANCH, |flags| match (flags.predicted(), flags.mispred()) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => NO_BRANCH,
            }),
            Key::Abort => flag(flags.map(|flags| flags.abort())),
            Key::InTx => flag(flags.map(|flags| flags.in_tx())),
            Key::Cycles => flags.map_or(NO_BRANCH, |flags| flags.cycles().into()),
            Key::DsoFrom | Key::SymbolFrom | Key::AddrFrom | Key::SrclineFrom => {
                self.end_of_branch(key, of, of.branch.map(|branch| branch.from))
            }
            Key::DsoTo | Key::SymbolTo | Key::AddrTo | Key::SrclineTo => {
                self.end_of_branch(key, of, of.branch.map(|branch| branch.to))
            }
            Key::SymbolIaddr => {
                value(self.spot(of, Some(level), sample.ip.unwrap_or(0)).exact, level.letter())
            }
            Key::SymbolDaddr => {
                value(self.spot(of, Some(level), sample.addr.unwrap_or(0)).exact, level.letter())
            }
            Key::DsoDaddr => self.spot(of, Some(level), sample.addr.unwrap_or(0)).object.into(),
            Key::Dcacheline => {
                // A line is called after what of it was accessed first.
                let spot = self.spot(of, Some(level), sample.addr.unwrap_or(0));
                let frame = self.frames.get(spot.exact);
                let letter = if frame.object == 0 { 'X' } else { level.letter() };
                let key = (frame.object, letter, cache_line(frame));
                value(*self.places.lines.entry(key).or_insert(spot.exact), letter)
            }
            Key::Parent => self.parent(of).map_or(u64::MAX, |frame| frame.0.into()),
            Key::CgroupId => {
                const CGROUP: usize = 6;
                let thread = of.session.thread(of.task.tid);
                let link = thread.and_then(|thread| thread.namespaces.get(CGROUP));
                link.map_or(0, |link| link.dev << 32 | link.ino & u64::from(u32::MAX))
            }
            _ => 0,
        }
    }

    /// The symbol of the kernel at an address at the moment of a sample, and how far into it that is.
    pub fn kernel_symbol(
        &mut self,
        session: &Session,
        attr: &Attr,
        sample: &Sample<'_>,
        address: u64,
    ) -> Option<(String, u64)> {
        let located = self.frames.locate(session, Moment::of(attr, sample), Level::Kernel, address);
        let name = self.frames.get(located.frame).symbol.as_deref()?;
        Some((name.to_owned(), located.offset))
    }

    fn end_of_branch(&mut self, key: Key, of: &Wanted<'_>, address: Option<u64>) -> u64 {
        let Some(address) = address else { return NO_BRANCH };
        let spot = self.spot(of, None, address);
        match key {
            Key::DsoFrom | Key::DsoTo => spot.object.into(),
            Key::SymbolFrom | Key::SymbolTo => value(spot.function, spot.level.letter()),
            _ => value(spot.exact, of.level.letter()),
        }
    }

    /// Where a branch goes to: its function.
    pub(crate) fn target_of(&mut self, of: &Wanted<'_>, address: u64) -> FrameId {
        let spot = self.spot(of, None, address);
        if self.frames.is_by_address() { spot.exact } else { spot.function }
    }

    /// The function or object at an address of a level, or of whichever has something there.
    fn spot(&mut self, of: &Wanted<'_>, level: Option<Level>, address: u64) -> Spot {
        let Wanted { session, at, .. } = *of;
        let kind = level.map_or(u32::MAX, |level| level as u32);
        let key = (of.task.maps, session.kernel_maps().id(), kind, address);
        if let Some(&spot) = self.places.known.get(&key) {
            return spot;
        }
        let is_mapped = |level: &Level| session.resolve(at.pid, at.tid, *level, address).is_some();
        let level = level.unwrap_or_else(|| {
            let halves =
                if address >> 63 == 1 { &[Level::Kernel][..] } else { &[Level::User, Level::Kernel] };
            halves.iter().copied().find(is_mapped).unwrap_or(Level::Hypervisor)
        });
        let Located { frame: exact, is_timed, .. } = self.frames.locate_as(session, at, level, address, true);
        let function = self.frames.locate_as(session, at, level, address, false).frame;
        let object = self.frames.alias(self.frames.get(exact).object);
        let spot = Spot { function, exact, object, level };
        if !is_timed {
            if self.places.known.len() >= MOST_PLACES {
                self.places.known.clear();
            }
            self.places.known.insert(key, spot);
        }
        spot
    }

    /// The first frame of a callchain, from where the sample was on, whose function the plan's test admits.
    fn parent(&mut self, of: &Wanted<'_>) -> Option<FrameId> {
        let test = self.plan.parent.clone()?;
        let mut level = Some(of.level);
        for word in of.sample.callchain.as_ref()?.words.iter().take(u16::MAX.into()) {
            if let Some(context) = CallchainContext::of(word) {
                level = level_of(context);
                continue;
            }
            let Some(level) = level else { continue };
            let frame = self.spot(of, Some(level), word).function;
            if self.frames.get(frame).symbol.as_deref().is_some_and(|name| test.admits(name)) {
                return Some(frame);
            }
        }
        None
    }
}
