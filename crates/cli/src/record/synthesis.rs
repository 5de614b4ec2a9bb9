//! Records about what was there before the recording: processes with their threads, names and maps, from
//! /proc; the kernel and its modules. What ends while it is looked at is left out.

use super::tally::Tally;
use perfuse::abi::record::{
    Comm, Cpu, CpuMode, Decoded, Misc, Mmap, Mmap2, MmapFile, NamespaceLink, Namespaces, Record, SampleId,
    Task, Tid,
};
use perfuse::abi::wire::{Seq, Text};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Where synthesized records go.
pub(super) trait Receiver {
    fn take(&mut self, record: &Decoded<'_>) -> io::Result<()>;
}

/// Makes records for one recording.
pub(super) struct Synthesis<'a, R> {
    pub(super) receiver: &'a mut R,
    /// Of the event they seem to belong to.
    pub(super) id: u64,
    pub(super) data_maps: bool,
    pub(super) namespaces: bool,
    pub(super) tally: &'a mut Tally,
}

impl<R: Receiver> Synthesis<'_, R> {
    fn send(&mut self, record: Record<'_>, mode: CpuMode, flags: Misc) -> io::Result<()> {
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
    pub(super) fn everything(&mut self) -> io::Result<()> {
        numbers("/proc").into_iter().try_for_each(|pid| self.process(pid))
    }

    /// These processes and what descends from them.
    pub(super) fn families(&mut self, roots: &[u32]) -> io::Result<()> {
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
    pub(super) fn process(&mut self, pid: u32) -> io::Result<()> {
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
    pub(super) fn name(&mut self, pid: u32) -> io::Result<()> {
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
            let record = Mmap2 {
                tid: Tid { pid, tid: pid },
                addr: map.start,
                len: map.end - map.start,
                pgoff: map.offset,
                file: MmapFile::Inode { maj: map.major, min: map.minor, ino: map.inode, ino_generation: 0 },
                prot: map.prot,
                flags: map.flags,
                filename: Text::new(name),
            };
            let flags = if executable { Misc::empty() } else { Misc::MMAP_DATA };
            self.send(Record::Mmap2(record), CpuMode::USER, flags)?;
            if executable {
                self.tally.file(name, None);
            }
        }
        Ok(())
    }

    /// The kernel and its modules, as far as this user may know where they are.
    pub(super) fn kernel(&mut self) -> io::Result<()> {
        let modules = modules();
        let Some((reference, text)) = kernel_text() else { return Ok(()) };
        let first_module = modules.iter().map(|module| module.start).filter(|&start| start > text).min();
        // The end of the image is not told everywhere; what follows it is.
        let end = kernel_len().map(|len| text + len).or(first_module).unwrap_or(text | 0x3fff_ffff);
        let name = format!("[kernel.kallsyms]{reference}");
        let map = |addr, len, pgoff, name: &str| {
            // The kernel is no process.
            let tid = Tid { pid: u32::MAX, tid: 0 };
            (tid, addr, len, pgoff, name.to_owned())
        };
        let mut maps = vec![map(text, end - text, text, &name)];
        maps.extend(modules.iter().map(|module| map(module.start, module.len, 0, &module.file)));
        for (tid, addr, len, pgoff, name) in maps {
            let map = Mmap { tid, addr, len, pgoff, filename: Text::new(name.as_bytes()) };
            self.send(Record::Mmap(map), CpuMode::KERNEL, Misc::empty())?;
        }
        Ok(())
    }
}

/// The names of a folder that are numbers, in order.
pub(super) fn numbers(dir: &str) -> Vec<u32> {
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

/// The symbol by which readers tell how far the kernel was moved, and its address. `None` where the
/// addresses are hidden.
fn kernel_text() -> Option<(&'static str, u64)> {
    use std::io::Read;
    // It is among the first; making the whole list takes the kernel a tenth of a second.
    let mut file = fs::File::open("/proc/kallsyms").ok()?;
    let (mut text, mut room) = (Vec::new(), [0; 8192]);
    for _ in 0..64 {
        let count = file.read(&mut room).ok()?;
        text.extend_from_slice(&room[..count]);
        let lines = text.split(|&byte| byte == b'\n');
        let found = lines.filter_map(|line| std::str::from_utf8(line).ok()).find_map(|line| {
            let mut fields = line.split(' ');
            let address = u64::from_str_radix(fields.next()?, 16).ok()?;
            let name = fields.nth(1)?;
            let name = ["_text", "_stext"].into_iter().find(|known| *known == name)?;
            Some((name, address))
        });
        if found.is_some() || count == 0 {
            return found.filter(|(_, address)| *address != 0);
        }
    }
    None
}

/// Bytes from the start of the kernel's code to the end of its data.
fn kernel_len() -> Option<u64> {
    let text = fs::read_to_string("/proc/iomem").ok()?;
    let range = |name: &str| {
        let line = text.lines().find(|line| line.ends_with(name))?;
        let (start, end) = line.split(" : ").next()?.trim().split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    };
    let (start, _) = range("Kernel code")?;
    let (_, end) = range("Kernel data")?;
    // Those who may not know see zeros.
    (start != 0 && end > start).then(|| end + 1 - start)
}

struct Module {
    start: u64,
    len: u64,
    file: String,
}

/// The loaded modules, with their files where these are known.
fn modules() -> Vec<Module> {
    let Ok(text) = fs::File::open("/proc/modules") else { return Vec::new() };
    let loaded = perfuse_symbols::read_modules(text).unwrap_or_default();
    if loaded.is_empty() {
        return Vec::new();
    }
    let root = format!("/lib/modules/{}", perfuse_sys::uname_release());
    let list = fs::read_to_string(format!("{root}/modules.dep")).unwrap_or_default();
    let files: BTreeMap<String, &str> = list
        .lines()
        .filter_map(|line| {
            let path = line.split(':').next()?;
            let name = path.rsplit('/').next()?.split(".ko").next()?;
            Some((name.replace('-', "_"), path))
        })
        .collect();
    let module = |module: &perfuse_symbols::LoadedModule| {
        let file = match files.get(&module.name) {
            Some(path) => format!("{root}/{path}"),
            None => format!("[{}]", module.name),
        };
        Module { start: module.base, len: module.size, file }
    };
    loaded.iter().filter(|module| module.base != 0).map(module).collect()
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
