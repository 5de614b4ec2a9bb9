//! Records about what was there before the recording: processes with their threads, names and maps, from
//! /proc; cgroups. What ends while it is looked at is left out. [`kernel`] and
//! [`bpf`] add the kernel's side.

pub(crate) mod bpf;
mod kernel;

use crate::tally::Tally;
use perfuse::abi::record::{
    BuildId, Cgroup, Comm, Cpu, CpuMode, Decoded, Misc, Mmap2, MmapFile, NamespaceLink, Namespaces, Record,
    SampleId, Task, Tid,
};
use perfuse::abi::wire::{Seq, Text};
use perfuse_symbols::Elf;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where synthesized records go.
pub(crate) trait Receiver {
    fn take(&mut self, record: &Decoded<'_>) -> io::Result<()>;
}

/// The build-ids of files, by device and inode.
pub(crate) type KnownIds = HashMap<(u32, u32, u64), Option<BuildId>>;

/// Makes records for one recording.
pub(crate) struct Synthesis<'a, R> {
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
        numbers("/proc").into_iter().try_for_each(|pid| self.process(pid))
    }

    /// These processes and what descends from them.
    pub(crate) fn families(&mut self, roots: &[u32]) -> io::Result<()> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for pid in numbers("/proc") {
            if let Some(status) = Status::of(pid, pid) {
                children.entry(status.ppid).or_default().push(pid);
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
        let tids = numbers(&format!("/proc/{pid}/task"));
        // The first thread comes first, so that the others have something to come from.
        let tids = std::iter::once(pid).chain(tids.into_iter().filter(|&tid| tid != pid));
        for (index, tid) in tids.enumerate() {
            let Some(status) = Status::of(pid, tid) else { continue };
            let parent = if tid == pid { status.ppid } else { pid };
            let fork =
                Task { pid, ppid: status.ppid.max(u32::from(tid != pid) * pid), tid, ptid: parent, time: 0 };
            let fork = if tid == pid { fork } else { Task { ppid: pid, ..fork } };
            self.send(Record::Fork(fork), CpuMode::USER, Misc::empty())?;
            if self.namespaces {
                self.namespaces(pid, tid)?;
            }
            let comm = Comm { tid: Tid { pid, tid }, name: Text::new(&status.name) };
            self.send(Record::Comm(comm), CpuMode::USER, Misc::empty())?;
            if index == 0 {
                self.maps(pid)?;
            }
        }
        Ok(())
    }

    /// Only the name of a process: its maps are about to be replaced.
    pub(crate) fn name(&mut self, pid: u32) -> io::Result<()> {
        let Some(status) = Status::of(pid, pid) else { return Ok(()) };
        let comm = Comm { tid: Tid { pid, tid: pid }, name: Text::new(&status.name) };
        self.send(Record::Comm(comm), CpuMode::USER, Misc::empty())
    }

    fn namespaces(&mut self, pid: u32, tid: u32) -> io::Result<()> {
        let names = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"];
        let link = |name: &str| {
            let metadata = fs::metadata(format!("/proc/{pid}/task/{tid}/ns/{name}")).ok();
            metadata.map_or(NamespaceLink::default(), |m| NamespaceLink { dev: m.dev(), ino: m.ino() })
        };
        let links = names.map(link);
        let namespaces = Namespaces { tid: Tid { pid, tid }, links: Seq::from(&links[..]) };
        self.send(Record::Namespaces(namespaces), CpuMode::USER, Misc::empty())
    }

    fn maps(&mut self, pid: u32) -> io::Result<()> {
        let Ok(text) = fs::read(format!("/proc/{pid}/maps")) else { return Ok(()) };
        for line in text.split(|&byte| byte == b'\n') {
            let Some(map) = MapLine::parse(line) else { continue };
            let executable = map.prot & 4 != 0;
            let readable = map.prot & 1 != 0;
            if !(executable || self.data_maps && readable) {
                continue;
            }
            let name = if map.name.is_empty() { &b"//anon"[..] } else { map.name };
            let inode = MmapFile::Inode { maj: map.major, min: map.minor, ino: map.inode, ino_generation: 0 };
            let id = if executable { self.build_id(pid, &map) } else { None };
            let record = Mmap2 {
                tid: Tid { pid, tid: pid },
                addr: map.start,
                len: map.end - map.start,
                pgoff: map.offset,
                file: id.map_or(inode, MmapFile::BuildId),
                prot: map.prot,
                flags: map.flags,
                filename: Text::new(name),
            };
            let flags = if executable { Misc::empty() } else { Misc::MMAP_DATA };
            self.send(Record::Mmap2(record), CpuMode::USER, flags)?;
            if executable {
                self.tally.file(name, id.as_ref().map(BuildId::as_bytes));
            }
        }
        Ok(())
    }

    /// The build-id of what is mapped, if its file is still the same. The process may have another view of
    /// the file system than this one.
    fn build_id(&mut self, pid: u32, map: &MapLine<'_>) -> Option<BuildId> {
        let known = self.build_ids.as_mut()?;
        if map.inode == 0 {
            return None;
        }
        *known.entry((map.major, map.minor, map.inode)).or_insert_with(|| {
            let path = [format!("/proc/{pid}/root").as_bytes(), map.name].concat();
            let path = Path::new(OsStr::from_bytes(&path));
            let elf = Elf::open_mapped(path, (map.major, map.minor), map.inode).ok()?;
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

/// The names of a folder that are numbers, in order.
pub(crate) fn numbers(dir: &str) -> Vec<u32> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut all: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    all.sort_unstable();
    all
}

struct Status {
    name: Vec<u8>,
    ppid: u32,
}

impl Status {
    fn of(pid: u32, tid: u32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
        // The name is in brackets and may contain anything, brackets too.
        let open = stat.iter().position(|&byte| byte == b'(')?;
        let close = stat.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
        let ppid = rest.split_whitespace().nth(1)?.parse().ok()?;
        Some(Status { name: stat.get(open + 1..close)?.to_vec(), ppid })
    }
}

/// A line of `/proc/PID/maps`.
#[derive(Debug, PartialEq, Eq)]
struct MapLine<'a> {
    start: u64,
    end: u64,
    prot: u32,
    flags: u32,
    offset: u64,
    major: u32,
    minor: u32,
    inode: u64,
    name: &'a [u8],
}

impl<'a> MapLine<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |&byte| byte == b' ');
        let mut text = || std::str::from_utf8(fields.next()?).ok();
        let (start, end) = text()?.split_once('-')?;
        let bits = text()?.as_bytes();
        let offset = text()?;
        let (major, minor) = text()?.split_once(':')?;
        let inode = text()?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let has = |index: usize, letter: u8, bit: u32| if bits.get(index) == Some(&letter) { bit } else { 0 };
        Some(MapLine {
            start: hex(start)?,
            end: hex(end)?,
            prot: has(0, b'r', 1) | has(1, b'w', 2) | has(2, b'x', 4),
            flags: if bits.get(3) == Some(&b's') { 1 } else { 2 },
            offset: hex(offset)?,
            major: u32::from_str_radix(major, 16).ok()?,
            minor: u32::from_str_radix(minor, 16).ok()?,
            inode: inode.parse().ok()?,
            name: fields.next().unwrap_or_default().trim_ascii_start(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let line =
            b"7f12a000-7f12b000 r-xp 00001000 fe:01 1234                       /usr/lib/a b.so (deleted)";
        let map = MapLine::parse(line).unwrap();
        assert_eq!((map.start, map.end, map.offset, map.inode), (0x7f12a000, 0x7f12b000, 0x1000, 1234));
        assert_eq!((map.prot, map.flags, map.major, map.minor), (5, 2, 0xfe, 1));
        assert_eq!(map.name, b"/usr/lib/a b.so (deleted)");
        let anonymous = MapLine::parse(b"1000-2000 rw-s 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.name, anonymous.prot, anonymous.flags), (&b""[..], 3, 1));
        assert_eq!(MapLine::parse(b""), None);
    }

    #[test]
    fn this_process_has_a_name_and_a_parent() {
        let me = std::process::id();
        let status = Status::of(me, me).unwrap();
        assert!(!status.name.is_empty() && status.ppid > 0);
    }
}
