//! Probes in programs: the PMU `uprobe`. A place is a file and an offset in it; where that is in a process its
//! map tells, and the supervisor puts traps there.

use super::Machine;
use crate::bpf::{Probe, Sight};
use crate::proc;
use crate::ptrace::Tid;
use crate::remote;
use crate::step;
use crate::stopped::StoppedThread;
use crate::text;
use crate::tracepoints::{self, ProbeHit, ProbePoint};
use perfuse_abi::{Attr, ByteOrder, Errno, EventType};
use perfuse_engine::{EventKey, Filter, Hit, PmuId, ProbePmu, Probes, TaskId};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a probe is.
#[derive(Clone, Debug)]
struct ProbeLocation {
    path: Vec<u8>,
    device: (u32, u32),
    inode: u64,
    offset: u64,
    /// The address where the program counts its listeners; 0: none.
    semaphore: u64,
    /// It is of the returns of the function there.
    returns: bool,
    /// The tracepoint that it is of.
    point: Option<Arc<ProbePoint>>,
}

impl PartialEq for ProbeLocation {
    fn eq(&self, other: &Self) -> bool {
        let place = |of: &Self| (of.device, of.inode, of.offset, of.semaphore, of.returns);
        let point = |of: &Self| of.point.as_ref().map(Arc::as_ptr);
        place(self) == place(other) && point(self) == point(other) && self.path == other.path
    }
}

impl ProbeLocation {
    /// Where an offset of the file is in a process. Some file systems tell maps another device than callers of
    /// stat(2).
    fn find(&self, offset: u64, prot: u32, maps: &[proc::Map]) -> Vec<u64> {
        let is_it = |map: &&proc::Map| {
            let (major, minor, inode) = map.file;
            inode == self.inode && ((major, minor) == self.device || map.name == self.path)
        };
        let there = maps.iter().filter(is_it).filter(|map| map.prot & prot != 0);
        let inside = there.filter(|map| (map.pgoff..map.pgoff + (map.to - map.from)).contains(&offset));
        inside.map(|map| map.from + (offset - map.pgoff)).collect()
    }
}

/// A file that a probe is to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbedFile {
    /// It is a regular one.
    pub is_file: bool,
    /// Its bytes.
    pub len: u64,
    /// Its device, major and minor.
    pub device: (u32, u32),
    /// Its inode.
    pub inode: u64,
}

impl ProbedFile {
    /// The file that a path of a thread's leads to, for this process.
    fn seen_by(tid: Tid, path: &[u8]) -> Result<Self, Errno> {
        let seen = match path.strip_prefix(b"/") {
            Some(rest) => PathBuf::from(format!("/proc/{tid}/root")).join(OsStr::from_bytes(rest)),
            None => PathBuf::from(format!("/proc/{tid}/cwd")).join(OsStr::from_bytes(path)),
        };
        Self::at(&seen)
    }

    /// The file at a path of this process.
    pub(crate) fn at(path: &Path) -> Result<Self, Errno> {
        let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::ENOENT));
        let file = path.metadata().map_err(failed)?;
        let device = (libc::major(file.dev()) as u32, libc::minor(file.dev()) as u32);
        Ok(ProbedFile { is_file: file.is_file(), len: file.len(), device, inode: file.ino() })
    }
}

/// The probes at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProbesAt {
    /// Of threads that come there.
    pub(crate) own: Vec<u64>,
    /// Of the returns of the function that begins there.
    pub(crate) returns: Vec<u64>,
}

/// The traps and semaphores that are to be in the memory of a process.
#[derive(Debug, Default)]
pub(crate) struct WantedTraps {
    /// Traps, and the probes that they are of.
    pub(crate) traps: BTreeMap<u64, ProbesAt>,
    /// Semaphores.
    pub(crate) semaphores: Vec<u64>,
    /// There are events on it, whether or not their files are there.
    pub(crate) any: bool,
}

/// All places, and the events of them.
#[derive(Debug)]
pub(super) struct ProbeTable {
    pmu: PmuId,
    /// As programs know it.
    pub(super) type_: EventType,
    in_engine: EventType,
    /// By the number that is told the engine.
    all: Vec<ProbeLocation>,
    events: BTreeMap<EventKey, u64>,
    /// Events whose programs run in all processes that they may see.
    carriers: BTreeMap<EventKey, Sight>,
    changed: bool,
}

