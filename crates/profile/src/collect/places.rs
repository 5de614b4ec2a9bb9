//! Values of keys that have to be looked up while samples come: where branches came from and went to, what data was
//! accessed. Such a value is the number of a location, with the letter of its level above.

use super::{Collector, Task};
use crate::hash::FastMap;
use crate::keys::Key;
use crate::locate::ThreadTime;
use crate::tables::{LocationId, NO_VALUE, location_value};
use perfuse_abi::record::{BranchEntry, Sample};
use perfuse_data::session::{Level, Session};

/// Places that are remembered; then they are looked up again.
const MOST_PLACES: usize = 1 << 20;

/// A location and its level by the state of the maps, whose address it is (or any), and the address.
pub(super) type Places = FastMap<(u64, u64, u32, u64), (LocationId, Level)>;

/// The part of a sample that a value is wanted of.
pub(super) struct Wanted<'a> {
    pub(super) session: &'a Session,
    pub(super) sample: &'a Sample<'a>,
    pub(super) level: Level,
    pub(super) at: ThreadTime,
    pub(super) task: Task,
    pub(super) branch: Option<BranchEntry>,
}

impl Collector {
    /// The value of a key that has to be looked up.
    pub(super) fn place(&mut self, key: Key, of: &Wanted<'_>) -> u64 {
        let Wanted { sample, level, .. } = *of;
        let flags = of.branch.map(|branch| branch.flags);
        let flag = |flag: Option<bool>| flag.map_or(NO_VALUE, u64::from);
        match key {
            Key::Mispredict => flags.map_or(NO_VALUE, |flags| match (flags.predicted(), flags.mispred()) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => NO_VALUE,
            }),
            Key::Abort => flag(flags.map(|flags| flags.abort())),
            Key::InTx => flag(flags.map(|flags| flags.in_tx())),
            Key::Cycles => flags.map_or(NO_VALUE, |flags| flags.cycles().into()),
            Key::DsoFrom | Key::SymbolFrom | Key::AddrFrom | Key::SrclineFrom => {
                self.end_of_branch(key, of, of.branch.map(|branch| branch.from))
            }
            Key::DsoTo | Key::SymbolTo | Key::AddrTo | Key::SrclineTo => {
                self.end_of_branch(key, of, of.branch.map(|branch| branch.to))
            }
            Key::SymbolIaddr => {
                let (location, _) = self.location_of(of, Some(level), sample.ip.unwrap_or(0));
                location_value(location, level.letter())
            }
            Key::SymbolDaddr | Key::DsoDaddr | Key::Dcacheline => {
                let (location, _) = self.location_of(of, Some(level), sample.addr.unwrap_or(0));
                location_value(location, level.letter())
            }
            Key::CgroupId => {
                const CGROUP: usize = 6;
                let thread = of.session.thread(of.task.tid);
                let link = thread.and_then(|thread| thread.namespaces.get(CGROUP));
                link.map_or(0, |link| link.dev << 32 | link.ino & u64::from(u32::MAX))
            }
            _ => 0,
        }
    }

    fn end_of_branch(&mut self, key: Key, of: &Wanted<'_>, address: Option<u64>) -> u64 {
        let Some(address) = address else { return NO_VALUE };
        let (location, level) = self.location_of(of, None, address);
        let is_function = matches!(key, Key::SymbolFrom | Key::SymbolTo);
        location_value(location, if is_function { level } else { of.level }.letter())
    }

    /// The location of an address at a level, or at the level that has something there.
    pub(super) fn location_of(
        &mut self,
        of: &Wanted<'_>,
        level: Option<Level>,
        address: u64,
    ) -> (LocationId, Level) {
        let Wanted { session, at, .. } = *of;
        let kind = level.map_or(u32::MAX, |level| level as u32);
        let key = (of.task.maps, session.kernel_maps().id(), kind, address);
        if let Some(&known) = self.places.get(&key) {
            return known;
        }
        let is_mapped = |level: &Level| session.resolve(at.pid, at.tid, *level, address).is_some();
        let level = level.unwrap_or_else(|| {
            let halves =
                if address >> 63 == 1 { &[Level::Kernel][..] } else { &[Level::User, Level::Kernel] };
            halves.iter().copied().find(is_mapped).unwrap_or(Level::Hypervisor)
        });
        let location = self.locator.locate(session, at, level, address);
        let is_timed = location.is_timed();
        let found = (self.locations.id(location), level);
        if !is_timed {
            if self.places.len() >= MOST_PLACES {
                self.places.clear();
            }
            self.places.insert(key, found);
        }
        found
    }
}
