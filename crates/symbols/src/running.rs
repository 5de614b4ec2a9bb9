//! Processes of a recording that still run: they tell of the code that they made, and in containers they see other files under
//! the names that the recording has.
//!
//! A number alone does not tell a process from a later one, or from one of another machine. So a process is only taken for that of
//! the recording if it has a mapping that the recording tells of: the same file at the same address.

use perfuse_files::View;
use perfuse_proc::read;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

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
    /// The text of its mappings, once they were wanted.
    maps: Option<Vec<u8>>,
    /// It has a mapping of the recording.
    is_met: bool,
}

impl Process {
    fn has(&mut self, pid: u32, (address, name): (u64, &[u8])) -> bool {
        let maps = self.maps.get_or_insert_with(|| read::maps(pid).unwrap_or_default());
        let bare = |name: &[u8]| name.strip_suffix(b" (deleted)").unwrap_or(name).to_vec();
        perfuse_proc::maps(maps)
            .any(|map| (map.start..map.end).contains(&address) && bare(map.name) == bare(name))
    }
}

impl Running {
    /// Whether a process runs that has one of these mappings of files, by address and name.
    pub(crate) fn meet<'m>(&self, pid: u32, mappings: impl IntoIterator<Item = (u64, &'m [u8])>) -> bool {
        self.with(pid, |process, _| {
            process.is_met |= mappings.into_iter().any(|mapping| process.has(pid, mapping));
            process.is_met
        })
    }

    /// The process by whose root folder the file of a mapping is to be looked for, if that process sees other files than this one.
    pub(crate) fn seen_by(&self, pid: u32, mapping: (u64, &[u8])) -> Option<u32> {
        let view = self.with(pid, |process, own| {
            let view = process.view.filter(|view| own.is_some_and(|own| own != *view))?;
            process.is_met |= process.has(pid, mapping);
            process.is_met.then_some(view)
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
        assert!(!running.meet(own, [(map.start, &b"/another"[..])]) && !running.has_met(own));
        assert!(!running.meet(own, [(1, map.name)]));
        assert!(running.meet(own, [(1, map.name), (map.start, map.name)]) && running.has_met(own));
        // It sees the files that this process sees.
        assert_eq!(running.seen_by(own, (map.start, map.name)), None);
        assert!(!running.meet(u32::MAX, [(map.start, map.name)]));
    }
}