/// Numbers stand in the place of paths when the engine sees an attr: below zero the errno of a place that is refused, as it is told
/// only where nothing else is wrong.
#[derive(Debug)]
struct Numbered;

impl Probes for Numbered {
    fn set(&mut self, attr: &Attr, _returns: bool) -> Result<u64, Errno> {
        match attr.config1 as i64 {
            0.. => Ok(attr.config1),
            refused => Err(Errno(-refused as i32)),
        }
    }

    fn clear(&mut self, _number: u64) {}

    fn filter(&mut self, _number: u64, text: &str) -> Result<Filter, Errno> {
        tracepoints::filter_of_probe(text)
    }
}

/// The type of the PMU `uprobe` where Linux has none, and in the engine where clocks have Linux's number: one that no PMU of Linux gets.
pub const UPROBE: EventType = EventType(step::TYPE.0 + 1);

/// The numbers up to this one are other PMUs' in the engine: its clocks have the last two.
const LAST_OF_OTHERS: EventType = EventType(7);

/// The type that Linux gives to the PMU of this name, by which programs know it; if it tells none, [our own](UPROBE).
fn type_of_uprobe() -> EventType {
    let text = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type").unwrap_or_default();
    let told = text.trim().parse().ok().map(EventType);
    told.filter(|&type_| type_ > EventType::BREAKPOINT).unwrap_or(UPROBE)
}

/// The type in the engine. Kernels whose clocks have no types of their own give the PMU one that clocks have there.
fn in_engine(type_: EventType) -> EventType {
    if type_ > LAST_OF_OTHERS { type_ } else { UPROBE }
}

const PROT_WRITE: u32 = 2;
const PROT_EXEC: u32 = 4;

impl ProbeTable {
    pub(super) fn new(engine: &mut perfuse_engine::Engine) -> Option<Self> {
        let type_ = type_of_uprobe();
        let in_engine = in_engine(type_);
        let pmu = ProbePmu::uprobe(Box::new(Numbered)).of_type(in_engine).for_everybody();
        let pmu = engine.register(Box::new(pmu)).ok()?;
        let (events, carriers) = (BTreeMap::new(), BTreeMap::new());
        Some(ProbeTable { pmu, type_, in_engine, all: Vec::new(), events, carriers, changed: false })
    }
}

impl ProbeTable {
    /// The number of a place.
    fn number(&mut self, place: ProbeLocation) -> u64 {
        let known = self.all.iter().position(|known| *known == place);
        let number = known.unwrap_or_else(|| {
            self.all.push(place);
            self.all.len() - 1
        });
        number as u64
    }

    /// The probe of an event.
    pub(super) fn probe_of(&self, event: EventKey) -> Option<Probe> {
        let place = self.all.get(*self.events.get(&event)? as usize)?;
        let ProbeLocation { path, offset, semaphore, returns, .. } = place.clone();
        Some(Probe { path, offset, semaphore, returns })
    }
}

/// An attr that is long enough for the engine not to refuse it.
fn whole(attr: &[u8]) -> Option<Attr> {
    let is_whole = attr.len() >= Attr::SIZE_VER0 as usize;
    is_whole.then(|| Attr::peek(attr, ByteOrder::NATIVE))
}

impl Machine {
    /// Whether an attr is of a probe; the address of its path.
    pub(crate) fn is_probe(&self, attr: &[u8]) -> Option<u64> {
        let (seen, places) = (whole(attr)?, self.places.as_ref()?);
        (places.type_ == seen.type_).then(|| seen.uprobe_path())
    }

    /// An attr of a probe, of a caller in whose memory the path is, becomes what the engine is to see; the answer is the
    /// number of the place. `target`: who is to have it.
    pub(super) fn place_probe(
        &mut self,
        caller: TaskId,
        attr: &mut [u8],
        file: Option<Result<ProbedFile, Errno>>,
        target: Option<TaskId>,
    ) -> Option<u64> {
        let (seen, places) = (whole(attr)?, self.places.as_ref()?);
        let in_engine = places.in_engine;
        if seen.type_ != places.type_ {
            // A number that only the engine has for it is nobody's.
            if seen.type_ == in_engine {
                Attr { type_: EventType(u32::MAX), ..seen }.poke(attr, ByteOrder::NATIVE);
            }
            return None;
        }
        let number = self.number_of_probe(caller, &seen, file).and_then(|number| {
            target.map_or(Ok(()), |target| self.may_be_trapped(target, number))?;
            Ok(number)
        });
        let config1 = number.unwrap_or_else(|errno| (-i64::from(errno.0)) as u64);
        Attr { config1, type_: in_engine, ..seen }.poke(attr, ByteOrder::NATIVE);
        number.ok()
    }

