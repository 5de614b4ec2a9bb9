//! Records about what was there before the recording: processes with their threads, names and maps, from
//! /proc; cgroups. A process that ends while it is looked at is left out. [`kernel`] and
//! [`bpf`] add the kernel's side.

pub(crate) mod bpf;
mod kernel;

use crate::tally::{MappedFile, Tally};
use perfuse::abi::record::{
    BuildId, Cgroup, Comm, Cpu, CpuMode, Decoded, Misc, Mmap2, MmapFile, NamespaceLink, Namespaces, Record,
    SampleId, Task, Tid,
};
use perfuse::abi::wire::{Seq, Text};
use perfuse::kernel::Surroundings;
use perfuse_proc::{Map, read};
use perfuse_symbols::Elf;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `MAP_*` of mappings.
const MAP_SHARED: u32 = 1;
const MAP_PRIVATE: u32 = 2;

/// Where synthesized records go.
pub(crate) trait Receiver {
    fn take(&mut self, record: &Decoded<'_>) -> io::Result<()>;
}

/// The build-ids of files, by device and inode.
pub(crate) type KnownIds = HashMap<(u32, u32, u64), Option<BuildId>>;

/// Makes records for one recording.
pub(crate) struct Synthesis<'a, R> {
    pub(crate) surroundings: &'a dyn Surroundings,
    pub(crate) receiver: &'a mut R,
    /// Of the event they seem to belong to.
    pub(crate) id: u64,
    pub(crate) data_maps: bool,
    pub(crate) namespaces: bool,
    /// Maps tell build-ids in place of inodes.
    pub(crate) build_ids: Option<KnownIds>,
    pub(crate) tally: &'a mut Tally,
}

