//! A few harmless questions to the kernel that settle a cause: events that are opened switched off and
//! closed again, and what /proc tells about the thread in question. All looking around for a diagnosis
//! is done here (and in [`Facts`]), so that [`diagnose`](super::diagnose) only thinks.

use crate::call::{Call, Subject};
use crate::facts::Facts;
use perfuse_abi::{
    Attr, AttrFlags, AuxAction, ByteOrder, EventType, OpenFlags, ReadFormat, SampleType, Software,
};
use perfuse_proc::Status;
use perfuse_sys::Errno;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

/// The answers to the questions; empty where none was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Findings {
    /// The thread that was to be measured, where it is not the caller.
    pub task: Option<Task>,
    /// Whether a software event of the calling thread, user space only, can be opened: the least there
    /// is.
    pub least: Option<Result<(), Errno>>,
    /// The size of the attr the kernel knows.
    pub attr_size: Option<u32>,
    /// Whether the event can be opened for the calling thread with nothing but its type and config.
    pub bare: Option<Result<(), Errno>>,
    /// Where that is `EINVAL`: whether it can be opened for a whole cpu instead.
    pub on_cpu: Option<Result<(), Errno>>,
    /// The parts without which the kernel's answer is another: the reasons, most specific first.
    pub culprits: Vec<Part>,
    /// Where a program that could not be run is, if it is anywhere on the PATH.
    pub program: Option<PathBuf>,
    /// The kind of descriptor that was passed as cgroup.
    pub cgroup: Option<CgroupKind>,
}

/// A kind of descriptor that somebody may pass as cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CgroupKind {
    /// The directory of a cgroup of version 2.
    Version2,
    /// The directory of a cgroup of version 1.
    Version1,
    /// Something else.
    Other,
}

/// A thread other than the caller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Task {
    /// Whether /proc knows it.
    pub exists: bool,
    /// It has ended, and only waits to be reaped.
    pub zombie: bool,
    /// Its effective user.
    pub uid: Option<u32>,
}

impl Task {
    /// A running thread of this user.
    pub fn of_user(uid: u32) -> Self {
        Task { exists: true, zombie: false, uid: Some(uid) }
    }

    /// A thread that is not there.
    pub fn absent() -> Self {
        Task::default()
    }
}

/// A part of a request that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The group leader.
    Group,
    /// A flag of the attr.
    Flag(AttrFlags),
    /// A sample field.
    Sample(SampleType),
    /// A read format.
    Read(ReadFormat),
    /// `precise_ip`.
    Precise,
    /// The period or frequency.
    Sampling,
    /// The clock.
    Clock,
    /// `aux_action`, `aux_sample_size`.
    Aux,
    /// `config1` to `config4`.
    MoreConfig,
    /// All of `exclude_*`.
    Excludes,
}

impl Findings {
    /// Looks around for what `call` may have run into.
    pub fn gather(call: &Call, subject: Option<&Subject>, errno: Errno, facts: &Facts) -> Self {
        let mut findings = Findings::default();
        if let Call::Spawn { program } = call {
            findings.program = on_the_path(program);
        }
        let Call::Open { attr, pid, cpu, leader, flags } = call else { return findings };
        if facts.reachable.is_err() || errno == Errno::EMFILE || errno == Errno::ENFILE {
            return findings;
        }
        if flags.contains(OpenFlags::PID_CGROUP) {
            findings.cgroup = Some(cgroup_kind(*pid));
        } else if *pid > 0 {
            findings.task = Some(task(*pid));
        }
        if matches!(errno, Errno::EACCES | Errno::EPERM) {
            let mut least = Attr { config: Software::DUMMY.0, ..Attr::new(EventType::SOFTWARE) };
            least.flags = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
            findings.least = Some(answer(&least, 0, -1, OpenFlags::empty()));
        }
        if errno == Errno::E2BIG {
            findings.attr_size = attr_size();
        }
        if matches!(errno, Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOENT) && !is_probe(attr.type_, facts)
        {
            debug_assert!(subject.is_some());
            findings.bare = Some(answer(&bare(attr), 0, -1, OpenFlags::empty()));
            if findings.bare == Some(Err(Errno::EINVAL)) && *pid != -1 {
                let cpu = facts.online_cpus.as_ref().and_then(|cpus| cpus.first()).copied().unwrap_or(0);
                findings.on_cpu = Some(answer(&bare(attr), -1, cpu as i32, OpenFlags::empty()));
            }
            // With unknown open flags nothing but they is looked at (rule B1).
            if errno != Errno::ENOENT && super::name::unnamed(*flags, flags.iter_names()).is_empty() {
                findings.culprits = culprits(attr, *pid, *cpu, leader.is_some(), *flags, errno);
            }
        }
        findings
    }
}