    /// Paths and offsets are answered here as Linux does (rule J51).
    fn number_of_probe(
        &mut self,
        caller: TaskId,
        seen: &Attr,
        file: Option<Result<ProbedFile, Errno>>,
    ) -> Result<u64, Errno> {
        let (config, path, offset) = (seen.config, seen.uprobe_path(), seen.probe_offset());
        let tid = self.tasks.get(&caller).map(|known| known.tid).ok_or(Errno::ESRCH)?;
        if path == 0 {
            return Err(Errno::EINVAL);
        }
        let mut bytes = vec![0; libc::PATH_MAX as usize];
        let got = remote::read(tid, path, &mut bytes).map_err(|_| Errno::EFAULT)?;
        let unended = if got == bytes.len() { Errno::E2BIG } else { Errno::EFAULT };
        let end = bytes[..got].iter().position(|&byte| byte == 0).ok_or(unended)?;
        let path = bytes[..end].to_vec();
        if path.is_empty() {
            return Err(Errno::EINVAL);
        }
        let file = file.unwrap_or_else(|| ProbedFile::seen_by(tid, &path))?;
        let (returns, semaphore) = (config & 1 != 0, config >> 32);
        // Offsets are signed in Linux: nothing is behind the end that is before the beginning.
        let is_beyond = offset as i64 > file.len as i64;
        // `UPROBE_SWBP_INSN_SIZE` is 1 on x86.
        let is_within = cfg!(target_arch = "aarch64") && offset % 4 != 0;
        if file.is_file && !proc::files_have_pages(tid, file.device) {
            return Err(Errno::EIO);
        }
        if !file.is_file || is_beyond || is_within || semaphore % 2 != 0 {
            return Err(Errno::EINVAL);
        }
        let ProbedFile { device, inode, .. } = file;
        let place = ProbeLocation { path, device, inode, offset, semaphore, returns, point: None };
        Ok(self.places.as_mut().ok_or(Errno::ENOENT)?.number(place))
    }

    /// The number of the place of a tracepoint that is one of a probe; nothing of other attrs. `ENOTSUPP` as of probes.
    pub(super) fn place_tracepoint(
        &mut self,
        seen: &Attr,
        target: Option<TaskId>,
    ) -> Option<Result<u64, Errno>> {
        let is_tracepoint = seen.type_ == EventType::TRACEPOINT;
        let point = is_tracepoint.then(|| tracepoints::probe_point(seen.config)).flatten()?;
        let ProbePoint { path, offset, semaphore, returns, .. } = &*point;
        let (path, (device, inode)) = (path.clone(), (point.file.device, point.file.inode));
        let (offset, semaphore, returns) = (*offset, *semaphore, *returns);
        let point = Some(point);
        let place = ProbeLocation { path, device, inode, offset, semaphore, returns, point };
        let number = self.places.as_mut()?.number(place);
        Some(target.map_or(Ok(()), |target| self.may_be_trapped(target, number)).map(|()| number))
    }

    /// `ENOTSUPP` of a place where the target has an instruction that Linux puts no probe on.
    fn may_be_trapped(&self, target: TaskId, number: u64) -> Result<(), Errno> {
        /// The kernel's own, which it lets out.
        const ENOTSUPP: Errno = Errno(524);
        let Some((places, known)) = self.places.as_ref().zip(self.tasks.get(&target)) else { return Ok(()) };
        let at = |number: u64| {
            let place = &places.all[number as usize];
            (place.device, place.inode, place.offset)
        };
        // There may be a trap of ours.
        if places.events.values().any(|&other| at(other) == at(number)) || proc::is_narrow(known.pid) {
            return Ok(());
        }
        let place = &places.all[number as usize];
        for addr in place.find(place.offset, PROT_EXEC, &proc::maps(known.pid)) {
            let mut code = [0; 15];
            let got = remote::read(known.tid, addr, &mut code).unwrap_or(0);
            if text::is_refused(&code[..got]) {
                return Err(ENOTSUPP);
            }
        }
        Ok(())
    }

