//! Side-band about memory. A tracer does not hear of `mmap(2)`: the map of a process is read when it has
//! exec'ed, and again when a sample shows a place that is not in it, before the sample is written.

use super::{LiveTask, Machine};
use crate::proc::{self, Map};
use crate::ptrace::Tid;
use crate::stopped::StoppedThread;
use perfuse_abi::record::MmapFile;
use perfuse_engine::{Mapping, TaskId};

/// A process's map, as the engine was told of it, by address.
#[derive(Clone, Debug, Default)]
pub(super) struct Maps {
    told: Vec<Map>,
    /// Places that were looked for in vain since the map was read: code that is no longer there, or
    /// callers that are none.
    strange: usize,
    /// Samples since its exec.
    looks: u64,
}

/// So many looks in vain are made at each reading of the map.
const MOST_STRANGE: usize = 64;

const PROT_EXEC: u32 = 4;

impl Maps {
    fn knows(&self, addr: u64) -> bool {
        let after = self.told.partition_point(|map| map.from <= addr);
        after > 0 && addr < self.told[after - 1].to && self.told[after - 1].prot & PROT_EXEC != 0
    }
}

impl Machine {
    /// A sample is about to be taken: the mappings that it shows have to be known.
    pub(super) fn see_maps(&mut self, task: TaskId, stopped: &StoppedThread) {
        let Some(&LiveTask { pid, .. }) = self.tasks.get(&task) else { return };
        let maps = &mut self.processes.entry(pid).or_default().maps;
        maps.looks += 1;
        if maps.knows(stopped.registers().ip()) {
            // Callers may be in libraries that were loaded since: looked for often while it starts, and
            // ever more seldom.
            if maps.looks.is_power_of_two() {
                self.update_maps(task);
            }
            return;
        }
        maps.strange += 1;
        if maps.told.is_empty() || maps.strange % MOST_STRANGE == 1 {
            self.update_maps(task);
        }
    }

    /// A thread has just mapped something.
    pub fn has_mapped(&mut self, tid: Tid) {
        if let Some(task) = self.task_of(tid) {
            self.update_maps(task);
        }
    }

    /// Reads the map of a task's process and tells of new mappings.
    pub(super) fn update_maps(&mut self, task: TaskId) {
        let Some(&LiveTask { pid, .. }) = self.tasks.get(&task) else { return };
        let all = proc::maps(pid);
        let now = self.now();
        let before = std::mem::take(&mut self.processes.entry(pid).or_default().maps);
        let new: Vec<Map> = all.iter().filter(|map| !before.told.contains(map)).cloned().collect();
        let mut ids = self.build_ids.take();
        self.within(task, now, |engine, cpu| {
            for map in new.iter().filter(|map| map.name != b"[vsyscall]") {
                let (maj, min, ino) = map.file;
                let name: &[u8] = if map.name.is_empty() { b"//anon" } else { &map.name };
                let mapping = Mapping {
                    addr: map.from,
                    len: map.to - map.from,
                    pgoff: map.pgoff,
                    file: MmapFile::Inode { maj, min, ino, ino_generation: 0 },
                    build_id: ids.as_mut().and_then(|ids| ids.of(pid, map)),
                    prot: map.prot,
                    flags: if map.shared { 1 } else { 2 },
                    name,
                };
                engine.mapped(task, cpu, now, &mapping);
            }
        });
        self.build_ids = ids;
        let maps = Maps { told: all, strange: before.strange, looks: before.looks };
        self.processes.entry(pid).or_default().maps = maps;
    }
}