/// kprobes and uprobes point to memory of the caller and change code even while they are switched off:
/// they are not tried again.
fn is_probe(type_: EventType, facts: &Facts) -> bool {
    facts.pmu(type_).is_some_and(|pmu| pmu.name() == "kprobe" || pmu.name() == "uprobe")
}

/// Opens `attr`, switched off, and closes it.
fn answer(attr: &Attr, pid: i32, cpu: i32, flags: OpenFlags) -> Result<(), Errno> {
    let mut attr = *attr;
    attr.flags |= AttrFlags::DISABLED;
    let flags = flags & OpenFlags::PID_CGROUP | OpenFlags::FD_CLOEXEC;
    loop {
        match perfuse_sys::perf_event_open(&mut attr, pid, cpu, None, flags) {
            Ok(_closed_here) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// The event with nothing but what identifies it.
fn bare(attr: &Attr) -> Attr {
    let mut bare = Attr {
        config: attr.config,
        config1: attr.config1,
        config2: attr.config2,
        config3: attr.config3,
        config4: attr.config4,
        bp_type: attr.bp_type,
        ..Attr::new(attr.type_)
    };
    bare.size = bare.min_size();
    let modes = AttrFlags::EXCLUDE_USER | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    bare.flags = attr.flags & modes;
    bare
}

/// Leaves out one part at a time and keeps those without which the answer is another. Where there are
/// several reasons at once, no single part helps: then parts are left out one after the other, and the
/// one that made the difference is the last of the reasons.
fn culprits(attr: &Attr, pid: i32, cpu: i32, grouped: bool, flags: OpenFlags, errno: Errno) -> Vec<Part> {
    let refused = |attr: &Attr| answer(attr, pid, cpu, flags) == Err(errno);
    // The leader's descriptor is not at hand: everything is tried without it. Accepted without having
    // been in a group, the request met a passing obstacle, and no part is to blame.
    if !refused(attr) {
        return if grouped { vec![Part::Group] } else { Vec::new() };
    }
    let parts = parts(attr);
    let alone = |part: &&Part| !refused(&without(attr, **part));
    let culprits: Vec<_> = parts.iter().filter(alone).copied().collect();
    if !culprits.is_empty() {
        return culprits;
    }
    let mut left = *attr;
    for part in parts {
        left = without(&left, part);
        if !refused(&left) {
            return vec![part];
        }
    }
    Vec::new()
}

/// The parts `attr` has, the most specific first.
fn parts(attr: &Attr) -> Vec<Part> {
    let mut parts: Vec<_> = attr.flags.iter_names().map(|(_, flag)| Part::Flag(flag)).rev_by_age();
    parts.extend(attr.sample_type.iter_names().map(|(_, field)| Part::Sample(field)).rev_by_age());
    parts.extend(attr.read_format.iter_names().map(|(_, format)| Part::Read(format)).rev_by_age());
    let mut add = |there: bool, part| parts.extend(there.then_some(part));
    add(attr.flags.precise_ip() != 0, Part::Precise);
    add(attr.aux_action != AuxAction::empty() || attr.aux_sample_size != 0, Part::Aux);
    add(attr.config1 | attr.config2 | attr.config3 | attr.config4 != 0, Part::MoreConfig);
    add(attr.flags.contains(AttrFlags::USE_CLOCKID), Part::Clock);
    add(attr.sample_period != 0, Part::Sampling);
    add(attr.flags.intersects(EXCLUDES), Part::Excludes);
    parts
}

const EXCLUDES: AttrFlags = AttrFlags::EXCLUDE_USER
    .union(AttrFlags::EXCLUDE_KERNEL)
    .union(AttrFlags::EXCLUDE_HV)
    .union(AttrFlags::EXCLUDE_IDLE)
    .union(AttrFlags::EXCLUDE_HOST)
    .union(AttrFlags::EXCLUDE_GUEST);

/// Flags whose part goes by another name, or by none.
const NOT_PARTS: AttrFlags =
    EXCLUDES.union(AttrFlags::DISABLED).union(AttrFlags::FREQ).union(AttrFlags::USE_CLOCKID);

/// Newer bits have higher numbers: they are suspected first.
trait RevByAge {
    fn rev_by_age(self) -> Vec<Part>;
}

impl<I: Iterator<Item = Part>> RevByAge for I {
    fn rev_by_age(self) -> Vec<Part> {
        let mut parts: Vec<_> =
            self.filter(|part| !matches!(part, Part::Flag(flag) if NOT_PARTS.contains(*flag))).collect();
        parts.reverse();
        parts
    }
}

fn without(attr: &Attr, part: Part) -> Attr {
    let mut attr = *attr;
    match part {
        Part::Group => {}
        Part::Flag(flag) => attr.flags.remove(flag),
        Part::Sample(field) => attr.sample_type.remove(field),
        Part::Read(format) => attr.read_format.remove(format),
        Part::Precise => attr.flags = attr.flags.with_precise_ip(0),
        Part::Sampling => attr.set_period(0),
        Part::Clock => {
            attr.flags.remove(AttrFlags::USE_CLOCKID);
            attr.clockid = 0;
        }
        Part::Aux => {
            attr.aux_action = AuxAction::empty();
            attr.aux_sample_size = 0;
        }
        Part::MoreConfig => (attr.config1, attr.config2, attr.config3, attr.config4) = (0, 0, 0, 0),
        Part::Excludes => attr.flags.remove(EXCLUDES),
    }
    attr
}

/// The size the kernel writes back when it is offered one it cannot know (rule A3).
fn attr_size() -> Option<u32> {
    let mut bytes = [0; Attr::SIZE_VER0 as usize];
    Attr { size: 1, ..Attr::default() }.poke(&mut bytes, ByteOrder::NATIVE);
    let refused = perfuse_sys::perf_event_open_bytes(&mut bytes, 0, -1, None, OpenFlags::FD_CLOEXEC);
    let size = Attr::peek(&bytes, ByteOrder::NATIVE).size;
    (refused.is_err_and(|errno| errno == Errno::E2BIG) && size >= Attr::SIZE_VER0).then_some(size)
}

fn task(tid: i32) -> Task {
    let status = u32::try_from(tid).ok().and_then(perfuse_proc::read::status);
    let Some(status) = status else { return Task::absent() };
    let status = Status(&status);
    Task { exists: true, zombie: matches!(status.state(), Some('Z' | 'X')), uid: status.effective_user() }
}

/// The first file of this name where execvp(3) looks; a name with a slash is a path.
fn on_the_path(program: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.exists())
}

/// Tells a descriptor by the files below it.
fn cgroup_kind(fd: i32) -> CgroupKind {
    let has = |name| fs::metadata(format!("/proc/self/fd/{fd}/{name}")).is_ok_and(|file| file.is_file());
    match (has("cgroup.procs"), has("cgroup.controllers")) {
        (true, true) => CgroupKind::Version2,
        (true, false) => CgroupKind::Version1,
        (false, _) => CgroupKind::Other,
    }
}