    /// `carries`: the processes in which it is besides, for its programs.
    pub(super) fn probe_opened(&mut self, event: EventKey, number: u64, carries: Option<Sight>) {
        let Some(places) = &mut self.places else { return };
        places.events.insert(event, number);
        places.changed = true;
        if let Some(sight) = carries {
            places.carriers.insert(event, sight);
            self.engine.run_for_all(event);
            self.bpf.set_carrier(event, true);
        }
    }

    pub(super) fn probe_closed(&mut self, event: EventKey) {
        if let Some(places) = &mut self.places {
            places.changed |= places.events.remove(&event).is_some();
            if places.carriers.remove(&event).is_some() {
                self.bpf.set_carrier(event, false);
            }
        }
    }

    /// Whether there are probes.
    pub(crate) fn has_probes(&self) -> bool {
        self.places.as_ref().is_some_and(|places| !places.events.is_empty())
    }

    /// Whether there are others than when this was asked last.
    pub(crate) fn take_probe_change(&mut self) -> bool {
        self.places.as_mut().is_some_and(|places| std::mem::take(&mut places.changed))
    }

    /// Whether `take_probe_change` has something to tell.
    pub fn probes_have_changed(&self) -> bool {
        self.places.as_ref().is_some_and(|places| places.changed)
    }

    /// The traps and semaphores that the events on a process want.
    pub(crate) fn probes_of(&self, pid: Tid) -> WantedTraps {
        let mut wanted = WantedTraps::default();
        let Some(places) = self.places.as_ref().filter(|places| !places.events.is_empty()) else {
            return wanted;
        };
        let of_process = |task: &TaskId| self.tasks.get(task).is_some_and(|known| known.pid == pid);
        let mut maps = None;
        for (&event, &number) in &places.events {
            let is_carried = || places.carriers.get(&event).is_some_and(|sight| sight.has(pid));
            if !self.engine.targets(event).iter().any(of_process) && !is_carried() {
                continue;
            }
            wanted.any = true;
            let (place, maps) = (&places.all[number as usize], maps.get_or_insert_with(|| proc::maps(pid)));
            for addr in place.find(place.offset, PROT_EXEC, maps) {
                let at = wanted.traps.entry(addr).or_default();
                let numbers = if place.returns { &mut at.returns } else { &mut at.own };
                if !numbers.contains(&number) {
                    numbers.push(number);
                }
            }
            if place.semaphore != 0 {
                wanted.semaphores.extend(place.find(place.semaphore, PROT_WRITE, maps));
            }
        }
        wanted
    }

    /// A task, stopped at a trap, has come to probes. `function`: from where it has returned, if it has.
    pub(crate) fn probed(
        &mut self,
        task: TaskId,
        numbers: &[u64],
        function: Option<u64>,
        stopped: &StoppedThread,
    ) {
        let (Some(places), Some((_, tid))) = (&self.places, self.tid_of(task)) else { return };
        let pmu = places.pmu;
        // Those of tracepoints have records of their own.
        let told = numbers.iter().map(|&number| {
            match places.all.get(number as usize).and_then(|place| place.point.as_deref()) {
                Some(point) => {
                    (point.id, Some(point.record(ProbeHit::new(tid, stopped.registers(), function))))
                }
                None => (number, None),
            }
        });
        let told: Vec<(u64, Option<Vec<u8>>)> = told.collect();
        // As Linux writes it: no type, no flags, the thread; then the function, if it is left, and the address.
        let mut record = vec![0; 4];
        record.extend(tid.to_ne_bytes());
        record.extend(function.into_iter().flat_map(u64::to_ne_bytes));
        record.extend(perfuse_engine::CpuState::ip(stopped).to_ne_bytes());
        self.happened(task, stopped, |engine, cpu, now| {
            for (id, own) in &told {
                match own {
                    Some(own) => engine.tracepoint(cpu, now, &Hit::new(*id, own), stopped),
                    None => engine.probe(pmu, cpu, now, &Hit::new(*id, &record), stopped),
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_has_linux_number_if_it_is_nobodys() {
        for linux in 8..1000 {
            assert_eq!(in_engine(EventType(linux)), EventType(linux));
        }
        // Clocks have these in the engine; what stands for them is no number of Linux's PMUs.
        for clock in [6, 7] {
            let other = in_engine(EventType(clock));
            assert!(other.0 > i32::MAX as u32 / 2 && other != step::TYPE, "{other:?}");
        }
    }
}