impl<R: Receiver> Synthesis<'_, R> {
    pub(crate) fn send(&mut self, record: Record<'_>, mode: CpuMode, flags: Misc) -> io::Result<()> {
        let zero = Tid { pid: 0, tid: 0 };
        let sample_id = SampleId {
            tid: Some(zero),
            time: Some(0),
            id: Some(self.id),
            stream_id: Some(self.id),
            cpu: Some(Cpu::from(0)),
            identifier: Some(self.id),
        };
        let misc = flags.with_cpu_mode(mode);
        self.receiver.take(&Decoded { misc, sample_id, ..Decoded::from(record) })
    }

    /// All processes.
    pub(crate) fn everything(&mut self) -> io::Result<()> {
        self.surroundings.processes().into_iter().try_for_each(|pid| self.process(pid))
    }

    /// These processes and what descends from them.
    pub(crate) fn families(&mut self, roots: &[u32]) -> io::Result<()> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for pid in self.surroundings.processes() {
            if let Some((_, parent)) = self.surroundings.name_and_parent(pid, pid) {
                children.entry(parent).or_default().push(pid);
            }
        }
        let mut left = roots.to_vec();
        while let Some(pid) = left.pop() {
            self.process(pid)?;
            left.extend(children.remove(&pid).unwrap_or_default());
        }
        Ok(())
    }

    /// A process: its threads with names, and its maps.
    pub(crate) fn process(&mut self, pid: u32) -> io::Result<()> {
        let tids = self.surroundings.threads(pid).unwrap_or_default();
        // The first thread comes first, so that the others have something to come from.
        let tids = std::iter::once(pid).chain(tids.into_iter().filter(|&tid| tid != pid));
        for (index, tid) in tids.enumerate() {
            let Some((name, ppid)) = self.surroundings.name_and_parent(pid, tid) else { continue };
            let parent = if tid == pid { ppid } else { pid };
            let fork = Task { pid, ppid: ppid.max(u32::from(tid != pid) * pid), tid, ptid: parent, time: 0 };
            let fork = if tid == pid { fork } else { Task { ppid: pid, ..fork } };
            self.send(Record::Fork(fork), CpuMode::USER, Misc::empty())?;
            if self.namespaces {
                self.namespaces(pid, tid)?;
            }
            let comm = Comm { tid: Tid { pid, tid }, name: Text::new(&name) };
            self.send(Record::Comm(comm), CpuMode::USER, Misc::empty())?;
            if index == 0 {
                self.maps(pid)?;
            }
        }
        Ok(())
    }

    /// Only the name of a process: its maps are about to be replaced.
    pub(crate) fn name(&mut self, pid: u32) -> io::Result<()> {
        let Some((name, _)) = self.surroundings.name_and_parent(pid, pid) else { return Ok(()) };
        let comm = Comm { tid: Tid { pid, tid: pid }, name: Text::new(&name) };
        self.send(Record::Comm(comm), CpuMode::USER, Misc::empty())
    }

    fn namespaces(&mut self, pid: u32, tid: u32) -> io::Result<()> {
        let links = read::namespaces(tid).map(|(dev, ino)| NamespaceLink { dev, ino });
        let namespaces = Namespaces { tid: Tid { pid, tid }, links: Seq::from(&links[..]) };
        self.send(Record::Namespaces(namespaces), CpuMode::USER, Misc::empty())
    }

    fn maps(&mut self, pid: u32) -> io::Result<()> {
        let Ok(text) = self.surroundings.maps(pid) else { return Ok(()) };
        for map in perfuse_proc::maps(&text) {
            let executable = map.prot & Map::EXEC != 0;
            let readable = map.prot & Map::READ != 0;
            if !(executable || self.data_maps && readable) {
                continue;
            }
            let name = if map.name.is_empty() { &b"//anon"[..] } else { map.name };
            let inode =
                MmapFile::Inode { maj: map.device.0, min: map.device.1, ino: map.inode, ino_generation: 0 };
            let id = if executable { self.build_id(pid, &map) } else { None };
            let record = Mmap2 {
                tid: Tid { pid, tid: pid },
                addr: map.start,
                len: map.len(),
                pgoff: map.offset,
                file: id.map_or(inode, MmapFile::BuildId),
                prot: map.prot,
                flags: if map.shared { MAP_SHARED } else { MAP_PRIVATE },
                filename: Text::new(name),
            };
            let flags = if executable { Misc::empty() } else { Misc::MMAP_DATA };
            self.send(Record::Mmap2(record), CpuMode::USER, flags)?;
            if executable {
                let file = match &id {
                    Some(id) => MappedFile::Identified(id.as_bytes().to_vec()),
                    None => MappedFile::Mapped(pid, Some((map.device, map.inode))),
                };
                self.tally.file(name, file);
            }
        }
        Ok(())
    }

    /// The build-id of what is mapped, if its file is still the same. The process may have another view of
    /// the file system than this one.
    fn build_id(&mut self, pid: u32, map: &Map<'_>) -> Option<BuildId> {
        let known = self.build_ids.as_mut()?;
        if map.inode == 0 {
            return None;
        }
        *known.entry((map.device.0, map.device.1, map.inode)).or_insert_with(|| {
            let path = [format!("/proc/{pid}/root").as_bytes(), map.name].concat();
            let path = Path::new(OsStr::from_bytes(&path));
            let elf = Elf::open_mapped(path, map.device, map.inode).ok()?;
            BuildId::new(elf.build_id().ok()??.as_bytes())
        })
    }

    /// All cgroups: their numbers in samples are those of their folders.
    pub(crate) fn cgroups(&mut self) -> io::Result<()> {
        let Ok(root) = perfuse::Cgroup::open("/") else { return Ok(()) };
        let root = root.path();
        if root == Path::new("/") {
            return Ok(()); // No cgroups are mounted.
        }
        let mut left = vec![root.to_owned()];
        while let Some(folder) = left.pop() {
            let Ok(metadata) = fs::metadata(&folder) else { continue };
            let below = folder.strip_prefix(root).unwrap_or(&folder);
            let path = [b"/", below.as_os_str().as_bytes()].concat();
            let cgroup = Cgroup { id: metadata.ino(), path: Text::new(&path) };
            self.send(Record::Cgroup(cgroup), CpuMode::default(), Misc::empty())?;
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            left.extend(folders.map(|entry| entry.path()));
        }
        Ok(())
    }
}
