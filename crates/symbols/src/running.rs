//! Processes of a recording that still run: they tell of the code that they made, and in containers they see other files under
//! the names that the recording has.
//!
//! A number alone does not tell a process from a later one, or from one of another machine. So a process is only taken for that of
//! the recording if it has a mapping that the recording tells of: the same file at the same address.

use perfuse_files::{View, in_root_of, open_inode};
use perfuse_proc::{Map, MapText, read};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Where a process had a file mapped, as a recording tells.
#[derive(Clone, Copy, Debug)]
pub struct MappedAt<'m> {
    /// The first address.
    pub address: u64,
    /// The file's name.
    pub name: &'m [u8],
    /// Its inode; 0 if that is not told.
    pub inode: u64,
}

/// The processes that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Running {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    processes: HashMap<u32, Process>,
    /// The first process of each view of files that is not this process's.
    views: HashMap<View, u32>,
    /// That of this process, once it was looked at.
    own: OnceCell<Option<View>>,
}

#[derive(Debug)]
struct Process {
    view: Option<View>,
    /// Its mappings, once they were wanted.
    maps: Option<MapText>,
    /// It has a mapping of the recording.
    is_met: bool,
}

impl Process {
    /// Its mapping of this file at an address. The file may have been renamed or deleted.
    fn mapping(&mut self, pid: u32, of: MappedAt<'_>) -> Option<Map<'_>> {
        fn bare(name: &[u8]) -> &[u8] {
            name.strip_suffix(b" (deleted)").unwrap_or(name)
        }
        let maps = self.maps.get_or_insert_with(|| read::maps(pid).unwrap_or_default().into());
        let is_file =
            |map: &Map<'_>| map.inode != 0 && map.inode == of.inode || bare(map.name) == bare(of.name);
        let found = maps.at(of.address).filter(is_file)?;
        self.is_met = true;
        Some(found)
    }
}

impl Running {
    /// Whether a process runs that has one of these mappings of files.
    pub(crate) fn meet<'m>(&self, pid: u32, mappings: impl IntoIterator<Item = MappedAt<'m>>) -> bool {
        self.with(pid, |process, _| {
            process.is_met || mappings.into_iter().any(|mapping| process.mapping(pid, mapping).is_some())
        })
    }

    /// The process by whose root folder the file of a mapping is to be looked for, if that process sees other files than this one.
    /// Below another root folder of the same mounts (`chroot`) the kernel may tell names as they are here: there the very file is
    /// found here.
    pub(crate) fn seen_by(&self, pid: u32, mapping: MappedAt<'_>) -> Option<u32> {
        let view = self.with(pid, |process, own| {
            let view = process.view.filter(|view| own.is_some_and(|own| own != *view))?;
            let map = process.mapping(pid, mapping)?;
            let path = Path::new(OsStr::from_bytes(mapping.name));
            let is_at = |place: &Path| open_inode(place, map.device, map.inode).is_ok();
            (is_at(&in_root_of(pid, path)) || !is_at(path)).then_some(view)
        })?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Some(*known.views.entry(view).or_insert(pid))
    }

    /// Whether it was met.
    pub(crate) fn has_met(&self, pid: u32) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.processes.get(&pid).is_some_and(|process| process.is_met)
    }

    fn with<T>(&self, pid: u32, look: impl FnOnce(&mut Process, Option<View>) -> T) -> T {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let own = *known.own.get_or_init(|| View::of(std::process::id()).ok());
        let new = || Process { view: View::of(pid).ok(), maps: None, is_met: false };
        look(known.processes.entry(pid).or_insert_with(new), own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_by_its_mappings() {
        let (own, running) = (std::process::id(), Running::default());
        let text = read::maps(own).expect("its own");
        let map = perfuse_proc::maps(&text).find(|map| map.name.starts_with(b"/")).expect("the program");
        let at = |address, name, inode| MappedAt { address, name, inode };
        assert!(!running.meet(own, [at(map.start, b"/another", 0), at(1, map.name, map.inode)]));
        assert!(!running.has_met(own));
        for it in [at(map.start, map.name, 0), at(map.start, b"/renamed", map.inode)] {
            let running = Running::default();
            assert!(running.meet(own, [at(1, map.name, 0), it]) && running.has_met(own));
            // It sees the files that this process sees.
            assert_eq!(running.seen_by(own, it), None);
            assert!(!running.meet(u32::MAX, [it]));
        }
    }
}
